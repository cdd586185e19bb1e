"""Gives services their clusters: near their users, spread, with replicas for their load.

What is provided for is the peak of the next hour (`dure.fleet.loads`). At the sites of a service
room is kept for it, so that jobs do not take what its cluster's autoscaler will want; where a site
has not enough, the service gets a part in another cluster as well, until one is enough again.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.decisions import Alternative, Explanation
from dure.domain.fleet.events import ServiceObserved
from dure.domain.fleet.instructions import GlobalInstruction, PlaceWorkload, PreemptWorkload
from dure.domain.fleet.workloads import Service
from dure.fleet import terms
from dure.fleet.costs import possible
from dure.fleet.displacing import displace, find_victims
from dure.fleet.fit import replicas_for, speed
from dure.fleet.global_state import GlobalState, Grant
from dure.fleet.loads import UNSEEN_PEAK
from dure.fleet.rounds import rooms
from dure.fleet.share_calls import ShareCall, is_due
from dure.fleet.sites import DEVICES, Floats
from dure.fleet.tracks import Phase, PlaceRow, Track
from dure.fleet.turns import turn_wait_ms

_TERMS = ("rent", "energy", "carbon", "transfer", "locality", "violations")


@dataclass(frozen=True, slots=True)
class ServiceCosts:
    """What a part of a service costs at each site over the horizon, in money."""

    total: Floats
    """[M]: weighted, congestion included; infinite where it may not go."""
    parts: tuple[Floats, ...]
    """One per name in `_TERMS`, weighted and signed."""
    crowding: Floats
    missed: Floats
    """[M]: what missing its target there counts for, before weights; `risk` where that is more."""
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
            grant = best_place(state, track, service)
            if grant is None:
                break
            instructions.append(PlaceWorkload(state.place(track, grant)))
            keep_room(state, track, service)
            missing -= 1
        if missing > 0:
            settings = state.settings
            review_ns = settings.review_ns if track.places else settings.unserved_review_ns
            track.why = "no other cluster that may serve it has room for it now"
            state.waiting.wait(track, state.now_ns + review_ns, ())
            if track.places:
                track.phase = Phase.PLACED
            else:
                unserved.append(track)
    return instructions, unserved


def make_room_for_services(
    state: GlobalState, tracks: list[Track], most: int
) -> list[GlobalInstruction]:
    """Displace cheaper work for services that have no place at all: of lower priority, or of
    tenants above their share."""
    instructions: list[GlobalInstruction] = []
    stops = 0
    for track in tracks:
        service = track.workload.service
        if service is None or not state.policy.of(track.workload.kind).preempt:
            continue
        costs = service_costs(state, track, service)
        unit = track.needs.usage[state.sites.columns.kind]
        wanted = np.where(np.isfinite(costs.total)[:, None], unit * costs.least[:, None], np.inf)
        found = find_victims(state, track, wanted, most - stops)
        why = ""
        if found is None and is_due(state, track):
            shares = ShareCall(state)
            called = shares.find(track, wanted, most - stops)
            if called is not None:
                shares.took(track, called)
                found, why = (called.victims, called.candidates), called.why
        if found is None:
            continue
        victims, candidates = found
        names = [(candidates.workloads[row], float(candidates.costs[row])) for row in victims.rows]
        stops += len(names)
        instructions += displace(state, names, track.id, why)
        grant = part_grant(state, costs, victims.site, int(costs.least[victims.site]), None)
        instructions.append(PlaceWorkload(state.place(track, grant)))
    return instructions


def wanted_parts(service: Service, track: Track, state: GlobalState) -> int:
    """Clusters it should be in, no more than there are for it."""
    return max(1, min(max(service.spread, track.parts), _clusters(track, state)))


def _clusters(track: Track, state: GlobalState) -> int:
    """Clusters that could serve it; what is up changes with the version of the book of sites."""
    key, version = (track.instances, track.workload.clusters), state.sites.version
    known = track.needs.reach.get(key)
    if known is None or known[0] != version:
        rows = np.flatnonzero(possible(track, state.sites) & state.sites.columns.up)
        known = version, len(np.unique(state.sites.columns.cluster[rows]))
        track.needs.reach[key] = known
    return known[1]


def observe_load(
    state: GlobalState, track: Track, service: Service, event: ServiceObserved
) -> None:
    """Provide for what a service will need; ask for another part where its site is too small."""
    rows = state.sites.sites_of.get(event.cluster, ())
    place = next((each for each in track.places.values() if each.site in rows), None)
    if place is None:
        return
    state.loads.observe(state.now_ns, track.id, event.cluster, event.requests_per_s)
    peak = state.loads.peak(state.now_ns, track.id, forecast=state.policy.forecast) or 0.0
    if (
        event.replicas == place.replicas
        and not event.violated_share
        and abs(peak - track.rate) <= _NO_NEWS * track.rate
    ):
        return
    track.rate, place.replicas = peak, event.replicas
    missing = keep_room(state, track, service)
    if event.replicas and track.phase is Phase.PLACED:
        track.phase = Phase.RUNNING
    if missing <= 0 or event.violated_share <= 0.0 or track.phase is not Phase.RUNNING:
        return
    settled = len(track.places) >= wanted_parts(service, track, state)
    if settled and len(track.places) < _clusters(track, state):
        track.parts = len(track.places) + 1
        state.waiting.admit(track)


def keep_room(state: GlobalState, track: Track, service: Service) -> int:
    """Keep what is free at the sites of a service for its peak; returns instances too few."""
    sites, columns = state.sites, state.sites.columns
    places = list(track.places.values())
    way = state.way_ms(service.users)
    missing = 0
    for number, place in enumerate(places):
        if number == 0:
            profile = sites.kinds[columns.kind[place.site]][0]
            budget = service.target_latency_ms - float(way[place.site])
            needed = replicas_for(track.workload, profile, peak_rate(track, service), budget)
            missing = max(0, needed - sum(each.replicas or each.instances for each in places))
        kept = min(missing, _room_at(state, track, place))
        state.set_kept(track, place, kept)
        missing -= kept
    return missing


def _room_at(state: GlobalState, track: Track, place: PlaceRow) -> int:
    """Instances of a service that its site has room for, beside those it has and others' room."""
    columns = state.sites.columns
    unit: list[float] = track.needs.usage[columns.kind[place.site]].tolist()
    free: list[float] = columns.free[place.site].tolist()
    # One number each: calls on whole arrays would take longer than the sum.
    rooms = (
        math.floor((left + each * place.kept + 1e-9) / each)
        for left, each in zip(free, unit, strict=True)
        if each > 0
    )
    return max(0, min(rooms))


