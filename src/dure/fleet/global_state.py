"""All that the global stage knows, and the few ways in which it changes."""

from dataclasses import dataclass, field

import numpy as np

from dure.domain.fleet.clusters import Cluster
from dure.domain.fleet.decisions import Explanation, Order
from dure.domain.fleet.events import MovesHeld
from dure.domain.fleet.policy import FleetPolicy
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.tenancy import FleetTenant
from dure.domain.fleet.workloads import Demand, Workload
from dure.domain.ids import PoolId, TenantId, WorkloadId
from dure.domain.units import GIB
from dure.fleet.adaptation import Adaptation
from dure.fleet.artefacts import ArtefactBook
from dure.fleet.assignment.problem import Prices
from dure.fleet.budgets import BudgetBook
from dure.fleet.costs import Surroundings
from dure.fleet.fairness import Amounts, ShareBook
from dure.fleet.forecasts import SeriesForecasts
from dure.fleet.global_settings import GlobalSettings
from dure.fleet.loads import LoadBook
from dure.fleet.migration import Tenure
from dure.fleet.outlook import Forecast, Outlook, look_ahead, persist
from dure.fleet.pools import Place, PoolBook
from dure.fleet.sites import CPUS, DEVICES, HOST, MEMORY, Floats, Integers, SiteBook
from dure.fleet.tracks import (
    FOR_EVER_NS,
    HOUR_NS,
    Needs,
    Phase,
    PlaceRow,
    RunningBook,
    Track,
    after_h,
    needs_of,
    runtimes_h,
)
from dure.fleet.waiting import WaitingRoom


def amounts_of(usage: Floats) -> Amounts:
    """Use of a site's dimensions as fairness counts it."""
    return Amounts(
        float(usage[DEVICES]) * 1000.0,
        float(usage[MEMORY]) * GIB,
        float(usage[CPUS]) * 1000.0,
        float(usage[HOST]) * GIB,
    )


def all_amounts(usage: Floats) -> Floats:
    """The same of many at once: [..., dimensions] in, [..., fields of `Amounts`] out."""
    return np.asarray(usage[..., _AMOUNTS] * _AMOUNT_UNITS)


_AMOUNTS = [DEVICES, MEMORY, CPUS, HOST]
_AMOUNT_UNITS = np.array([1000.0, GIB, 1000.0, GIB])


