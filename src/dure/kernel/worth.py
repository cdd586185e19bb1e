"""Worth of many speeds at once: the same curves as `Worth.at`, over arrays."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dure.kernel.policies.base import NEARLY_FULL, Measure, Worth
from dure.kernel.queueing import on_time_share
from dure.kernel.track import Track


class WorthTable:
    """The worth of a set of tenants, columns in their order.

    Jobs that are there only part of the time count for that part.
    """

    def __init__(self, worths: Sequence[Worth], tracks: Sequence[Track]) -> None:
        presence = [
            1.0 if worth.measure is not Measure.PROGRESS else max(track.demand, 0.01)
            for worth, track in zip(worths, tracks, strict=True)
        ]
        self.value = np.array(
            [worth.value * part for worth, part in zip(worths, presence, strict=True)]
        )
        self.load = np.array([worth.load for worth in worths])
        self._request = np.array([worth.request for worth in worths])
        self._promise = np.flatnonzero([w.measure is Measure.PROMISE for w in worths])
        self._queue = np.flatnonzero([w.measure is Measure.QUEUE for w in worths])

    def worth(
        self, speeds: NDArray[np.float64], concerned: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Summed worth over tenants (last axis), each counted as `concerned` says by lead."""
        factor = speeds.copy()
        if self._promise.size:
            own = np.maximum(speeds[..., self._promise], 1e-6)
            load, request = self.load[self._promise], self._request[self._promise]
            factor[..., self._promise] = on_time_share(load, request, own)
        if self._queue.size:
            load = self.load[self._queue]
            spare = np.maximum(speeds[..., self._queue] - load, NEARLY_FULL * load)
            factor[..., self._queue] = -load / spare
        total: NDArray[np.float64] = np.einsum("klsm,lm->kls", factor, concerned)
        return total
