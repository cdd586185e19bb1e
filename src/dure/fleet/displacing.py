"""Makes room for work that comes first: whom to displace, and what that costs."""

from collections.abc import Sequence

import numpy as np

from dure.domain.fleet.instructions import GlobalInstruction, PreemptWorkload
from dure.domain.ids import WorkloadId
from dure.fleet import preemption
from dure.fleet.global_state import GlobalState, Leaving
from dure.fleet.preemption import Candidates, Victims
from dure.fleet.sites import Floats, Integers
from dure.fleet.tracks import HOUR_NS, Track

RETURN_DELAY_NS = HOUR_NS
"""How long a displaced job is expected to wait for another place."""
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
