"""Gives services their clusters: near their users, spread, with replicas for their load."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.decisions import Alternative, Explanation
from dure.domain.fleet.instructions import GlobalInstruction, PlaceWorkload
from dure.domain.fleet.workloads import Service
from dure.fleet import terms
from dure.fleet.costs import possible
from dure.fleet.displacing import displace, find_victims
from dure.fleet.fit import replicas_for, speed
from dure.fleet.global_state import GlobalState, Grant
from dure.fleet.rounds import rooms
from dure.fleet.sites import DEVICES, Floats
from dure.fleet.tracks import Phase, Track

_TERMS = ("rent", "energy", "carbon", "transfer", "locality", "violations")


@dataclass(frozen=True, slots=True)
class ServiceCosts:
    """What a part of a service costs at each site over the horizon, in money."""

    total: Floats
    """[M]: weighted, congestion included; infinite where it may not go."""
    parts: tuple[Floats, ...]
    """One per name in `_TERMS`, weighted and signed."""
    crowding: Floats
    risk: Floats
    grams: Floats
    spend: Floats
    replicas: NDArray[np.int64]
    """[M]: instances it needs there."""
    least: NDArray[np.int64]
    """[M]: instances it could start with."""
    delay_h: Floats


def place_services(
    state: GlobalState, tracks: list[Track]
) -> tuple[list[GlobalInstruction], list[Track]]:
    """Find a place for every missing part of these services; also returns who got none at all."""
    instructions: list[GlobalInstruction] = []
    unserved: list[Track] = []
    for track in tracks:
        service = track.workload.service
        if service is None:
            continue
        missing = wanted_parts(service, track, state) - len(track.places)
        for _ in range(missing):
            grant = _best(state, track, service)
            if grant is None:
                break
            instructions.append(PlaceWorkload(state.place(track, grant)))
            missing -= 1
        if missing > 0:
            track.why = "no other cluster that may serve it has room for it now"
            state.waiting.wait(track, state.now_ns + state.settings.review_ns, ())
            if track.places:
                track.phase = Phase.PLACED
            else:
                unserved.append(track)
    return instructions, unserved


def make_room_for_services(
    state: GlobalState, tracks: list[Track], most: int
) -> list[GlobalInstruction]:
    """Displace cheaper work of lower priority for services that have no place at all."""
    instructions: list[GlobalInstruction] = []
    for track in tracks:
        service = track.workload.service
        if service is None or not state.policy.of(track.workload.kind).preempt:
            continue
        costs = service_costs(state, track, service)
        unit = track.needs.usage[state.sites.columns.kind]
        wanted = np.where(np.isfinite(costs.total)[:, None], unit * costs.least[:, None], np.inf)
        found = find_victims(state, track, wanted, most - len(instructions))
        if found is None:
            continue
        victims, candidates = found
        names = [(candidates.workloads[row], float(candidates.costs[row])) for row in victims.rows]
        instructions += displace(state, names, track.id)
        grant = _grant(state, costs, victims.site, int(costs.least[victims.site]), None)
        instructions.append(PlaceWorkload(state.place(track, grant)))
    return instructions


def wanted_parts(service: Service, track: Track, state: GlobalState) -> int:
    """Clusters it should be in, no more than there are for it."""
    rows = np.flatnonzero(possible(track, state.sites) & state.sites.columns.up)
    clusters = len(np.unique(state.sites.columns.cluster[rows]))
    return max(1, min(service.spread, clusters))


def _best(state: GlobalState, track: Track, service: Service) -> Grant | None:
    """The cheapest cluster it is not in yet and that has room; None: there is none."""
    columns = state.sites.columns
    costs = service_costs(state, track, service)
    total = costs.total.copy()
    taken = [columns.cluster[place.site] for place in track.places.values()]
    total[np.isin(columns.cluster, taken)] = np.inf
    room = np.minimum(rooms(track.needs, state.sites), _device_room(state, track))
    unit = track.needs.usage[columns.kind]
    with np.errstate(divide="ignore", invalid="ignore"):
        by_room = np.where(unit > 0, (columns.free + 1e-9) / unit, np.inf).min(axis=1)
    room = np.minimum(room, np.floor(by_room))
    # Fewer replicas than it needs are better than none, but only where no site has room for all.
    fits = total + np.where(room >= costs.replicas, 0.0, np.inf)
    if not np.isfinite(fits).any():
        fits = total + np.where(room >= costs.least, 0.0, np.inf)
    site = int(fits.argmin())
    if not np.isfinite(fits[site]):
        return None
    instances = int(min(costs.replicas[site], room[site]))
    return _grant(state, costs, site, instances, _runner_up(state, total, fits, site))


def _grant(
    state: GlobalState,
    costs: ServiceCosts,
    site: int,
    instances: int,
    runner_up: Alternative | None,
) -> Grant:
    pairs = zip(_TERMS, costs.parts, strict=True)
    explanation = Explanation(
        terms=tuple((name, float(part[site])) for name, part in pairs if part[site]),
        g_co2=float(costs.grams[site]),
        sla_risk=float(costs.risk[site]),
        congestion=float(costs.crowding[site]),
        runner_up=runner_up,
        note=f"over {state.settings.service_horizon_h:g} h, {instances} instances",
    )
    return Grant(
        site=site,
        instances=instances,
        delay_h=float(costs.delay_h[site]),
        run_h=state.settings.service_horizon_h,
        money=float(costs.spend[site]),
        grams=float(costs.grams[site]),
        explanation=explanation,
    )


def _runner_up(state: GlobalState, total: Floats, fits: Floats, site: int) -> Alternative | None:
    others = total.copy()
    others[site] = np.inf
    best = int(others.argmin())
    if not np.isfinite(others[best]):
        return None
    full = not np.isfinite(fits[best])
    cheaper = others[best] < total[site]
    why = "cheaper, but there is no room for it" if full and cheaper else ""
    return Alternative(state.sites.names[best], state.now_ns, float(others[best]), why)


def _device_room(state: GlobalState, track: Track) -> Floats:
    """[M]: instances that pools leave room for."""
    if not state.pool_owners:
        return np.full(len(state.sites), np.inf)
    devices = np.maximum(track.needs.usage[state.sites.columns.kind, DEVICES], 1e-9)
    return np.asarray(np.floor(state.pool_rooms(track.workload) / devices + 1e-6))


def way_ms(state: GlobalState, service: Service) -> Floats:
    """[M]: round trip from its users, by their share of requests."""
    fleet = state.settings.fleet
    whole = sum(share for _, share in service.users)
    by_cluster = np.array(
        [
            sum(share * fleet.latency(region, cluster) for region, share in service.users) / whole
            if whole
            else fleet.latency_default_ms
            for cluster in state.sites.cluster_ids
        ]
    )
    return np.asarray(by_cluster[state.sites.columns.cluster])


def service_costs(state: GlobalState, track: Track, service: Service) -> ServiceCosts:
    """One part of a service at every site, over the horizon."""
    sites, columns, policy = state.sites, state.sites.columns, state.policy
    rule = policy.of(track.workload.kind)
    hours = state.settings.service_horizon_h
    count = len(sites)
    way = way_ms(state, service)
    parts = wanted_parts(service, track, state)
    rate = (track.rate or service.requests_per_s) / parts
    replicas, alone_ms = _replicas(state, track, service, way, rate)
    late = np.where(way + alone_ms > service.target_latency_ms, 1.0, 0.0)
    run_h = np.full(count, hours)
    devices = track.needs.usage[columns.kind, DEVICES] * replicas
    anyway = terms.kept_on_anyway(state.running.remaining_h(state.now_ns, count), run_h)
    opened = terms.opened_devices(
        devices, columns.free_on_used, columns.node_devices, columns.fill, anyway
    )
    power_w = terms.added_power_w(opened, devices, columns.idle_w, columns.peak_w, columns.base_w)
    kwh = terms.energy_kwh(power_w, run_h, columns.pue)
    outlook = state.outlook()
    begin = np.zeros(1)
    length = run_h[None, :]
    rent = terms.rent(opened, outlook.mean(outlook.rent, begin, length)[0, :, 0], run_h)
    energy = terms.energy(kwh, outlook.mean(outlook.power, begin, length)[0, :, 0])
    grams = terms.carbon_g(kwh, outlook.mean(outlook.carbon, begin, length)[0, :, 0])
    carbon = terms.carbon(grams, np.asarray(state.adaptation.carbon_price(rule, policy)))
    near = np.asarray(state.adaptation.locality_weight(track.workload, rule, policy))
    bring, bring_h, there = np.zeros(count), np.zeros(count), np.ones(count, dtype=np.bool_)
    for artefact in state.artefacts.of(track.workload):
        reach = state.artefacts.reach(artefact)
        bring, bring_h, there = bring + reach.money, bring_h + reach.hours, there & reach.present
    sla = track.workload.sla
    risk = terms.violation_penalty(
        late, np.asarray(sla.penalty_per_violated_minute), np.asarray(sla.penalty_cap), hours
    )
    # Without a penalty a service still belongs where its target can be met.
    missed = late * rent.max(initial=0.0)
    sla_weight = state.adaptation.sla_weight(track.workload.kind, policy)
    weighted = (
        rent * rule.cost_weight,
        energy * rule.cost_weight,
        carbon,
        terms.locality_saving(bring, near) * rule.cost_weight,
        -terms.locality_saving(bring * there, near) * rule.cost_weight,
        np.maximum(risk, missed) * sla_weight,
    )
    crowding = np.zeros(count)
    if policy.congestion.enabled:
        crowding = terms.congestion(devices * hours, state.adaptation.congestion.now)
    open_sites = possible(track, sites) & columns.up
    for site, until_ns in track.avoid.items():
        open_sites[site] = open_sites[site] and until_ns <= state.now_ns
    total = np.where(open_sites, sum(weighted) + crowding, np.inf)
    return ServiceCosts(
        total=total,
        parts=weighted,
        crowding=crowding,
        risk=risk,
        grams=grams,
        spend=rent + energy + bring * ~there,
        replicas=replicas,
        least=np.full(count, max(1, service.warm_minimum), dtype=np.int64),
        delay_h=bring_h + service.load_s / 3600.0,
    )


def _replicas(
    state: GlobalState, track: Track, service: Service, way: Floats, rate: float
) -> tuple[NDArray[np.int64], Floats]:
    """[M] instances for its load, and milliseconds a request takes there alone."""
    columns = state.sites.columns
    replicas = np.ones(len(state.sites), dtype=np.int64)
    alone = np.full(len(state.sites), np.inf)
    known: dict[tuple[int, float], int] = {}
    for row in range(len(state.sites)):
        kind = int(columns.kind[row])
        if not track.needs.fits[kind]:
            continue
        profile = state.sites.kinds[kind][0]
        budget = service.target_latency_ms - float(way[row])
        key = (kind, budget)
        if key not in known:
            known[key] = max(1, replicas_for(track.workload, profile, rate, budget))
        replicas[row] = known[key]
        alone[row] = service.service_time_ms / speed(track.workload, profile)
    return replicas, alone
