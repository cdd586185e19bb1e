"""Who gets no new place whatever the room: budgets of teams, and the fleet's carbon budget.

Budgets of tenants are limits of the assignment itself. A team is a part of a tenant, so its limit
is laid over what the assignment may choose. The fleet's carbon budget acts by its price; only when
what is left is needed by work that is placed or cannot wait, patient work is held back.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dure.domain.fleet.instructions import GlobalInstruction, PlaceWorkload
from dure.fleet import terms
from dure.fleet.adaptation import CarbonOutlook
from dure.fleet.budgets import TeamKey
from dure.fleet.costs import CostTable
from dure.fleet.global_state import GlobalState
from dure.fleet.tracks import FOR_EVER_NS, HOUR_NS, Track

TEAM_IS_OUT = "the budget of its team is used up"
CARBON_IS_SHORT = "what is left of the carbon budget is needed by work that cannot wait"

UNSURE = 0.05
"""Part of what placed jobs will emit that is set aside for errors: gangs that are still to grow."""
CLOSE_REVIEWS = 2
"""A job this many reviews from its latest start is not held back: it may miss the next one."""


def carbon_outlook(state: GlobalState) -> CarbonOutlook:
    """Grams that placed work will emit, and work that waits, to the end of the period.

    What services and idle nodes emit to the end of the period is set aside in the budget; what jobs
    emit after it is not this period's.
    """
    running, now_ns, pacer = state.running, state.now_ns, state.adaptation.pacer
    services = running.used & (running.end_ns >= FOR_EVER_NS)
    service_g = float(running.grams[services].sum())
    _, grams = running.committed(now_ns, len(state.budgets.tenants))
    start_ns = state.start_ns or 0
    passed_h = (now_ns - start_ns) / HOUR_NS
    left_h = max(0.0, state.policy.period_ns / HOUR_NS - passed_h)
    base_g_per_h = service_g / state.settings.service_horizon_h
    base_g_per_h += state.budgets.idle_g / max(1.0, passed_h)
    due = pacer.due(now_ns, start_ns)
    planned_g = float(grams.sum()) - service_g
    running_g, rate_g_per_h = 0.0, base_g_per_h
    if due:
        running_g, jobs_g_per_h = _as_they_run(state)
        rate_g_per_h += jobs_g_per_h
        pacer.grown = running_g / planned_g if planned_g > 0.0 else 1.0
    jobs_g = pacer.grown * (planned_g - _beyond_g(state, start_ns + state.policy.period_ns))
    to_come_g = pacer.bias * (base_g_per_h * left_h + (1.0 + UNSURE) * jobs_g)
    state.budgets.reserved_g = to_come_g + pacer.unreported_g - planned_g - service_g
    if not due:
        return CarbonOutlook(jobs_g, base_g_per_h)
    return CarbonOutlook(
        jobs_g,
        base_g_per_h,
        running_g,
        rate_g_per_h,
        sum(_work_left(track, left_h) for track in state.tracks.values() if not track.active),
        _telling_price(state),
    )


def _as_they_run(state: GlobalState) -> tuple[float, float]:
    """Grams that jobs with a place will still emit, and emit per hour, with the workers they have.

    An elastic gang that has grown ends sooner, and emits more than was expected of it: it is less
    efficient, and what it has done says little about what is left.
    """
    running, now_ns = state.running, state.now_ns
    total_g = rate_g_per_h = 0.0
    for row in np.flatnonzero(running.used & (running.end_ns < FOR_EVER_NS)).tolist():
        owner = running.owner[row]
        if owner is None:
            continue
        track = state.tracks[owner]
        place = next((each for each in track.places.values() if each.row == row), None)
        if place is None:
            continue
        whole_h = float(track.runtime_h[state.sites.columns.kind[place.site]])
        run_h = max((1.0 - place.start_share) * whole_h, 1e-3)
        workers = (place.instances + place.extra) / place.instances
        g_per_h = float(running.grams[row]) / run_h * workers
        begin_ns = max(now_ns, int(running.start_ns[row]))
        total_g += g_per_h * max(0.0, (int(running.end_ns[row]) - begin_ns) / HOUR_NS)
        rate_g_per_h += g_per_h if begin_ns == now_ns else 0.0
    return total_g, rate_g_per_h


def _beyond_g(state: GlobalState, end_ns: int) -> float:
    """Grams that jobs with a place are expected to emit after the end of the period."""
    running = state.running
    rows = np.flatnonzero(running.used & (running.end_ns > end_ns))
    rows = rows[running.end_ns[rows] < FOR_EVER_NS]
    length = np.maximum(running.end_ns[rows] - running.start_ns[rows], 1)
    part = np.clip((running.end_ns[rows] - end_ns) / length, 0.0, 1.0)
    return float((running.grams[rows] * part).sum())


def job_work(track: Track) -> tuple[float, float]:
    """Device-hours and hours of what a job has left, on average over the devices it fits."""
    fits = track.needs.fits
    if not track.is_job or not fits.any():
        return 0.0, 0.0
    hours = (1.0 - track.saved_share) * track.runtime_h[fits]
    devices = track.instances * track.needs.busy[fits]
    return float((hours * devices).mean()), float(hours.mean())


def pace_carbon(state: GlobalState, instructions: Sequence[GlobalInstruction]) -> None:
    """Let the carbon price know what jobs were placed, and how cleanly."""
    for each in instructions:
        if isinstance(each, PlaceWorkload) and each.order.workload.work is not None:
            workload = each.order.workload
            work, _ = job_work(state.tracks[workload.id])
            grams = each.order.explanation.g_co2
            state.adaptation.pacer.placed(work, grams, urgent=not workload.delay_tolerant)


def _work_left(track: Track, left_h: float) -> float:
    """Device-hours of a job without a place that fit into the hours left."""
    work, hours = job_work(track)
    return work * min(1.0, left_h / max(hours, 1e-9))


def _telling_price(state: GlobalState) -> float:
    """Per tonne: what makes the grams of a busy device-hour cost as much as the hour itself."""
    columns, outlook = state.sites.columns, state.outlook()
    if not columns.up.any():
        return CarbonOutlook().telling_per_tonne
    day = np.full((1, len(state.sites)), 24.0)
    intensity = outlook.mean(outlook.carbon, np.zeros(1), day)[0, :, 0]
    kw = (columns.peak_w + columns.base_w) / terms.W_PER_KW * columns.pue
    grams = float(np.mean((kw * intensity)[columns.up]))
    worth = float(np.mean(state.worth()[columns.up]))
    return worth / max(grams, 1e-6) * terms.GRAMS_PER_TONNE


def hold_back(
    state: GlobalState, tracks: Sequence[Track]
) -> tuple[list[Track], list[GlobalInstruction]]:
    """Those that may have a place now; the others wait. Also what is to be said about it."""
    holding = state.policy.carbon_budget_g is not None and state.adaptation.pacer.holding
    left = _team_left(state)
    if not holding and not left:
        return list(tracks), []
    free: list[Track] = []
    news: list[GlobalInstruction] = []
    for track in tracks:
        money, grams = left.get(_team(track), (np.inf, np.inf))
        patient = track.is_job and track.workload.delay_tolerant
        if (money <= 0.0 or grams <= 0.0) and not track.places:
            _wait(state, track, TEAM_IS_OUT)
        elif holding and patient and _can_wait(state, track):
            _wait(state, track, CARBON_IS_SHORT)
            news += state.budgets.hold(state.policy)
        else:
            free.append(track)
    return free, news


def _can_wait(state: GlobalState, track: Track) -> bool:
    """Whether a job still meets its deadline when it is looked at again after a wait."""
    deadline_ns = track.workload.sla.deadline_ns
    if deadline_ns is None:
        return True
    slack_ns = deadline_ns - state.now_ns - round(job_work(track)[1] * HOUR_NS)
    # What is too late anyway loses no promise by waiting longer.
    return slack_ns < 0 or slack_ns > CLOSE_REVIEWS * state.settings.review_ns


def within_teams(state: GlobalState, table: CostTable) -> CostTable:
    """Close every place that would cost a job more than its team has left.

    Jobs of one team are looked at in turn: each leaves to the next what is left if it takes the
    dearest of its places, so that all of them together stay within the budget.
    """
    left = _team_left(state)
    if not any(_team(track) in left for track in table.tracks):
        return table
    total = table.total.copy()
    for job, track in enumerate(table.tracks):
        key = _team(track)
        if key not in left:
            continue
        money, grams = left[key]
        total[job, (table.spend[job] > money) | (table.grams[job] > grams)] = np.inf
        open_places = np.isfinite(total[job])
        if open_places.any():
            left[key] = (
                money - float(table.spend[job][open_places].max()),
                grams - float(table.grams[job][open_places].max()),
            )
    return replace(table, total=total)


def _team(track: Track) -> TeamKey:
    return (track.workload.tenant, track.workload.team)


def _team_left(state: GlobalState) -> dict[TeamKey, tuple[float, float]]:
    """What new work of each limited team may use; nothing where no team is limited."""
    teams = state.budgets.teams
    if not teams:
        return {}
    committed: dict[TeamKey, tuple[float, float]] = {}
    running = state.running
    for row in np.flatnonzero(running.used):
        owner = running.owner[row]
        if owner is None:
            continue
        key = _team(state.tracks[owner])
        if key in teams:
            length = max(int(running.end_ns[row] - running.start_ns[row]), 1)
            part = min(1.0, max(0.0, float(running.end_ns[row] - state.now_ns) / length))
            money, grams = committed.get(key, (0.0, 0.0))
            committed[key] = (
                money + float(running.money[row]) * part,
                grams + float(running.grams[row]) * part,
            )
    return state.budgets.team_left(committed)


def _wait(state: GlobalState, track: Track, why: str) -> None:
    track.why, track.until_ns = why, 0
    state.unplan(track)
    state.waiting.wait(track, state.now_ns + state.settings.review_ns, ())
