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
        self._promise = np.array([worth.measure is Measure.PROMISE for worth in worths])
        self._queue = np.array([worth.measure is Measure.QUEUE for worth in worths])

    def worth(
        self, speeds: NDArray[np.float64], concerned: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Summed worth over the last axis, of the tenants concerned by each first index."""
        factor = speeds
        if self._promise.any():
            kept = on_time_share(self.load, self._request, np.maximum(speeds, 1e-6))
            factor = np.where(self._promise, kept, factor)
        if self._queue.any():
            spare = np.maximum(speeds - self.load, NEARLY_FULL * self.load)
            factor = np.where(self._queue, -self.load / spare, factor)
        counted = concerned * self.value
        total: NDArray[np.float64] = np.einsum("lsm,lm->ls", factor, counted)
        return total
