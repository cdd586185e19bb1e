"""What moves would cost: running work as it is, and what every other site would be to it."""

from dataclasses import dataclass, replace

import numpy as np

from dure.domain.fleet.decisions import Alternative, Explanation
from dure.domain.fleet.workloads import Service
from dure.fleet import terms
from dure.fleet.costs import PAID_TERMS, CostTable, cost_table
from dure.fleet.global_state import GlobalState, Grant
from dure.fleet.migration import KINDS, NEVER_NS, MoveCandidate, Offers, Running
from dure.fleet.rounds import fits_now, rooms
from dure.fleet.service_round import ServiceCosts, service_costs
from dure.fleet.sites import DEVICES, Floats, Integers
from dure.fleet.tracks import HOUR_NS, Track

RESTART_H = 0.05
"""Devices are held so long before a moved job makes progress, beside transfers."""


def _place(track: Track) -> int:
    return track.places[min(track.places)].site


def job_offers(state: GlobalState, tracks: list[Track]) -> tuple[Running, Offers, CostTable]:
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


def job_grant(state: GlobalState, track: Track, table: CostTable, move: MoveCandidate) -> Grant:
    job, site = move.row, move.target
    stay = Alternative(state.sites.names[move.source], state.now_ns, move.stay, "stay there")
    return Grant(
        site=site,
        instances=track.instances,
        delay_h=float(table.delay_h[job, site]) + RESTART_H,
        run_h=float(table.run_h[job, site]),
        money=float(table.spend[job, site, 0]),
        grams=float(table.grams[job, site, 0]),
        carbon_saved_g=float(table.grams[job, move.source, 0] - table.grams[job, site, 0]),
        explanation=Explanation(
            terms=_explained(state, track, move),
            g_co2=float(table.grams[job, site, 0]),
            sla_risk=float(table.risk[job, site, 0]),
            runner_up=stay,
            note=f"moves: saves {move.saving:.4g} net of the move",
        ),
    )


def service_offers(
    state: GlobalState, track: Track, service: Service
) -> tuple[Running, Offers, ServiceCosts]:
    """The dearest part of a service as it is, and what every other cluster would cost it."""
    sites, columns = state.sites, state.sites.columns
    costs = service_costs(state, track, service)
    attempt = max(track.places, key=lambda each: costs.total[track.places[each].site])
    here = track.places[attempt].site
    taken = [columns.cluster[place.site] for place in track.places.values()]
    has_room = rooms(track.needs, sites) >= costs.replicas
    open_sites = has_room & ~np.isin(columns.cluster, taken)
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
    return running, offers, costs


def service_grant(
    state: GlobalState, track: Track, costs: ServiceCosts, move: MoveCandidate
) -> Grant:
    """The new place of a service."""
    horizon_h = state.settings.service_horizon_h
    stay = Alternative(state.sites.names[move.source], state.now_ns, move.stay, "stay there")
    return Grant(
        site=move.target,
        instances=int(costs.replicas[move.target]),
        delay_h=float(costs.delay_h[move.target]),
        run_h=horizon_h,
        money=float(costs.spend[move.target]),
        grams=float(costs.grams[move.target]),
        carbon_saved_g=float(costs.grams[move.source] - costs.grams[move.target]),
        explanation=Explanation(
            terms=_explained(state, track, move),
            g_co2=float(costs.grams[move.target]),
            sla_risk=float(costs.risk[move.target]),
            runner_up=stay,
            note=f"moves: saves {move.saving:.4g} over {horizon_h:g} h",
        ),
    )


def _explained(
    state: GlobalState, track: Track, move: MoveCandidate
) -> tuple[tuple[str, float], ...]:
    """The sum of a move; what is billed of it is weighted as in any other explanation."""
    weight = state.policy.of(track.workload.kind).cost_weight
    return tuple(
        (name, weight * value if name in PAID_TERMS else value) for name, value in move.terms
    )
