"""What if these came now: which clusters would take them, in which order, at what cost, or why not.

Asks the books of a global machine without leaving anything in them: what is weighed is forgotten
again, and no price learns from it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.decisions import Explanation, Site
from dure.domain.fleet.workloads import Service, Workload
from dure.domain.ids import ClusterId, WorkloadId
from dure.fleet import rounds
from dure.fleet.costs import cost_table
from dure.fleet.explain import Reasons
from dure.fleet.fit import never_fits
from dure.fleet.global_state import GlobalState, Grant
from dure.fleet.job_round import NO_ROOM, JobRound
from dure.fleet.service_round import best_place, part_grant, service_costs
from dure.fleet.sites import Floats
from dure.fleet.tracks import HOUR_NS, Track
from dure.fleet.waiting import turn

_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Option:
    """What a cluster would be to a workload: the best of its sites."""

    site: Site
    has_room: bool
    """Whether it could start there now, beside all that is there and comes first."""
    explanation: Explanation
    delay_h: float
    """From the order to the start."""
    run_h: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What would be decided about one workload."""

    workload: WorkloadId
    choice: Site | None
    """None: it would wait, for what `why` says."""
    start_ns: int
    """When it would start; later than now where waiting is worth it."""
    why: str
    options: tuple[Option, ...]
    """One for each cluster that could take it: the chosen one, those with room, the rest; each
    by cost."""
    refusals: tuple[tuple[ClusterId, str], ...]
    """Clusters that could never take it as they are, and why."""


@dataclass(frozen=True, slots=True)
class Assumed:
    """A workload that is taken as placed though nobody has seen it there yet."""

    workload: Workload
    cluster: ClusterId


def evaluate(
    state: GlobalState, workloads: Sequence[Workload], assuming: Sequence[Assumed] = ()
) -> list[Verdict]:
    """What a round would decide about these, all weighed together, in their order."""
    with _for_now(state, assuming) as track:
        tracks = sorted((track(workload) for workload in workloads), key=turn)
        # Services go first and keep their places while jobs are weighed, as in a round.
        verdicts = {each.id: _service(state, each) for each in tracks if not each.is_job}
        jobs = [each for each in tracks if each.is_job]
        if jobs and len(state.sites):
            verdicts |= _jobs(state, jobs)
    nowhere = "no cluster has joined yet"
    return [
        verdicts.get(each.id) or Verdict(each.id, None, state.now_ns, nowhere, (), ())
        for each in workloads
    ]


@contextmanager
def _for_now(state: GlobalState, assuming: Sequence[Assumed]) -> Iterator["_Sketch"]:
    sketch = _Sketch(state)
    try:
        for each in assuming:
            sketch.assume(each)
        yield sketch
    finally:
        sketch.wipe()


class _Sketch:
    """Workloads that are in the books for the length of a question."""

    def __init__(self, state: GlobalState) -> None:
        self._state = state
        self._tracks: list[Track] = []

    def __call__(self, workload: Workload) -> Track:
        """Enter a workload."""
        track = self._state.track(workload)
        self._tracks.append(track)
        return track

    def assume(self, assumed: Assumed) -> None:
        """Enter a workload at the cheapest site of its cluster; nowhere where it fits none."""
        state, track = self._state, self(assumed.workload)
        rows = state.sites.sites_of.get(assumed.cluster, ())
        if not rows:
            return
        if track.is_job:
            table = cost_table([track], state.around(), (0,))
            total, instances = table.total[0, rows, 0], track.instances
            run_h, delay_h = table.run_h[0, rows], table.delay_h[0, rows]
        else:
            service = track.workload.service
            assert service is not None
            costs = service_costs(state, track, service)
            total, delay_h = costs.total[rows], costs.delay_h[rows]
            run_h = np.full(len(rows), state.settings.service_horizon_h)
            instances = int(costs.least[rows[int(total.argmin())]])
        best = int(total.argmin())
        if np.isfinite(total[best]):
            reason = Explanation((), note="taken as given")
            grant = Grant(
                rows[best], instances, float(delay_h[best]), float(run_h[best]), 0.0, 0.0, reason
            )
            state.occupy(track, 1, grant)

    def wipe(self) -> None:
        """Forget them all, last first."""
        for track in reversed(self._tracks):
            for attempt in list(track.places):
                self._state.release(track, attempt, undone=True)
            self._state.forget(track)


# --- jobs ----------------------------------------------------------------------------------


