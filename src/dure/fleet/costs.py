"""The costs of a round: every candidate at every site and start, term by term, in columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.policy import FleetPolicy
from dure.domain.fleet.workloads import WorkloadKind
from dure.domain.ids import ArtefactId
from dure.fleet import terms
from dure.fleet.adaptation import Adaptation
from dure.fleet.artefacts import ArtefactBook
from dure.fleet.cost_loops import Carried, Hours, Jobs, Margins, Places, Weights, weigh
from dure.fleet.global_settings import GlobalSettings
from dure.fleet.outlook import Outlook
from dure.fleet.sites import CPUS, DEVICES, DIMENSIONS, HOST, Floats, SiteBook
from dure.fleet.tracks import HOUR_NS, RunningBook, Track

KINDS = (WorkloadKind.TRAINING, WorkloadKind.BATCH, WorkloadKind.SERVING)
TERMS = ("rent", "energy", "carbon", "transfer", "locality", "lateness")
"""Names of the terms in explanations, in the order of `CostTable.parts`."""
PAID_TERMS = ("rent", "energy", "transfer")
"""Those that are billed; the others only weigh."""

_LAST_SLOT_H = 48.0
"""Length of the last start slot for occupancy: beyond it, hours are too far off to plan."""
_FAR_H = 1e6
"""Hours to the deadline of a job that has none."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Everything costs depend on beside the candidates themselves."""

    sites: SiteBook
    outlook: Outlook
    running: RunningBook
    plans: RunningBook
    """What waiting jobs are planned to take later."""
    artefacts: ArtefactBook
    adaptation: Adaptation
    policy: FleetPolicy
    settings: GlobalSettings
    now_ns: int


@dataclass(frozen=True, slots=True)
class CostTable:
    """Costs of J candidates at M sites in T start slots."""

    tracks: tuple[Track, ...]
    slots_h: tuple[int, ...]
    total: Floats
    """[J, M, T]: weighted, without congestion; infinite where and when it may not go."""
    rent: Floats
    """[J, M, T]: money before weights, like the next."""
    energy: Floats
    grams: Floats
    """[J, M, T]"""
    risk: Floats
    """[J, M, T]: expected penalty before weights."""
    spend: Floats
    """[J, M, T]: money that will be billed: rent, energy, transfer."""
    bring: Floats
    """[J, M]: money to bring what it needs, wherever that is."""
    there: NDArray[np.bool_]
    """[J, M]: whether all of it is there already."""
    weights: Weights
    usage: Floats
    """[J, P, D] of all instances."""
    run_h: Floats
    """[J, M]"""
    delay_h: Floats
    """[J, M]: from the order to the start: transfers, and what starts there usually take."""
    sharing: Floats
    """[J, M]: what starting now would cost if nodes in use had room for all of it."""
    shortest_h: Floats
    """[J]: at the fastest site it may use; infinite: none."""
    eligible: NDArray[np.bool_]
    """[J, M]: whether it could ever run there, room or not."""
    may_wait: NDArray[np.bool_]
    """[J]: whether it may be planned for a later slot."""

    @property
    def parts(self) -> tuple[Floats, ...]:
        """One per name in `TERMS`, weighted and signed, [J, M, 1 or T]; made anew each time."""
        weights = self.weights
        money, near = weights.money[:, None, None], weights.near[:, None, None]
        brought = (self.bring * ~self.there)[:, :, None] * money
        return (
            self.rent * money,
            self.energy * money,
            terms.carbon(self.grams, weights.tonne[:, None, None]),
            brought,
            terms.locality(brought, near),
            self.risk * weights.sla[:, None, None],
        )

    def terms_at(self, job: int, site: int, slot: int) -> tuple[float, ...]:
        """One entry of each of `parts`."""
        weights = self.weights
        money = float(weights.money[job])
        # What is there already is neither paid for nor weighted; a weight other than 1 shows by
        # itself, so that the transfer is what will be billed.
        brought = 0.0 if self.there[job, site] else float(self.bring[job, site]) * money
        return (
            float(self.rent[job, site, slot]) * money,
            float(self.energy[job, site, slot]) * money,
            float(self.grams[job, site, slot] * weights.tonne[job]) / terms.GRAMS_PER_TONNE,
            brought,
            brought * (float(weights.near[job]) - 1.0),
            float(self.risk[job, site, slot] * weights.sla[job]),
        )


