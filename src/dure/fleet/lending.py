"""What pools lend, round by round: called back for owners who wait, lent again when they do not."""

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.instructions import GlobalInstruction, SetAllotments
from dure.domain.fleet.series import Floats
from dure.domain.ids import ClusterId, PoolId, TenantId, WorkloadId
from dure.domain.units import NS_PER_S
from dure.fleet.costs import possible
from dure.fleet.displacing import MOST_CONSIDERED, displace, displacement_cost
from dure.fleet.global_state import GlobalState, Look
from dure.fleet.pools import Place
from dure.fleet.sites import DEVICES
from dure.fleet.tracks import Phase, Track
from dure.fleet.waiting import SPARE, turn

_OWNERS_AGAIN_NS = 10 * NS_PER_S
"""How often an owner that waits is looked at again where a site has room for it as before: seldom
enough not to matter where another reason holds it."""
_MOST_WOKEN = 64
"""Borrowers that are looked at again in one round because something is lent again."""
_SLACK = 1e-9


def wake_owners(state: GlobalState) -> None:
    """Have those looked at again who wait for units of their pool, and for whom there are some.

    A site that has room calls who wants it most, and these may be others, who may not have it.
    No more are looked at than there is room for: first those for whom a site has grown, the most
    urgent first; then those who were not looked at for long, the longest first.
    """
    found = state.waiting.owners() if state.pool_owners else []
    rooms, seen, now_ns = _Rooms(state), state.owners_seen, state.now_ns
    for track in found:
        seen.setdefault(track.id, Look(now_ns, frozenset()))
    with_room = [track for track in found if rooms.of(track)]
    grown = [track for track in with_room if rooms.of(track) - seen[track.id].rooms]
    woken = _as_far_as_room_goes(state, rooms, sorted(grown, key=turn))
    at_once = {track.id for track in woken}
    late = [
        track
        for track in with_room
        if track.id not in at_once and now_ns - seen[track.id].at_ns >= _OWNERS_AGAIN_NS
    ]
    late.sort(key=lambda track: (seen[track.id].at_ns, turn(track)))
    woken += _as_far_as_room_goes(state, rooms, late)
    for track in woken:
        seen[track.id] = Look(now_ns, rooms.of(track))
    state.waiting.wake([track.id for track in woken])
    for gone in seen.keys() - {track.id for track in found}:
        del seen[gone]


_Alike = tuple[TenantId, PoolId | None, int, int, frozenset[ClusterId] | None]


def _alike(track: Track) -> _Alike:
    """What is the same for all that need the same out of the same pool."""
    workload = track.workload
    return workload.tenant, workload.pool, id(track.needs), track.instances, workload.clusters


class _Rooms:
    """Sites that have room for those who wait."""

    def __init__(self, state: GlobalState) -> None:
        self._state = state
        self._known: dict[_Alike, frozenset[tuple[int, int]]] = {}
        self._allowed: dict[_Alike, bool] = {}

    def of(self, track: Track) -> frozenset[tuple[int, int]]:
        """Where both the site and its pool leave it enough now, with how often each has grown."""
        key = _alike(track)
        if key not in self._known:
            columns = self._state.sites.columns
            enough = columns.free[:, DEVICES] >= self._needed(track) - _SLACK
            sites = np.flatnonzero(enough & self._leaves(track)).tolist()
            self._known[key] = frozenset(zip(sites, columns.grew[sites].tolist(), strict=True))
        return self._known[key]

    def allowed(self, track: Track) -> bool:
        """Whether pools leave it enough of a site that could run it, be that full or not."""
        key = _alike(track)
        if key not in self._allowed:
            self._allowed[key] = bool(self._leaves(track).any())
        return self._allowed[key]

    def _leaves(self, track: Track) -> NDArray[np.bool_]:
        columns = self._state.sites.columns
        left = self._state.pool_rooms(track.workload) >= self._needed(track) - _SLACK
        return np.asarray(left & columns.up & possible(track, self._state.sites))

    def _needed(self, track: Track) -> Floats:
        return np.asarray(track.needs.busy[self._state.sites.columns.kind] * track.instances)