def peak_rate(track: Track, service: Service) -> float:
    """Requests per second to provide for."""
    return track.rate or UNSEEN_PEAK * service.requests_per_s


def merge_parts(state: GlobalState, track: Track, service: Service) -> list[GlobalInstruction]:
    """Give up the dearest part of a split service when the others are enough without it."""
    if track.phase is not Phase.RUNNING or len(track.places) <= max(1, service.spread):
        return []
    if track.parts < len(track.places) or track.violated > _FINE:
        return []
    sites, columns = state.sites, state.sites.columns
    costs = service_costs(state, track, service)
    dearest = max(track.places, key=lambda each: costs.total[track.places[each].site])
    others = [place for attempt, place in track.places.items() if attempt != dearest]
    profile = sites.kinds[columns.kind[others[0].site]][0]
    budget = service.target_latency_ms - float(state.way_ms(service.users)[others[0].site])
    needed = replicas_for(track.workload, profile, peak_rate(track, service), budget)
    have = sum(place.replicas + _room_at(state, track, place) for place in others)
    if have < _SPARE_TO_MERGE * needed:
        return []
    track.parts = len(others)
    place = track.places[dearest]
    return [
        PreemptWorkload(
            workload=track.id,
            cluster=sites.names[place.site].cluster,
            attempt=dearest,
            wanted_by=track.id,
            cost=0.0,
        )
    ]


_NO_NEWS = 0.02
"""Change of a peak, as a share, up to which what is kept for it stays as it is."""
_FINE = 0.02
"""Share of time in violation up to which a split service may do with fewer parts."""
_SPARE_TO_MERGE = 1.25
"""Room that the other parts must have for that, over what they would need: else it splits again."""


def best_place(state: GlobalState, track: Track, service: Service) -> Grant | None:
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
    runner_up = _runner_up(state, total, (costs.replicas, room), site)
    beside = _beside(state, track, service)
    return part_grant(state, costs, site, instances, runner_up, beside)


