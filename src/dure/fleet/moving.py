"""Looks for running work that would be so much cheaper elsewhere that a move pays."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.decisions import Alternative, Explanation, Order
from dure.domain.fleet.instructions import GlobalInstruction, MoveWorkload
from dure.domain.fleet.workloads import Service
from dure.fleet import migration, terms
from dure.fleet.costs import CostTable, cost_table
from dure.fleet.global_state import GlobalState, Grant
from dure.fleet.migration import KINDS, NEVER_NS, MoveCandidate, Offers, Running
from dure.fleet.rounds import fits_now, rooms
from dure.fleet.service_round import merge_parts, service_costs, wanted_parts
from dure.fleet.sites import DEVICES, Floats, Integers
from dure.fleet.tracks import FOR_EVER_NS, HOUR_NS, Phase, Track

_MOST_LOOKED_AT = 256
"""Running workloads that one scan prices everywhere: those that still cost most."""
_LEAST_LEFT_H = 0.5
"""Work with less left to run is not worth the trouble."""
RESTART_H = 0.05
"""Devices are held so long before a moved job makes progress, beside transfers."""
MOVE_PATIENCE_NS = 6 * HOUR_NS
"""A move that has not happened by then is given up."""


def scan(state: GlobalState) -> list[GlobalInstruction]:
    """Moves worth making now; gives up those that never happened."""
    _give_up(state)
    _see_who_stays(state)
    policy = state.policy
    if not policy.migrate or len(state.sites) < 2:
        return []
    in_flight = sum(1 for name in state.moving if name in state.tracks)
    jobs = _worth_a_look(state)
    instructions: list[GlobalInstruction] = []
    if jobs:
        running, offers, table = _jobs(state, jobs)
        columns = state.sites.columns
        free = np.where(columns.up[:, None], columns.free, -1.0)
        for move in migration.scan(running, offers, free, policy, state.now_ns, in_flight):
            track = jobs[move.row]
            instructions.append(_move(state, track, move, _grant(state, track, table, move)))
            in_flight += 1
    instructions += _services(state, in_flight)
    return instructions


def _give_up(state: GlobalState) -> None:
    """Release targets of moves that did not take place."""
    for name in list(state.moving):
        track = state.tracks.get(name)
        if track is None or track.phase is not Phase.MOVING:
            state.moving.discard(name)
            continue
        newest = max(track.places)
        if track.is_job and len(track.places) == 1:
            # It has left its old place: there is nothing to go back to, the new one must take it.
            track.phase = Phase.PLACED
            state.moving.discard(name)
        elif state.now_ns - track.places[newest].ordered_ns > MOVE_PATIENCE_NS:
            state.release(track, newest, undone=True)
            track.phase = Phase.RUNNING
            state.moving.discard(name)


def _see_who_stays(state: GlobalState) -> None:
    """Learn how long work stays where it is."""
    running, sites = state.running, len(state.sites)
    for_ever = running.end_ns >= FOR_EVER_NS
    for tenure, rows in (
        (state.job_tenure, running.used & ~for_ever & _has_much_left(state)),
        (state.service_tenure, running.used & for_ever),
    ):
        there = np.bincount(running.site[rows], minlength=sites).astype(np.float64)
        tenure.pass_time(state.now_ns, there)


def _has_much_left(state: GlobalState) -> NDArray[np.bool_]:
    """[rows of running work]: whether there is enough to do for it to be worth a move."""
    return np.asarray(state.running.end_ns - state.now_ns > _LEAST_LEFT_H * HOUR_NS)


def left_early(state: GlobalState, track: Track, attempt: int) -> None:
    """A place is lost to a workload that would have stayed: displaced, moved or cut short."""
    place = track.places[attempt]
    if not track.is_job:
        state.service_tenure.leave(place.site)
    elif state.running.end_ns[place.row] - state.now_ns > _LEAST_LEFT_H * HOUR_NS:
        state.job_tenure.leave(place.site)


def _worth_a_look(state: GlobalState) -> list[Track]:
    """Running jobs with the most still to pay."""
    running = state.running
    left_ns = running.end_ns - state.now_ns
    mask = running.used & (running.end_ns < FOR_EVER_NS) & _has_much_left(state)
    rows = np.flatnonzero(mask)
    length = np.maximum(running.end_ns[rows] - running.start_ns[rows], 1)
    still = running.money[rows] * left_ns[rows] / length
    found = []
    for row in rows[np.argsort(-still, kind="stable")]:
        owner = running.owner[row]
        track = state.tracks[owner] if owner is not None else None
        if track is None or track.phase is not Phase.RUNNING:
            continue
        if state.policy.of(track.workload.kind).migrate:
            found.append(track)
        if len(found) == _MOST_LOOKED_AT:
            break
    return found


def _place(track: Track) -> int:
    return track.places[min(track.places)].site


def _jobs(state: GlobalState, tracks: list[Track]) -> tuple[Running, Offers, CostTable]:
    """Columns of these jobs as they are, and what every other site would cost them."""
    around = state.around()
    table = cost_table([_continued(track) for track in tracks], around, (0,))
    columns = state.sites.columns
    here = np.array([_place(track) for track in tracks], dtype=np.int64)
    rows = np.arange(len(tracks))
    usage = table.usage[rows[:, None], columns.kind[None, :]]
    devices = usage[:, :, DEVICES]
    left_h = table.run_h[rows, here]
    rates = _Rates.of(state)
    crowd = np.zeros(devices.shape)
    if state.policy.congestion.enabled:
        crowd = terms.congestion(devices * table.run_h, state.adaptation.congestion.now)
    # Congestion counts at the target only: leaving a crowded site saves others something, but
    # nobody's bill gets smaller. What is open at the target now may not stay open, so that there
    # it pays for its devices at least.
    stay = rates.left_behind(state, here, devices[rows, here], left_h)
    stay = stay + _lateness(state, tracks, left_h)
    brought = _brought(state, tracks)
    marginal = table.spend[:, :, 0] - brought + table.parts[2][:, :, 0]
    there = np.maximum(devices * rates.busy[None, :] * table.run_h, marginal)
    there = there + table.risk[:, :, 0] + crowd
    there = np.where(np.isfinite(table.total[:, :, 0]), there, np.inf)
    there = np.where(fits_now(table, state.sites), there, np.inf)
    carried = np.array([track.workload.gang.checkpoint_bytes for track in tracks], dtype=np.float64)
    transfer = terms.transfer(carried[:, None], _egress(state)[columns.cluster[here]])
    transfer = transfer + brought
    restart = terms.migration(table.delay_h + RESTART_H, devices, rates.busy[None, :])
    running = Running(
        workloads=tuple(track.id for track in tracks),
        kinds=np.array([KINDS.index(track.workload.kind) for track in tracks], dtype=np.int8),
        sites=here,
        stay=stay,
        left_ns=left_h * HOUR_NS,
        to_checkpoint_ns=np.array([_to_checkpoint_ns(state, track) for track in tracks]),
        done_share=np.array([track.done_share for track in tracks]),
        moved_ns=np.array(
            [NEVER_NS if track.moved_ns is None else track.moved_ns for track in tracks],
            dtype=np.int64,
        ),
        amounts=usage.max(axis=1),
    )
    lasts = state.job_tenure.lasts(table.run_h)
    return running, Offers(there, transfer, restart, np.zeros(there.shape), lasts), table


def _continued(track: Track) -> Track:
    """The job as it would go on: from what is done, checkpoint reached."""
    return replace(track, saved_share=track.done_share, avoid=track.avoid)


@dataclass(frozen=True, slots=True)
class _Rates:
    """[M]: what devices cost per hour now: rent, or energy, and their grams at their price."""

    busy: Floats
    """A busy device with its part of the node."""
    node: Floats
    """A device's part of its node being on: what ends only when the node is no longer used."""

    @classmethod
    def of(cls, state: GlobalState) -> "_Rates":
        """Means of the next day."""
        columns, outlook = state.sites.columns, state.outlook()
        day, start = np.full((1, len(state.sites)), 24.0), np.zeros(1)
        rent = outlook.mean(outlook.rent, start, day)[0, :, 0]
        power = outlook.mean(outlook.power, start, day)[0, :, 0]
        grams = outlook.mean(outlook.carbon, start, day)[0, :, 0]
        price = state.adaptation.carbon_price(state.policy.training, state.policy)
        per_kwh = power + terms.carbon(grams, np.asarray(price))
        per_w = columns.pue / terms.W_PER_KW * per_kwh
        idle = rent + (columns.idle_w + columns.base_w) * per_w
        return cls(idle + (columns.peak_w - columns.idle_w) * per_w, idle)

    def left_behind(
        self, state: GlobalState, here: Integers, devices: Floats, left_h: Floats
    ) -> Floats:
        """What nobody pays any more when such workloads leave their sites, over the time left."""
        columns = state.sites.columns
        remaining_h = state.running.remaining_h(state.now_ns, len(state.sites))[here]
        closed = terms.closed_devices(
            devices,
            columns.node_devices[here],
            columns.fill[here],
            terms.kept_on_anyway(remaining_h, left_h),
        )
        working = self.busy[here] - self.node[here]
        return np.asarray((closed * self.node[here] + devices * working) * left_h)


