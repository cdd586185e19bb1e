"""Makes room for work of higher priority, and for owners who want their lent devices back."""

from collections.abc import Sequence

import numpy as np

from dure.domain.fleet.instructions import GlobalInstruction, PreemptWorkload, SetAllotments
from dure.domain.ids import WorkloadId
from dure.domain.units import NS_PER_S
from dure.fleet import preemption
from dure.fleet.global_state import GlobalState, Leaving
from dure.fleet.preemption import Candidates, Victims
from dure.fleet.sites import Floats, Integers
from dure.fleet.tracks import HOUR_NS, Phase, Track

RETURN_DELAY_NS = HOUR_NS
"""How long a displaced job is expected to wait for another place."""
_OWNERS_AGAIN_NS = 10 * NS_PER_S
"""How often an owner that waits is looked at again while units of its pool are idle: at once where
somebody just gave them back, and seldom enough not to matter where another reason holds it."""
MOST_CONSIDERED = 512
"""Running workloads among which victims are looked for, lowest priority first."""


def displacement_cost(state: GlobalState, track: Track, row: int) -> float:
    """What displacing a running job costs: work lost, lateness, and the way back."""
    running = state.running
    length_h = max((running.end_ns[row] - running.start_ns[row]) / HOUR_NS, 1e-3)
    site = int(running.site[row])
    whole_h = float(track.runtime_h[state.sites.columns.kind[site]])
    unsaved_ns = max(0.0, track.done_share - track.saved_share) * whole_h * HOUR_NS
    cost = preemption.displacement(
        unsaved_ns,
        float(running.money[row]) / length_h,
        track.workload.sla,
        float(running.end_ns[row]),
        float(RETURN_DELAY_NS),
    )
    return cost.total


def candidates_of(state: GlobalState, rows: Integers) -> Candidates:
    """What displacing those in these rows would free, and cost."""
    running = state.running
    tracks = [state.tracks[owner] for row in rows if (owner := running.owner[row]) is not None]
    started = [_started_ns(track, int(row)) for track, row in zip(tracks, rows, strict=True)]
    return Candidates(
        workloads=tuple(track.id for track in tracks),
        sites=running.site[rows],
        priorities=running.priority[rows],
        preemptible=running.preemptible[rows],
        ran_ns=np.array([max(0, state.now_ns - start) for start in started], dtype=np.int64),
        minimum_ns=np.array(
            [state.policy.of(track.workload.kind).minimum_runtime_ns for track in tracks],
            dtype=np.int64,
        ),
        amounts=running.usage[rows],
        costs=np.array(
            [
                displacement_cost(state, track, int(row))
                for track, row in zip(tracks, rows, strict=True)
            ]
        ),
    )


def _started_ns(track: Track, row: int) -> int:
    place = next(place for place in track.places.values() if place.row == row)
    return place.ordered_ns if place.started_ns is None else place.started_ns


def find_victims(
    state: GlobalState, track: Track, wanted: Floats, most: int
) -> tuple[Victims, Candidates] | None:
    """The cheapest workloads of lower priority whose place would do; None: there are none.

    `wanted` is [M, D]: what it needs at each site, infinite where it may not go.
    """
    running = state.running
    if most <= 0:
        return None
    # What may be displaced is used; few are below a given priority, so that comes first.
    rows = np.flatnonzero(running.preemptible & (running.priority < track.priority))
    if len(rows):
        allowed = np.asarray(np.isfinite(wanted).all(axis=1))
        rows = rows[allowed[running.site[rows]]]
    if not len(rows):
        return None
    if len(rows) > MOST_CONSIDERED:
        rows = rows[np.argsort(running.priority[rows], kind="stable")[:MOST_CONSIDERED]]
    candidates = candidates_of(state, rows)
    found = preemption.choose_victims(candidates, track.priority, wanted, state.free_soon(), most)
    return None if found is None else (found, candidates)


def displace(
    state: GlobalState,
    names: Sequence[tuple[WorkloadId, float]],
    wanted_by: WorkloadId,
    why: str = "",
) -> list[GlobalInstruction]:
    """Tell clusters to stop these; they come back when they have stopped."""
    instructions: list[GlobalInstruction] = []
    for name, cost in names:
        track = state.tracks[name]
        attempt = max(track.places)
        place = track.places[attempt]
        state.running.preemptible[place.row] = False
        usage = state.running.usage[place.row].copy()
        state.leaving[name, attempt] = Leaving(track.workload.tenant, place.site, usage)
        instructions.append(
            PreemptWorkload(
                workload=name,
                cluster=state.sites.names[place.site].cluster,
                attempt=attempt,
                wanted_by=wanted_by,
                cost=cost,
                why=why,
            )
        )
    return instructions


def wake_owners(state: GlobalState) -> None:
    """Have those looked at again who wait for units of their pool, and for whom there are some.

    A site that has room calls who wants it most, and these may be others, who may not have it.
    """
    found = state.waiting.owners() if state.pool_owners else []
    for track in found:
        devices = float(track.needs.busy.max(initial=0.0)) * track.instances
        room = state.pools.rooms(track.workload.tenant, track.workload.pool).max(initial=0.0)
        woken_ns = state.owners_woken.get(track.id, -_OWNERS_AGAIN_NS)
        if devices <= room + 1e-9 and state.now_ns - woken_ns >= _OWNERS_AGAIN_NS:
            state.owners_woken[track.id] = state.now_ns
            state.waiting.wake([track.id])
    waiting = {track.id for track in found}
    for gone in state.owners_woken.keys() - waiting:
        del state.owners_woken[gone]


def reclaim(state: GlobalState, waiting: Sequence[Track], most: int) -> list[GlobalInstruction]:
    """Call lent units back for owners who wait, displacing who uses them at least cost."""
    if not state.pool_owners:
        return []
    wanted: dict[str, float] = {}
    first: dict[str, Track] = {}
    # Also those who were not looked at in this round: who waits for its own calls until it has it.
    for track in {each.id: each for each in (*waiting, *state.waiting.owners())}.values():
        pool = track.workload.pool
        if pool is not None:
            devices = float(track.needs.busy.max(initial=0.0)) * track.instances
            wanted[pool] = wanted.get(pool, 0.0) + devices
            first.setdefault(pool, track)
    state.want(wanted)
    if not wanted:
        return []
    running = state.running
    rows = np.flatnonzero(running.used & running.preemptible)
    costs = {
        owner: displacement_cost(state, state.tracks[owner], int(row))
        for row in rows[:MOST_CONSIDERED]
        if (owner := running.owner[row]) is not None
        and state.tracks[owner].phase in (Phase.RUNNING, Phase.PLACED)
    }
    # What is called back is no longer lent from this moment on: only then borrowers are too many.
    instructions: list[GlobalInstruction] = [
        SetAllotments(cluster, allotments)
        for cluster, allotments in state.pools.revise(state.now_ns).items()
    ]
    for call in state.pools.to_reclaim(costs):
        names = [(name, costs[name]) for name in call.workloads[: max(0, most)]]
        most -= len(names)
        instructions += displace(state, names, next(iter(first.values())).id)
    return instructions