def _beside(state: GlobalState, track: Track, service: Service) -> str:
    """Why a service that has places gets another one, dearer than those."""
    names = [str(state.sites.names[place.site]) for place in track.places.values()]
    if not names:
        return ""
    if len(names) < service.spread:
        return f", beside {', '.join(names)}: it is to be in {service.spread} clusters"
    return f", beside {', '.join(names)}: there is no room there for all of its load"


def part_grant(
    state: GlobalState,
    costs: ServiceCosts,
    site: int,
    instances: int,
    runner_up: Alternative | None,
    beside: str = "",
) -> Grant:
    pairs = zip(_TERMS, costs.parts, strict=True)
    explanation = Explanation(
        terms=tuple((name, float(part[site])) for name, part in pairs if part[site]),
        g_co2=float(costs.grams[site]),
        sla_risk=float(costs.risk[site]),
        congestion=float(costs.crowding[site]),
        runner_up=runner_up,
        note=f"over {state.settings.service_horizon_h:g} h, {instances} instances{beside}",
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


def _runner_up(
    state: GlobalState, total: Floats, wanted: tuple[NDArray[np.int64], Floats], site: int
) -> Alternative | None:
    """The cheapest other site; `wanted` are instances it needs and has room for, site by site."""
    others = total.copy()
    others[site] = np.inf
    best = int(others.argmin())
    if not np.isfinite(others[best]):
        return None
    why = ""
    if others[best] < total[site]:
        needed, room = int(wanted[0][best]), max(0, int(wanted[1][best]))
        why = f"cheaper, but it has room for {room} of {needed} instances"
    return Alternative(state.sites.names[best], state.now_ns, float(others[best]), why)


def _device_room(state: GlobalState, track: Track) -> Floats:
    """[M]: instances that pools leave room for."""
    if not state.pool_owners:
        return np.full(len(state.sites), np.inf)
    devices = np.maximum(track.needs.usage[state.sites.columns.kind, DEVICES], 1e-9)
    return np.asarray(np.floor(state.pool_rooms(track.workload) / devices + 1e-6))


def service_costs(state: GlobalState, track: Track, service: Service) -> ServiceCosts:
    """One part of a service at every site, over the horizon."""
    sites, columns, policy = state.sites, state.sites.columns, state.policy
    rule = policy.of(track.workload.kind)
    hours = state.settings.service_horizon_h
    count = len(sites)
    way = state.way_ms(service.users)
    parts = wanted_parts(service, track, state)
    rate = peak_rate(track, service) / parts
    replicas, alone_ms = _replicas(state, track, service, way, rate)
    wait_ms = turn_wait_ms(state, track, service, rate / np.maximum(replicas, 1))
    late = np.where(way + alone_ms + wait_ms > service.target_latency_ms, 1.0, 0.0)
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
    brought = bring * ~there * rule.cost_weight
    weighted = (
        rent * rule.cost_weight,
        energy * rule.cost_weight,
        carbon,
        brought,
        terms.locality(brought, near),
        np.maximum(risk, missed) * sla_weight,
    )
    crowding = np.zeros(count)
    if policy.congestion.enabled:
        # A service stays through crowded and idle hours alike: their mean counts, not this moment.
        book = state.adaptation.congestion
        usual = book.over(state.now_ns, round(hours), forecast=policy.forecast)
        crowding = terms.congestion(devices * hours, usual)
    open_sites = possible(track, sites) & columns.up
    for site, until_ns in track.avoid.items():
        open_sites[site] = open_sites[site] and until_ns <= state.now_ns
    total = np.where(open_sites, sum(weighted) + crowding, np.inf)
    return ServiceCosts(
        total=total,
        parts=weighted,
        crowding=crowding,
        missed=np.maximum(risk, missed),
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
    pairs, pair_of = state.kinds_and_ways(service.users, way)
    workload, fits = track.workload, track.needs.fits.tolist()
    replicas, alone = [1] * len(pairs), [np.inf] * len(pairs)
    for number, (kind, way_ms) in enumerate(pairs):
        if fits[kind]:
            profile = state.sites.kinds[kind][0]
            budget = service.target_latency_ms - way_ms
            replicas[number] = max(1, replicas_for(workload, profile, rate, budget))
            alone[number] = service.service_time_ms / speed(workload, profile)
    return np.array(replicas, dtype=np.int64)[pair_of], np.array(alone)[pair_of]