def _lateness(state: GlobalState, tracks: list[Track], left_h: Floats) -> Floats:
    """[J]: expected penalty of jobs that go on where they are: they run, no start can slip."""
    slas = [track.workload.sla for track in tracks]
    rate = np.array([sla.penalty_per_hour_late for sla in slas])
    cap = np.array([sla.penalty_cap for sla in slas])
    due_h = np.array(
        [
            np.inf if sla.deadline_ns is None else (sla.deadline_ns - state.now_ns) / HOUR_NS
            for sla in slas
        ]
    )
    late_h = terms.expected_lateness_h(due_h - left_h, state.settings.runtime_margin * left_h)
    return np.where(rate > 0, terms.late_penalty(late_h, rate, cap), 0.0)


def _brought(state: GlobalState, tracks: list[Track]) -> Floats:
    """[J, M]: money to bring weights and data that are not there yet."""
    money = np.zeros((len(tracks), len(state.sites)))
    for row, track in enumerate(tracks):
        for artefact in state.artefacts.of(track.workload):
            reach = state.artefacts.reach(artefact)
            money[row] += reach.money * ~reach.present
    return money


def _egress(state: GlobalState) -> Floats:
    """[C, M]: price per gigabyte from each cluster to each site."""
    fleet, names = state.settings.fleet, state.sites.cluster_ids
    prices = np.array([[fleet.egress(source, target) for target in names] for source in names])
    return np.asarray(prices[:, state.sites.columns.cluster])