def _jobs(state: GlobalState, tracks: Sequence[Track]) -> dict[WorkloadId, Verdict]:
    question = JobRound(state, tracks)
    table, choice = question.weigh()
    reasons = Reasons(table, choice, state.sites, state.now_ns)
    kind = state.sites.columns.kind
    free = rounds.capacity(state.around(), (0,))[:, 0]
    fits = rounds.fits_now(table, state.sites)
    found = {}
    chosen = []
    for job, track in enumerate(tracks):
        site = int(choice.site[job]) if choice.slot[job] == 0 else -1
        if site >= 0 and question.still_lent(job, track, site):
            # As in a round: who comes later sees what pools still lend.
            state.occupy(track, 1, question.grant(job, site, reasons))
            free[site] -= table.usage[job, kind[site]]
        else:
            site = -1
        chosen.append(site)
    for job, track in enumerate(tracks):
        wanted = table.usage[job, kind]
        left = free.copy()
        if chosen[job] >= 0:
            left[chosen[job]] += wanted[chosen[job]]
        room = fits[job] & (wanted <= left + _SLACK).all(axis=1) & question.affordable(job)
        ranking = _Ranking(choice.priced[job, :, 0], table.total[job, :, 0], room)
        options = tuple(
            Option(
                state.sites.names[site],
                bool(room[site]),
                reasons.of(job, site, 0),
                float(table.delay_h[job, site]),
                float(table.run_h[job, site]),
            )
            for site in ranking.sites(state, chosen[job])
        )
        later = int(choice.site[job]) >= 0 and int(choice.slot[job]) > 0
        site = int(choice.site[job]) if later else chosen[job]
        hours = table.slots_h[int(choice.slot[job])] if later else 0
        found[track.id] = Verdict(
            track.id,
            state.sites.names[site] if site >= 0 else None,
            state.now_ns + hours * HOUR_NS,
            "" if site >= 0 else question.hindrance(job),
            options,
            _refusals(state, track, options),
        )
    return found


@dataclass(frozen=True, slots=True)
class _Ranking:
    """Costs of one workload, by site."""

    priced: Floats
    """[M]: congestion included; infinite where it may not go."""
    total: Floats
    """[M]: without congestion."""
    room: NDArray[np.bool_]

    def sites(self, state: GlobalState, chosen: int) -> list[int]:
        """The best site of each cluster that could take it, best cluster first."""
        columns = state.sites.columns
        rows = np.flatnonzero(np.isfinite(self.total))
        order = sorted(
            rows.tolist(),
            key=lambda row: (row != chosen, not self.room[row], self.priced[row], row),
        )
        best: dict[int, int] = {}
        for row in order:
            best.setdefault(int(columns.cluster[row]), row)
        return list(best.values())


# --- services ------------------------------------------------------------------------------


def _service(state: GlobalState, track: Track) -> Verdict:
    service = track.workload.service
    assert service is not None
    if not len(state.sites):
        return Verdict(track.id, None, state.now_ns, "no cluster has joined yet", (), ())
    grant = best_place(state, track, service)
    options = _service_options(state, track, service, -1 if grant is None else grant.site)
    if grant is not None:
        state.occupy(track, 1, grant)
    return Verdict(
        track.id,
        None if grant is None else state.sites.names[grant.site],
        state.now_ns,
        NO_ROOM if grant is None else "",
        options,
        _refusals(state, track, options),
    )


def _service_options(
    state: GlobalState, track: Track, service: Service, chosen: int
) -> tuple[Option, ...]:
    costs = service_costs(state, track, service)
    room = rounds.rooms(track.needs, state.sites) >= costs.least
    ranking = _Ranking(costs.total, costs.total, room)
    found = []
    for site in ranking.sites(state, chosen):
        grant = part_grant(state, costs, site, int(costs.replicas[site]), None)
        where = state.sites.names[site]
        found.append(Option(where, bool(room[site]), grant.explanation, grant.delay_h, grant.run_h))
    return tuple(found)


# --- refusals ------------------------------------------------------------------------------


def _refusals(
    state: GlobalState, track: Track, options: Sequence[Option]
) -> tuple[tuple[ClusterId, str], ...]:
    taken = {option.site.cluster for option in options}
    sites = state.sites
    found = []
    for name, cluster in sorted(sites.clusters.items()):
        if name in taken:
            continue
        reason = never_fits(track.workload, [(name, group) for group in cluster.groups])
        if reason is not None:
            why = reason[1]
        elif not any(sites.columns.up[row] for row in sites.sites_of[name]):
            why = "it takes nothing new: it is closed, or out of reach"
        else:
            why = "its devices belong to pools that it may not use"
        found.append((name, why))
    return tuple(found)