def _as_far_as_room_goes(state: GlobalState, rooms: _Rooms, tracks: Iterable[Track]) -> list[Track]:
    """Those who are looked at when each takes its need off the sites, and off what pools leave."""
    columns = state.sites.columns
    free = columns.free[:, DEVICES] * SPARE
    left: dict[tuple[TenantId, PoolId | None], Floats] = {}
    over: set[_Alike] = set()
    found = []
    for track in tracks:
        if _alike(track) in over:
            continue
        whose = (track.workload.tenant, track.workload.pool)
        if whose not in left:
            left[whose] = state.pools.rooms(*whose) * SPARE
        most = np.minimum(free, state.pool_columns_of(left[whose]))
        site = max((site for site, _ in rooms.of(track)), key=lambda each: (most[each], -each))
        if most[site] <= 0.0:
            over.add(_alike(track))
            continue
        needed = track.needs.busy[columns.kind[site]] * track.instances
        free[site] -= needed
        left[whose][state.pools.index(state.place_of(site))] -= needed
        found.append(track)
    return found


def lend_again(state: GlobalState) -> list[GlobalInstruction]:
    """Lend what owners no longer wait for, and look again at those who wait and may have it."""
    wanted = _devices(state.waiting.of_pools()) if state.wanted_pools else {}
    less = {
        pool: min(devices, wanted.get(pool, 0.0)) for pool, devices in state.wanted_pools.items()
    }
    if less == state.wanted_pools:
        return []
    state.want({pool: devices for pool, devices in less.items() if devices})
    told = told_leases(state)
    if told:
        rooms = _Rooms(state)
        may_borrow = [track for track in state.waiting.placeless() if rooms.allowed(track)]
        # Who finds its sites full comes last: it only has to say that it wants them now.
        may_borrow.sort(key=lambda track: not rooms.of(track))
        state.waiting.wake([track.id for track in may_borrow[:_MOST_WOKEN]])
    return told


def reclaim(state: GlobalState, waiting: Sequence[Track], most: int) -> list[GlobalInstruction]:
    """Call lent units back for owners who wait, displacing who uses them at least cost."""
    if not state.pool_owners:
        return []
    # Also those who were not looked at in this round: who waits for its own calls until it has it.
    owners = {each.id: each for each in (*waiting, *state.waiting.owners())}.values()
    wanted = _devices(owners)
    state.want(wanted)
    if not wanted:
        return []
    # What is called back is no longer lent from this moment on: only then borrowers are too many.
    instructions = told_leases(state)
    costs = _costs_of(state, chain.from_iterable(state.pools.crowded().values()))
    first = next(track for track in owners if track.workload.pool is not None)
    for call in state.pools.to_reclaim(costs, _leaving(state)):
        names = [(name, costs[name]) for name in call.workloads[: max(0, most)]]
        most -= len(names)
        instructions += displace(state, names, first.id)
    return instructions


def _costs_of(state: GlobalState, names: Iterable[WorkloadId]) -> dict[WorkloadId, float]:
    """What displacing those among these costs who may be displaced; of the lowest priority, where
    they are many."""
    running = state.running
    found = [
        (running.priority[row], name, row)
        for name in names
        if (track := state.tracks[name]).phase in (Phase.RUNNING, Phase.PLACED)
        and running.preemptible[row := track.places[max(track.places)].row]
    ]
    return {
        name: displacement_cost(state, state.tracks[name], row)
        for _, name, row in sorted(found)[:MOST_CONSIDERED]
    }


def _leaving(state: GlobalState) -> dict[Place, set[WorkloadId]]:
    """Who was told to stop, and has not yet, by where it is."""
    found: dict[Place, set[WorkloadId]] = {}
    for (name, _), left in state.leaving.items():
        found.setdefault(state.place_of(left.site), set()).add(name)
    return found


def _devices(tracks: Iterable[Track]) -> dict[str, float]:
    """Devices of each pool that these wait for."""
    wanted: dict[str, float] = {}
    for track in tracks:
        pool = track.workload.pool
        if pool is not None:
            devices = float(track.needs.busy.max(initial=0.0)) * track.instances
            wanted[pool] = wanted.get(pool, 0.0) + devices
    return wanted


def told_leases(state: GlobalState) -> list[GlobalInstruction]:
    """Bring what clusters hold for pools up to date: all that changed."""
    return [
        SetAllotments(cluster, allotments)
        for cluster, allotments in state.pools.revise(state.now_ns).items()
    ]