def _to_checkpoint_ns(state: GlobalState, track: Track) -> float:
    interval_s = track.workload.gang.checkpoint_s
    if interval_s is None:
        return np.inf
    place = track.places[min(track.places)]
    started_ns = place.ordered_ns if place.started_ns is None else place.started_ns
    interval_ns = interval_s * 1e9
    return float(interval_ns - (state.now_ns - started_ns) % interval_ns)


def _attempt_at(track: Track, site: int) -> int:
    return next(attempt for attempt, place in track.places.items() if place.site == site)


def _move(state: GlobalState, track: Track, move: MoveCandidate, grant: Grant) -> GlobalInstruction:
    """Order a workload elsewhere; its old place stays until the new one runs."""
    source = state.sites.names[move.source].cluster
    if state.policy.dry_run:
        order = Order(
            workload=track.workload,
            site=state.sites.names[grant.site],
            attempt=track.attempt + 1,
            instances=grant.instances,
            resume_share=track.saved_share,
            start_ns=state.now_ns,
            explanation=grant.explanation,
        )
        return MoveWorkload(track.id, source, order, move.saving, dry_run=True)
    left_early(state, track, min(track.places) if track.is_job else _attempt_at(track, move.source))
    order = state.place(track, grant)
    track.phase = Phase.MOVING
    track.moved_ns = state.now_ns
    state.moving.add(track.id)
    return MoveWorkload(track.id, source, order, move.saving)


def _grant(state: GlobalState, track: Track, table: CostTable, move: MoveCandidate) -> Grant:
    job, site = move.row, move.target
    stay = Alternative(state.sites.names[move.source], state.now_ns, move.stay, "stay there")
    return Grant(
        site=site,
        instances=track.instances,
        delay_h=float(table.delay_h[job, site]) + RESTART_H,
        run_h=float(table.run_h[job, site]),
        money=float(table.spend[job, site, 0]),
        grams=float(table.grams[job, site, 0]),
        explanation=Explanation(
            terms=move.terms,
            g_co2=float(table.grams[job, site, 0]),
            sla_risk=float(table.risk[job, site, 0]),
            runner_up=stay,
            note=f"moves: saves {move.saving:.4g} net of the move",
        ),
    )