@dataclass(frozen=True, slots=True)
class Grant:
    """A place that was decided on."""

    site: int
    instances: int
    delay_h: float
    """Until it starts."""
    run_h: float
    money: float
    grams: float
    explanation: Explanation
    makes_room: bool = False
    """Whether replicas that other services can spare give way to it."""
    carbon_saved_g: float = 0.0
    """Of a move: grams that it is expected to save."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """A place that was taken from a workload and will be free when it has stopped."""

    tenant: TenantId
    site: int
    usage: Floats


@dataclass(frozen=True, slots=True)
class Look:
    """At an owner that waits, because there is room for it."""

    at_ns: int
    rooms: frozenset[tuple[int, int]]
    """Sites that had room for it, and how often each had grown."""


@dataclass(slots=True)
class GlobalState:
    """The books of the global stage."""

    settings: GlobalSettings
    policy: FleetPolicy = field(init=False)
    sites: SiteBook = field(init=False)
    artefacts: ArtefactBook = field(init=False)
    budgets: BudgetBook = field(init=False)
    waiting: WaitingRoom = field(init=False)
    running: RunningBook = field(default_factory=RunningBook)
    plans: RunningBook = field(default_factory=RunningBook)
    """Places that waiting jobs are planned to have later."""
    adaptation: Adaptation = field(default_factory=Adaptation)
    loads: LoadBook = field(default_factory=LoadBook)
    shares: ShareBook = field(default_factory=ShareBook)
    pools: PoolBook = field(default_factory=PoolBook)
    tracks: dict[WorkloadId, Track] = field(default_factory=dict)
    unstarted: dict[WorkloadId, Track] = field(default_factory=dict)
    """Services of which no cluster has started a replica that it still has."""
    moving: set[WorkloadId] = field(default_factory=set)
    held: MovesHeld = field(default_factory=lambda: MovesHeld(0))
    """What is not to be moved by itself."""
    job_tenure: Tenure = field(default_factory=Tenure)
    """How long jobs stay at each site."""
    service_tenure: Tenure = field(default_factory=Tenure)
    leaving: dict[tuple[WorkloadId, int], Leaving] = field(default_factory=dict)
    """By workload and attempt: displaced, and not yet known to have stopped."""
    wanted_pools: dict[str, float] = field(default_factory=dict)
    """Devices of their pools that owners wait for."""
    owners_seen: dict[WorkloadId, Look] = field(default_factory=dict)
    """When those who wait for units of their pool were last looked at because there are some."""
    pool_owners: set[TenantId] = field(default_factory=set)
    duals: Prices | None = None
    """Scarcity found in the last round that had to look for it."""
    carbon_forecast: SeriesForecasts = field(init=False)
    price_forecast: SeriesForecasts = field(init=False)
    now_ns: int = 0
    start_ns: int | None = None
    """When the present period of budgets began."""
    _tracked: int = 0
    """Workloads ever known."""
    _outlook: Outlook | None = None
    _outlook_key: tuple[int, int, bool] = (-1, -1, False)
    _needs: dict[tuple[Demand, frozenset[str] | None, int], Needs] = field(default_factory=dict)
    _places: list[Place] = field(default_factory=list)
    _pool_columns: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Where pools count the devices of each site."""
    _worth: Floats = field(default_factory=lambda: np.zeros(0))
    _worth_version: int = -1
    _ways: dict[tuple[tuple[str, float], ...], Floats] = field(default_factory=dict)
    _ways_version: int = -1
    _pairs: dict[tuple[tuple[str, float], ...], tuple[list[tuple[int, float]], Integers]] = field(
        default_factory=dict
    )
    """By users: distinct pairs of class of devices and way, and the pair of each site."""

    def __post_init__(self) -> None:
        self.policy = self.settings.policy
        self.sites = SiteBook(self.settings.fleet, self.settings.expected_fill)
        self.artefacts = ArtefactBook(self.sites)
        self.budgets = BudgetBook(self.settings.budget_warning)
        self.waiting = WaitingRoom(self.tracks)
        self.carbon_forecast = SeriesForecasts(self.settings.carbon_ahead_ns)
        self.price_forecast = SeriesForecasts(self.settings.prices_ahead_ns)

    # --- views -----------------------------------------------------------------------------

    def around(self) -> Surroundings:
        """What costs depend on now."""
        return Surroundings(
            sites=self.sites,
            outlook=self.outlook(),
            running=self.running,
            plans=self.plans,
            artefacts=self.artefacts,
            adaptation=self.adaptation,
            policy=self.policy,
            settings=self.settings,
            now_ns=self.now_ns,
        )

    def outlook(self) -> Outlook:
        """Rates of the hours ahead; made once an hour."""
        key = (self.now_ns // HOUR_NS, self.sites.version, self.policy.forecast)
        if self._outlook is None or key != self._outlook_key:
            carbon: Forecast = self.carbon_forecast if self.policy.forecast else persist
            price: Forecast = self.price_forecast if self.policy.forecast else persist
            self._outlook = look_ahead(self.sites, self.now_ns, carbon, price)
            self._outlook_key = key
        return self._outlook

    def see_series(self, cluster: Cluster) -> None:
        """Prices and carbon of a cluster are new, or known for longer."""
        self.carbon_forecast.set(cluster.id, cluster.carbon_g_per_kwh)
        self.price_forecast.set(cluster.id, cluster.electricity_per_mwh)
        self._outlook = None

    def place_of(self, site: int) -> Place:
        """Where pools count the devices of a site."""
        while len(self._places) < len(self.sites):
            self._places.append(self._place(len(self._places)))
        return self._places[site]

    def _place(self, site: int) -> Place:
        group = self.sites.groups[site]
        return Place(self.sites.names[site].cluster, group.profile, ShareMode(group.mode))

    def regrouped(self, site: int) -> None:
        """A site has other nodes than before: what runs there is still there, maybe in another
        place as pools count them."""
        rows = np.flatnonzero(self.running.used & (self.running.site == site))
        self.sites.columns.free[site] -= self.running.usage[rows].sum(axis=0)
        self.sites.columns.free[site] -= self.sites.columns.kept[site]
        new = self._place(site)
        if site >= len(self._places) or (old := self._places[site]) == new:
            return
        self._places[site] = new
        self._pool_columns = np.zeros(0, dtype=np.int64)
        for row in rows.tolist():
            owner = self.running.owner[row]
            assert owner is not None
            devices = float(self.running.usage[row, DEVICES])
            self.pools.gave_back(owner, old, devices)
            self.pools.took(self.tracks[owner].workload, new, devices)

    def resize_place(self, site: int) -> None:
        """A site has other nodes than before: pools hold what its place has now."""
        place = self.place_of(site)
        columns = self.sites.columns
        devices = sum(
            columns.nodes[row] * columns.node_devices[row]
            for row in self.sites.sites_of[place.cluster]
            if columns.up[row] and self.place_of(row) == place
        )
        self.pools.set_capacity(place, int(devices))

    def pool_rooms(self, workload: Workload) -> Floats:
        """[M]: devices of each site that pools leave to a workload."""
        return self.pool_columns_of(self.pools.rooms(workload.tenant, workload.pool))

    def pool_columns_of(self, by_place: Floats) -> Floats:
        """[M]: what holds of the place that pools count the devices of each site at."""
        if len(self._pool_columns) != len(self.sites):
            self._pool_columns = np.array(
                [self.pools.index(self.place_of(row)) for row in range(len(self.sites))],
                dtype=np.int64,
            )
        return np.asarray(by_place[self._pool_columns])

    def way_ms(self, users: tuple[tuple[str, float], ...]) -> Floats:
        """[M]: round trip from users to each site, by their share of requests."""
        if self._ways_version != self.sites.version:
            self._ways.clear()
            self._pairs.clear()
            self._ways_version = self.sites.version
        way = self._ways.get(users)
        if way is None:
            fleet = self.settings.fleet
            whole = sum(share for _, share in users)
            by_cluster = np.array(
                [
                    sum(share * fleet.latency(region, cluster) for region, share in users) / whole
                    if whole
                    else 0.0
                    for cluster in self.sites.cluster_ids
                ]
            )
            way = self._ways[users] = np.asarray(by_cluster[self.sites.columns.cluster])
        return way

    def kinds_and_ways(
        self, users: tuple[tuple[str, float], ...], way: Floats
    ) -> tuple[list[tuple[int, float]], Integers]:
        """Distinct classes of devices and ways [M] of these users, and which of them a site has."""
        known = self._pairs.get(users)
        if known is None:
            numbers: dict[tuple[int, float], int] = {}
            each = zip(self.sites.columns.kind.tolist(), way.tolist(), strict=True)
            pair_of = [numbers.setdefault(pair, len(numbers)) for pair in each]
            known = self._pairs[users] = list(numbers), np.array(pair_of, dtype=np.int64)
        return known

    def worth(self) -> Floats:
        """[M]: what a device-hour is worth at each site: its price, or where it is owned what
        others charge (its energy alone where nobody does)."""
        if self._worth_version != self.sites.version:
            columns = self.sites.columns
            own = np.array([self.sites.device_price(row) for row in range(len(self.sites))])
            rented = columns.rent[~columns.owned]
            usual = float(np.median(rented)) if len(rented) else 0.0
            self._worth = np.where(columns.owned, np.maximum(own, usual), own)
            self._worth_version = self.sites.version
        return self._worth

    def free_soon(self) -> Floats:
        """[M, D]: what is free with what gangs have beyond their least, once those have stopped
        that were told to. What the places of those they made room for take is already gone."""
        columns = self.sites.columns
        free = np.asarray(columns.free + columns.surplus)
        for each in self.leaving.values():
            free[each.site] += each.usage
        return free

    # --- changes ---------------------------------------------------------------------------

    def tenant_row(self, tenant: TenantId) -> int:
        """The number of a tenant; one nobody declared has weight 1 and no budget."""
        if tenant not in self.budgets.rows:
            self.set_tenant(FleetTenant(tenant))
        return self.budgets.rows[tenant]

    def set_tenant(self, tenant: FleetTenant) -> None:
        """A tenant is new or changed."""
        self.budgets.set_tenant(tenant)
        self.shares.set_tenant(tenant.id, tenant.weight)

    def count_totals(self) -> None:
        """The fleet grew or shrank: shares are of what there is now."""
        columns = self.sites.columns
        self.shares.totals = amounts_of(columns.total[columns.up].sum(axis=0))

    def track(self, workload: Workload) -> Track:
        """Start to remember a workload."""
        tenant = self.budgets.tenants[self.tenant_row(workload.tenant)]
        needs, hours = self._shape(workload)
        self._tracked += 1
        track = Track(
            workload,
            needs,
            hours,
            number=self._tracked,
            pending_ns=self.now_ns,
            priority=workload.priority + tenant.priority,
        )
        self.tracks[workload.id] = track
        self.see_replicas(track)
        return track

    def see_replicas(self, track: Track) -> None:
        """A service is new, or has started or lost replicas: note whether it has any."""
        if track.is_job:
            return
        if any(place.started_ns is not None for place in track.places.values()):
            self.unstarted.pop(track.id, None)
        else:
            self.unstarted[track.id] = track

    def refresh_needs(self) -> None:
        """There are new classes of devices: everybody who waits may fit on them."""
        for track in self.tracks.values():
            if len(track.needs.shapes) != len(self.sites.kinds):
                track.needs, track.runtime_h = self._shape(track.workload)

    def _shape(self, workload: Workload) -> tuple[Needs, Floats]:
        key = (workload.demand, workload.profiles, len(self.sites.kinds))
        needs = self._needs.get(key)
        if needs is None:
            needs = self._needs[key] = needs_of(workload, self.sites)
        return needs, runtimes_h(workload, self.sites, needs)

    def plan(self, track: Track, site: int, span_ns: tuple[int, int]) -> None:
        """Keep a later place in mind for a job that waits for it."""
        usage = track.needs.usage[self.sites.columns.kind[site]] * track.instances
        tenant = self.tenant_row(track.workload.tenant)
        track.plan = self.plans.add(track.id, site, tenant, span_ns, usage)

    def unplan(self, track: Track) -> None:
        """Forget a job's plan for later."""
        if track.plan >= 0:
            self.plans.remove(track.plan)
            track.plan = -1

    def place(self, track: Track, grant: Grant) -> Order:
        """Give a workload a place: the order to its cluster."""
        track.attempt += 1
        self.occupy(track, track.attempt, grant)
        return Order(
            workload=track.workload,
            site=self.sites.names[grant.site],
            attempt=track.attempt,
            instances=grant.instances,
            resume_share=track.saved_share,
            start_ns=self.now_ns,
            explanation=grant.explanation,
            makes_room=grant.makes_room,
        )

    def occupy(self, track: Track, attempt: int, grant: Grant) -> None:
        """Enter a place into all books."""
        workload, site = track.workload, grant.site
        usage = track.needs.usage[self.sites.columns.kind[site]] * grant.instances
        start_ns = after_h(self.now_ns, grant.delay_h)
        end_ns = after_h(start_ns, grant.run_h) if track.is_job else FOR_EVER_NS
        tenant = self.tenant_row(workload.tenant)
        row = self.running.add(workload.id, site, tenant, (start_ns, end_ns), usage)
        self.running.money[row], self.running.grams[row] = grant.money, grant.grams
        self.running.priority[row] = track.priority
        self.running.preemptible[row] = workload.preemptible and track.is_job
        track.places[attempt] = PlaceRow(
            site=site,
            row=row,
            instances=grant.instances,
            ordered_ns=self.now_ns,
            start_ns=start_ns,
            start_share=track.saved_share,
            told=int(self.sites.columns.told[site]),
        )
        self.sites.take(site, usage)
        self.shares.took(workload.tenant, amounts_of(usage))
        self.pools.took(workload, self.place_of(site), float(usage[DEVICES]))
        self.waiting.leave(track)
        for artefact in self.artefacts.of(workload):
            self.adaptation.used(artefact)
        track.phase = Phase.PLACED
        track.workers = grant.instances
        track.explanation = grant.explanation
        track.until_ns, track.why = 0, ""

    def release(self, track: Track, attempt: int, *, undone: bool = False) -> None:
        """A place is given up; `undone`: it never started, so nothing else will say it is free."""
        place = track.places.pop(attempt)
        self.leaving.pop((track.id, attempt), None)
        usage = self.running.usage[place.row].copy()
        self.set_extra(track, place, 0)
        self.set_kept(track, place, 0)
        if not track.is_job:
            self.loads.left(track.id, self.sites.names[place.site].cluster)
        self.running.remove(place.row)
        self.shares.gave_back(track.workload.tenant, amounts_of(usage))
        self.pools.gave_back(track.id, self.place_of(place.site), float(usage[DEVICES]))
        if undone:
            self.sites.give_back(place.site, usage, place.told)
        self.see_replicas(track)

    def set_extra(self, track: Track, place: PlaceRow, extra: int) -> None:
        """An elastic gang has so many workers beyond its least."""
        if extra != place.extra:
            columns = self.sites.columns
            unit = track.needs.usage[columns.kind[place.site]]
            columns.surplus[place.site] += unit * (extra - place.extra)
            np.maximum(columns.surplus[place.site], 0.0, out=columns.surplus[place.site])
            place.extra = extra

    def set_kept(self, track: Track, place: PlaceRow, instances: int) -> None:
        """Keep room for so many more instances of a service beside those it has there."""
        if instances != place.kept:
            unit = track.needs.usage[self.sites.columns.kind[place.site]]
            self.sites.keep(place.site, unit * (instances - place.kept))
            place.kept = instances

    def want(self, devices: dict[str, float]) -> None:
        """Owners wait for so many devices of their pools; those not named for none."""
        for pool in self.wanted_pools.keys() | devices.keys():
            self.pools.wants_devices(PoolId(pool), devices.get(pool, 0.0))
        self.wanted_pools = dict(devices)

    def forget(self, track: Track) -> None:
        """It is done, refused or withdrawn."""
        for attempt in list(track.places):
            self.release(track, attempt)
        self.waiting.leave(track)
        self.unplan(track)
        self.drop(track)

    def drop(self, track: Track) -> None:
        """Remember a workload no longer; it has neither a place nor a plan."""
        self.unstarted.pop(track.id, None)
        del self.tracks[track.id]