def slot_lengths_h(slots_h: Sequence[int]) -> Floats:
    """How long each start slot is, the last one by convention."""
    edges = np.array((*slots_h, max(slots_h[-1] * 2, _LAST_SLOT_H)), dtype=np.float64)
    return np.diff(edges)


def cost_table(
    tracks: Sequence[Track], around: Surroundings, slots_h: tuple[int, ...]
) -> CostTable:
    """Costs of these jobs at all sites and starts."""
    columns, settings, outlook = around.sites.columns, around.settings, around.outlook
    count = len(around.sites)
    row_of: dict[int, int] = {}
    need = np.array([row_of.setdefault(id(track.needs), len(row_of)) for track in tracks])
    shapes = {id(track.needs): track.needs for track in tracks}
    unit = np.array([each.usage for each in shapes.values()])
    instances = np.array([track.instances for track in tracks], dtype=np.float64)
    left = np.array([1.0 - track.saved_share for track in tracks])
    carried, carried_row = _carried(tracks, around)
    may_wait, patience_h = _patience(tracks, around)
    due_h, rate, cap = _promises(tracks, around.now_ns)
    weights = _weights(tracks, around, carried_row)
    jobs = Jobs(
        need=need,
        unit=unit[:, :, DEVICES].copy(),
        instances=instances,
        run_h=np.array([track.runtime_h for track in tracks]) * left[:, None],
        eligible=_masks(tracks, around),
        due_h=due_h,
        rate=rate,
        cap=cap,
        carried=carried_row,
        may_wait=may_wait,
        patience_h=patience_h,
    )
    places = Places(
        kind=columns.kind,
        free_on_used=columns.free_on_used,
        node_devices=columns.node_devices,
        fill=columns.fill,
        remaining_h=around.running.remaining_h(around.now_ns, count),
        idle_w=columns.idle_w,
        peak_w=columns.peak_w,
        base_w=columns.base_w,
        pue=columns.pue,
        slip_h=around.adaptation.slips_h(count),
    )
    hours = Hours(
        rent=outlook.rent,
        power=outlook.power,
        carbon=outlook.carbon,
        first_h=(around.now_ns - outlook.hour * HOUR_NS) / HOUR_NS,
        starts_h=np.array(slots_h, dtype=np.float64),
    )
    margins = Margins(settings.runtime_margin, settings.wait_share_per_h)
    costs = weigh(jobs, weights, places, carried, hours, margins)
    return CostTable(
        tracks=tuple(tracks),
        slots_h=slots_h,
        total=costs.total,
        rent=costs.rent,
        energy=costs.energy,
        grams=costs.grams,
        risk=costs.risk,
        spend=costs.spend,
        bring=carried.money[carried_row],
        there=carried.there[carried_row],
        weights=weights,
        usage=unit[need] * instances[:, None, None],
        run_h=costs.run_h,
        delay_h=costs.delay_h,
        sharing=costs.sharing,
        shortest_h=costs.shortest_h,
        eligible=jobs.eligible,
        may_wait=may_wait,
    )


def _masks(tracks: Sequence[Track], around: Surroundings) -> NDArray[np.bool_]:
    """[J, M]: where workloads could run if everything were free."""
    masks = np.array([possible(track, around.sites) for track in tracks])
    masks &= around.sites.columns.up
    for number, track in enumerate(tracks):
        for site, until_ns in track.avoid.items():
            if until_ns > around.now_ns:
                masks[number, site] = False
    return masks


def possible(track: Track, sites: SiteBook) -> NDArray[np.bool_]:
    """[M]: where a workload could run on empty nodes, reachable or not. Read only."""
    workload = track.workload
    key = (track.instances, workload.clusters)
    known = track.needs.masks.get(key)
    if known is None or known[0] != sites.version:
        known = sites.version, _possible(track, sites)
        track.needs.masks[key] = known
    return known[1]