def _services(state: GlobalState, in_flight: int) -> list[GlobalInstruction]:
    """Moves of services, one part at a time, the dearest parts first; and parts given up."""
    policy = state.policy
    if not policy.serving.migrate:
        return []
    running = state.running
    rows = np.flatnonzero(running.used & (running.end_ns >= FOR_EVER_NS))
    rows = rows[np.argsort(-running.money[rows], kind="stable")][:_MOST_SERVICES]
    instructions: list[GlobalInstruction] = []
    for row in rows:
        owner = running.owner[row]
        track = state.tracks[owner] if owner is not None else None
        if track is None or track.phase is not Phase.RUNNING or track.workload.service is None:
            continue
        service = track.workload.service
        found = merge_parts(state, track, service)
        found = found or _service_move(state, track, service, in_flight)
        in_flight += bool(found)
        instructions += found
    return instructions


def _service_move(
    state: GlobalState, track: Track, service: Service, in_flight: int
) -> list[GlobalInstruction]:
    """A better cluster for the dearest part of a service, if a move there pays."""
    sites, columns = state.sites, state.sites.columns
    if len(track.places) > wanted_parts(service, track, state):
        return []
    costs = service_costs(state, track, service)
    attempt = max(track.places, key=lambda each: costs.total[track.places[each].site])
    here = track.places[attempt].site
    taken = [columns.cluster[place.site] for place in track.places.values()]
    room = rooms(track.needs, sites) >= costs.replicas
    open_sites = room & ~np.isin(columns.cluster, taken)
    hours = np.array([state.settings.service_horizon_h])
    unit = track.needs.usage[columns.kind] * costs.replicas[:, None]
    rates, devices = _Rates.of(state), unit[:, DEVICES]
    brought = _brought(state, [track])
    marginal = costs.spend - brought[0] + costs.parts[2]
    there = np.maximum(devices * rates.busy * hours, marginal) + costs.missed + costs.crowding
    at = np.array([here], dtype=np.int64)
    offers = Offers(
        there=np.where(open_sites, there, np.inf)[None, :],
        transfer=brought,
        restart=np.zeros((1, len(sites))),
        warm_ns=(costs.delay_h * HOUR_NS)[None, :],
        lasts=state.service_tenure.lasts(np.full((1, len(sites)), hours[0])),
    )
    running = Running(
        workloads=(track.id,),
        kinds=np.array([KINDS.index(track.workload.kind)], dtype=np.int8),
        sites=at,
        # Whoever is crowded out by a service pays for it day after day: unlike with a job that
        # ends, that is money that a move of the service saves.
        stay=rates.left_behind(state, at, devices[at], hours)
        + costs.missed[at]
        + costs.crowding[at],
        left_ns=hours * HOUR_NS,
        to_checkpoint_ns=np.zeros(1),
        done_share=np.zeros(1),
        moved_ns=np.array([NEVER_NS if track.moved_ns is None else track.moved_ns], np.int64),
        amounts=unit.max(axis=0)[None, :],
    )
    moves = migration.scan(running, offers, columns.free, state.policy, state.now_ns, in_flight)
    if not moves:
        return []
    move = moves[0]
    grant = Grant(
        site=move.target,
        instances=int(costs.replicas[move.target]),
        delay_h=float(costs.delay_h[move.target]),
        run_h=state.settings.service_horizon_h,
        money=float(costs.spend[move.target]),
        grams=float(costs.grams[move.target]),
        explanation=Explanation(
            terms=move.terms,
            g_co2=float(costs.grams[move.target]),
            sla_risk=float(costs.risk[move.target]),
            runner_up=Alternative(sites.names[here], state.now_ns, move.stay, "stay there"),
            note=f"moves: saves {move.saving:.4g} over {state.settings.service_horizon_h:g} h",
        ),
    )
    return [_move(state, track, move, grant)]


_MOST_SERVICES = 64
"""Parts of services that one scan looks at."""
