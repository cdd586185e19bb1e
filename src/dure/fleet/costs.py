"""The costs of a round: every candidate at every site and start, term by term, in columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.policy import FleetPolicy
from dure.domain.fleet.workloads import WorkloadKind
from dure.fleet import terms
from dure.fleet.adaptation import Adaptation
from dure.fleet.artefacts import ArtefactBook
from dure.fleet.global_settings import GlobalSettings
from dure.fleet.outlook import Outlook
from dure.fleet.sites import CPUS, DEVICES, DIMENSIONS, HOST, Floats, SiteBook
from dure.fleet.tracks import HOUR_NS, RunningBook, Track

KINDS = (WorkloadKind.TRAINING, WorkloadKind.BATCH, WorkloadKind.SERVING)
TERMS = ("rent", "energy", "carbon", "transfer", "locality", "lateness")
"""Names of the terms in explanations, in the order of `CostTable.parts`."""

_LAST_SLOT_H = 48.0
"""Length of the last start slot for occupancy: beyond it, hours are too far off to plan."""


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
    """[J, M, T]: weighted, without congestion; infinite where it may not go."""
    parts: tuple[Floats, ...]
    """One per name in `TERMS`, weighted and signed, [J, M, 1 or T]."""
    risk: Floats
    """[J, M, T]: expected penalty before weights."""
    spend: Floats
    """[J, M, T]: money that will be billed: rent, energy, transfer."""
    grams: Floats
    """[J, M, T]"""
    usage: Floats
    """[J, P, D] of all instances."""
    run_h: Floats
    """[J, M]"""
    delay_h: Floats
    """[J, M]: from the order to the start: transfers, and what starts there usually take."""
    eligible: NDArray[np.bool_]
    """[J, M]: whether it could ever run there, room or not."""
    may_wait: NDArray[np.bool_]
    """[J]: whether it may be planned for a later slot."""


def slot_lengths_h(slots_h: Sequence[int]) -> Floats:
    """How long each start slot is, the last one by convention."""
    edges = np.array((*slots_h, max(slots_h[-1] * 2, _LAST_SLOT_H)), dtype=np.float64)
    return np.diff(edges)


def cost_table(
    tracks: Sequence[Track], around: Surroundings, slots_h: tuple[int, ...]
) -> CostTable:
    """Costs of these jobs at all sites and starts."""
    sites, columns, policy = around.sites, around.sites.columns, around.policy
    kind = columns.kind
    instances = np.array([track.instances for track in tracks], dtype=np.float64)
    unit = np.array([track.needs.usage for track in tracks])
    usage = unit * instances[:, None, None]
    left = np.array([1.0 - track.saved_share for track in tracks])
    run_h = np.array([track.runtime_h for track in tracks])[:, kind] * left[:, None]
    eligible = np.array([_mask(track, around) for track in tracks]) & np.isfinite(run_h)
    run_h = np.where(eligible, run_h, 1.0)
    starts_h = np.array(slots_h, dtype=np.float64)

    bring, bring_h, there = _transfers(tracks, around)
    delay_h = bring_h + around.adaptation.slips_h(len(sites))
    devices = usage[:, kind, DEVICES]
    anyway = terms.kept_on_anyway(around.running.remaining_h(around.now_ns, len(sites)), run_h)
    opened = terms.opened_devices(
        devices, columns.free_on_used, columns.node_devices, columns.fill, anyway
    )
    power_w = terms.added_power_w(opened, devices, columns.idle_w, columns.peak_w, columns.base_w)
    kwh = terms.energy_kwh(power_w, run_h, columns.pue)[:, :, None]

    outlook = around.outlook
    hour_part = (around.now_ns - outlook.hour * HOUR_NS) / HOUR_NS
    begin = hour_part + starts_h
    length = run_h[:, :, None]
    rent = terms.rent(opened[:, :, None], outlook.mean(outlook.rent, begin, run_h), length)
    energy = terms.energy(kwh, outlook.mean(outlook.power, begin, run_h))
    grams = terms.carbon_g(kwh, outlook.mean(outlook.carbon, begin, run_h))

    rules = [policy.of(track.workload.kind) for track in tracks]
    cost_weight = np.array([rule.cost_weight for rule in rules])[:, None, None]
    tonne = np.array([around.adaptation.carbon_price(rule, policy) for rule in rules])
    carbon = terms.carbon(grams, tonne[:, None, None])
    risk, sla_weight, slack = _lateness(tracks, around, starts_h, delay_h, run_h)
    near = np.array(
        [
            around.adaptation.locality_weight(track.workload, rule, policy)
            for track, rule in zip(tracks, rules, strict=True)
        ]
    )[:, None, None]
    brought = terms.locality_saving(bring[:, :, None], near)
    saved = terms.locality_saving((bring * there)[:, :, None], near)
    parts = (
        rent * cost_weight,
        energy * cost_weight,
        carbon,
        brought * cost_weight,
        -saved * cost_weight,
        risk * sla_weight,
    )
    total = parts[0] + parts[1] + parts[2] + parts[3] + parts[4] + parts[5]
    if len(slots_h) > 1:
        total = total + np.abs(total[:, :, :1]) * (around.settings.wait_share_per_h * starts_h)
    may_wait, open_slots = _slots_open(tracks, around, starts_h, slack)
    total = np.where(eligible[:, :, None] & open_slots, total, np.inf)
    return CostTable(
        tracks=tuple(tracks),
        slots_h=slots_h,
        total=total,
        parts=parts,
        risk=risk,
        spend=rent + energy + (bring * ~there)[:, :, None],
        grams=grams,
        usage=usage,
        run_h=run_h,
        delay_h=delay_h,
        eligible=eligible,
        may_wait=may_wait,
    )


def _mask(track: Track, around: Surroundings) -> NDArray[np.bool_]:
    """[M]: where a workload could run if everything were free."""
    mask = possible(track, around.sites) & around.sites.columns.up
    for site, until_ns in track.avoid.items():
        if until_ns > around.now_ns:
            mask[site] = False
    return np.asarray(mask)


def possible(track: Track, sites: SiteBook) -> NDArray[np.bool_]:
    """[M]: where a workload could run on empty nodes, reachable or not."""
    if track.possible_version == sites.version:
        return track.possible
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
    track.possible, track.possible_version = mask, sites.version
    return mask


def _transfers(
    tracks: Sequence[Track], around: Surroundings
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Money and hours to bring weights, data and checkpoints; where all of it is already."""
    count = len(around.sites)
    money = np.zeros((len(tracks), count))
    hours = np.zeros((len(tracks), count))
    there = np.ones((len(tracks), count), dtype=np.bool_)
    for number, track in enumerate(tracks):
        for artefact in around.artefacts.of(track.workload):
            reach = around.artefacts.reach(artefact)
            money[number] += reach.money
            hours[number] += reach.hours
            there[number] &= reach.present
    return money, hours, there


