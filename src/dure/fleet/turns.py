"""How long requests wait for their turn where a service would get a queue unit.

A queue unit has no slice of its own: a device that others keep busy makes its requests wait. The
weights bound that: at worst the unit has its share of the device to itself.
"""

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.slices import WHOLE_MILLI, ShareMode, expected_wait_s, worst_wait_s
from dure.domain.fleet.workloads import Service
from dure.fleet.fit import replica_rate
from dure.fleet.global_state import GlobalState
from dure.fleet.sites import DEVICES, Floats
from dure.fleet.tracks import Track

_MS_PER_S = 1000.0


def queue_sites(state: GlobalState) -> NDArray[np.bool_] | None:
    """[M]: which sites give out queue units; None: none does."""
    kinds = np.array([mode is ShareMode.QUEUE for _, mode in state.sites.kinds])
    return np.asarray(kinds[state.sites.columns.kind]) if kinds.any() else None


def turn_wait_ms(
    state: GlobalState, track: Track, service: Service, rate_per_replica: Floats
) -> Floats:
    """[M]: mean wait for a turn; 0 where an instance has a slice or a device of its own.

    Devices count as busy for the share that others hold of them. `rate_per_replica` [M] is what one
    instance would serve there, in requests per second.
    """
    sites, columns = state.sites, state.sites.columns
    waits = np.zeros(len(sites))
    queued = queue_sites(state)
    if queued is None:
        return waits
    turns = queued & ~track.needs.whole[columns.kind] & track.needs.fits[columns.kind]
    if not turns.any():
        return waits
    total = np.maximum(columns.total[:, DEVICES], 1e-9)
    held = total - columns.free[:, DEVICES] - columns.kept[:, DEVICES]
    for place in track.places.values():
        held[place.site] -= state.running.usage[place.row, DEVICES]
    busy = np.clip(held / total, 0.0, 1.0)
    share = track.needs.share[columns.kind]
    serves = np.array([replica_rate(track.workload, profile) for profile, _ in sites.kinds])
    own = np.minimum(rate_per_replica / np.maximum(serves[columns.kind], 1e-9), 1.0) * share
    alone_s = service.service_time_ms / _MS_PER_S
    milli = share[turns] * WHOLE_MILLI
    waits[turns] = _MS_PER_S * np.minimum(
        expected_wait_s(alone_s, busy[turns]), worst_wait_s(alone_s, own[turns], milli)
    )
    return waits