def _possible(track: Track, sites: SiteBook) -> NDArray[np.bool_]:
    columns, needs, workload = sites.columns, track.needs, track.workload
    demand = workload.demand
    unit = needs.usage[columns.kind]
    wanted = unit * track.instances
    mask = needs.fits[columns.kind] & (wanted <= columns.total + 1e-9).all(axis=1)
    mask &= (unit[:, CPUS] <= columns.node_cpus + 1e-9) & (
        unit[:, HOST] <= columns.node_host_gib + 1e-9
    )
    if demand.devices > 1:
        each = np.minimum(columns.link_domain, columns.node_devices)
        domains = np.maximum(columns.node_devices // np.maximum(each, 1.0), 1.0)
        mask &= columns.nodes * domains * (each // demand.devices) >= track.instances
    if workload.clusters is not None:
        rows = [sites.cluster_rows.get(each, -1) for each in workload.clusters]
        mask &= np.isin(columns.cluster, rows)
    return np.asarray(mask)


def _carried(tracks: Sequence[Track], around: Surroundings) -> tuple[Carried, NDArray[np.int64]]:
    """What bringing weights and data takes, one row for each distinct set; each job's row."""
    count = len(around.sites)
    rows: dict[tuple[ArtefactId, ...], int] = {(): 0}
    row = np.array(
        [rows.setdefault(around.artefacts.of(track.workload), len(rows)) for track in tracks]
    )
    money, hours = np.zeros((len(rows), count)), np.zeros((len(rows), count))
    there = np.ones((len(rows), count), dtype=np.bool_)
    for artefacts, number in rows.items():
        for artefact in artefacts:
            reach = around.artefacts.reach(artefact)
            money[number] += reach.money
            hours[number] += reach.hours
            there[number] &= reach.present
    return Carried(money, hours, there), row


def _weights(
    tracks: Sequence[Track], around: Surroundings, carried_row: NDArray[np.int64]
) -> Weights:
    """What the terms count for each job."""
    policy, adaptation = around.policy, around.adaptation
    kinds = [track.workload.kind for track in tracks]
    of_kind = {
        kind: (
            (rule := policy.of(kind)).cost_weight,
            adaptation.carbon_price(rule, policy),
            adaptation.sla_weight(kind, policy),
        )
        for kind in set(kinds)
    }
    money, tonne, sla = np.array([of_kind[kind] for kind in kinds], dtype=np.float64).T.copy()
    near = np.zeros(len(tracks))
    for number in np.flatnonzero(carried_row).tolist():
        workload, rule = tracks[number].workload, policy.of(kinds[number])
        near[number] = adaptation.locality_weight(workload, rule, policy)
    return Weights(money, tonne, sla, near)


def _promises(tracks: Sequence[Track], now_ns: int) -> tuple[Floats, Floats, Floats]:
    """[J]: hours to the deadline, penalty per hour late, its cap."""
    promises = [track.workload.sla for track in tracks]
    due = [
        _FAR_H if (end := sla.deadline_ns) is None else (end - now_ns) / HOUR_NS for sla in promises
    ]
    rate = [sla.penalty_per_hour_late for sla in promises]
    cap = [sla.penalty_cap for sla in promises]
    return np.array(due), np.array(rate, dtype=np.float64), np.array(cap, dtype=np.float64)


def _patience(tracks: Sequence[Track], around: Surroundings) -> tuple[NDArray[np.bool_], Floats]:
    """[J]: who may be planned for later; the latest start that is worth planning, in hours.

    Before a deadline, the latest start that is planned for keeps the expected overrun as a margin.
    """
    policy, now_ns = around.policy, around.now_ns
    waits = {kind: policy.defer and policy.of(kind).defer for kind in KINDS}
    may = [waits[track.workload.kind] and track.workload.delay_tolerant for track in tracks]
    patience = [
        (track.workload.submitted_ns + around.settings.patience_ns - now_ns) / HOUR_NS
        if track.workload.sla.deadline_ns is None
        else np.inf
        for track in tracks
    ]
    return np.array(may, dtype=np.bool_), np.array(patience)


def spans(table: CostTable) -> NDArray[np.int64]:
    """[J]: start slots a job is busy from the first on, at its fastest eligible site."""
    edges = np.array((*table.slots_h[1:], np.inf))
    return np.asarray(1 + np.searchsorted(edges, table.shortest_h, side="left"), dtype=np.int64)


__all__ = ["DIMENSIONS", "KINDS", "TERMS", "CostTable", "Surroundings", "cost_table", "spans"]