def _lateness(
    tracks: Sequence[Track], around: Surroundings, starts_h: Floats, delay_h: Floats, run_h: Floats
) -> tuple[Floats, Floats, Floats]:
    """Expected penalty [J, M, T], its weight [J, 1, 1], hours of slack [J, M, T]."""
    now_ns, policy = around.now_ns, around.policy
    far = 1e6
    due = np.array(
        [
            far if (end := track.workload.sla.deadline_ns) is None else (end - now_ns) / HOUR_NS
            for track in tracks
        ]
    )
    rate = np.array([track.workload.sla.penalty_per_hour_late for track in tracks])
    cap = np.array([track.workload.sla.penalty_cap for track in tracks])
    weight = np.array(
        [around.adaptation.sla_weight(track.workload.kind, policy) for track in tracks]
    )
    slack = due[:, None, None] - (delay_h + run_h)[:, :, None] - starts_h
    slip = around.settings.runtime_margin * run_h + around.adaptation.slips_h(len(around.sites))
    late = terms.expected_lateness_h(slack, slip[:, :, None])
    risk = terms.late_penalty(late, rate[:, None, None], cap[:, None, None])
    return np.where(rate[:, None, None] > 0, risk, 0.0), weight[:, None, None], slack


def _slots_open(
    tracks: Sequence[Track], around: Surroundings, starts_h: Floats, slack: Floats
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Who may be planned for later, and which starts are open to each: [J], [J, M, T].

    The latest start that is planned for keeps the expected overrun as a margin before the deadline.
    """
    policy = around.policy
    may = np.array(
        [
            policy.defer and policy.of(track.workload.kind).defer and track.workload.delay_tolerant
            for track in tracks
        ],
        dtype=np.bool_,
    )
    patience = np.array(
        [
            (track.workload.submitted_ns + around.settings.patience_ns - around.now_ns) / HOUR_NS
            if track.workload.sla.deadline_ns is None
            else np.inf
            for track in tracks
        ]
    )
    margin = 2.0 * around.settings.runtime_margin
    safe = slack >= margin * np.minimum(slack + 1.0, 24.0)
    later = may[:, None, None] & safe & (starts_h <= patience[:, None])[:, None, :]
    later[:, :, 0] = True
    return may, later


def spans(table: CostTable) -> NDArray[np.int64]:
    """[J]: start slots a job is busy from the first on, at its fastest eligible site."""
    shortest = np.where(table.eligible, table.run_h, np.inf).min(axis=1)
    edges = np.array((*table.slots_h[1:], np.inf))
    return np.asarray(1 + np.searchsorted(edges, shortest, side="left"), dtype=np.int64)


__all__ = ["DIMENSIONS", "KINDS", "TERMS", "CostTable", "Surroundings", "cost_table", "spans"]
