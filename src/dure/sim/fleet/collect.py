"""From a finished simulated run to its figures."""

import statistics
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import Cluster, NodeGroup
from dure.domain.fleet.policy import HOUR_NS
from dure.domain.fleet.workloads import Workload
from dure.domain.ids import TenantId
from dure.domain.units import NS_PER_S
from dure.fleet.bills import FLEET, BillLine
from dure.fleet.fit import footprint, never_fits, runtime_ns
from dure.fleet.forecasts import ForecastError
from dure.fleet.global_machine import GlobalMachine
from dure.sim.fleet.billing import PeriodBill
from dure.sim.fleet.results import (
    ActionFigures,
    BillFigures,
    ClusterFigures,
    FleetResult,
    ForecastFigures,
    HourlySeries,
    JobFigures,
    MoneyTerms,
    PeriodFigures,
    ServiceFigures,
    SpeedFigures,
    TenantFigures,
)
from dure.sim.fleet.setting import Setting
from dure.sim.fleet.world import JobRecord, World


def charge_unfinished(world: World) -> None:
    """Bill what is left undone at the dearest on-demand price that could run it, and its lateness.

    Its end is taken to be as late as that run would make it if it began when the simulation ended.
    """
    prices = Dearest(world.setting)
    end_ns = world.setting.end_ns
    for job in world.jobs.values():
        if job.ended_ns >= 0 or job.refused:
            continue
        workload = job.workload
        done = max((run.done_at(end_ns) for run in job.live), default=job.saved)
        done = max(done, job.saved)
        cost, took_ns = prices.of(workload, done)
        books = world.books
        books.punish(books.unfinished, workload, cost)
        deadline_ns = workload.sla.deadline_ns
        if deadline_ns is not None and end_ns + took_ns > deadline_ns:
            late = workload.sla.late_cost(end_ns + took_ns - deadline_ns)
            books.punish(books.late_jobs, workload, late)


class Dearest:
    """The dearest way to run a job: list prices of rented devices; energy where none is rented."""

    def __init__(self, setting: Setting) -> None:
        self._fleet = setting.fleet
        self._sites = [(c, group) for c in setting.fleet.clusters for group in c.groups]
        self._known: dict[object, tuple[float, float]] = {}

    def of(self, workload: Workload, done: float) -> tuple[float, int]:
        """What the rest of a job costs there, and how long it takes."""
        work = workload.work
        if work is None:
            return 0.0, 0
        kind = (workload.demand, workload.gang.workers, work.reference, work.compute_bound)
        where = (workload.kind, workload.clusters, workload.profiles)
        if (kind, where) not in self._known:
            hour = replace(workload, work=replace(work, reference_s=3600.0))
            cost, took_ns = self._whole(hour)
            self._known[kind, where] = cost, float(took_ns)
        cost, took = self._known[kind, where]
        hours = (1.0 - done) * work.reference_s / 3600.0
        return cost * hours, round(took * hours)

    def _whole(self, workload: Workload) -> tuple[float, int]:
        """The dearest way to run all of a job."""
        rented: list[tuple[float, int]] = []
        owned: list[tuple[float, int]] = []
        for cluster, group in self._sites:
            if never_fits(workload, [(cluster.id, group)]) is not None:
                continue
            found = self._at(workload, cluster, group)
            (owned if cluster.owned(group.profile) else rented).append(found)
        return max(rented or owned, default=(0.0, 0))

    def _at(self, workload: Workload, cluster: Cluster, group: NodeGroup) -> tuple[float, int]:
        profile = device_profile(group.profile)
        shape = footprint(workload.demand, profile, group.mode)
        share = shape.device_share if shape is not None else 0.0
        took_ns = runtime_ns(workload, profile, workload.gang.workers)
        hours = took_ns / HOUR_NS * share * workload.gang.workers
        tariff = cluster.tariff
        price = tariff.device_hour.get(group.profile)
        if price is None:
            watts = profile.power_w(1.0) + group.base_power_w / group.devices
            price = watts / 1e6 * cluster.pue * float(cluster.electricity_per_mwh.values.max())
        else:
            price *= max(tariff.calendar)
        return self._fleet.rates.to_base(price * hours, tariff.currency), took_ns


def collect(world: World, mode: str, wall_s: float) -> FleetResult:
    """All figures of a run; `charge_unfinished` has been called."""
    setting = world.setting
    totals = world.books.totals()
    jobs = _jobs(world)
    services = _services(world)
    devices = sum(member.hardware.devices for member in world.members)
    hours = setting.duration_ns / HOUR_NS
    money = MoneyTerms(
        rent=totals.rent,
        energy=totals.energy,
        transfers=totals.transfers,
        late_jobs=sum(world.books.late_jobs.values()),
        slow_services=sum(world.books.slow_services.values()),
        unfinished=sum(world.books.unfinished.values()),
    )
    fragmentation = world.history.hours.fragmentation
    return FleetResult(
        mode=mode,
        scenario=setting.name,
        seed=setting.seed,
        currency=setting.fleet.rates.base,
        simulated_s=setting.duration_ns / NS_PER_S,
        devices=devices,
        money=money,
        kg_co2=totals.g_co2 / 1000.0,
        kwh=sum(
            meter.kwh * cluster.pue
            for meter, cluster in zip(world.books.clusters, setting.fleet.clusters, strict=True)
        ),
        jobs=jobs,
        services=services,
        actions=_actions(world),
        slo_attainment=min(jobs.on_time_share, services.within_target_share),
        utilisation=totals.device_h / devices / hours,
        open_share=totals.open_device_h / devices / hours,
        fragmentation=statistics.fmean(fragmentation) if fragmentation else 0.0,
        forecasts=_forecasts(world),
        hourly=_hourly(world),
        tenants=_tenants(world),
        periods=_periods(world),
        clusters=_clusters(world),
        explanations=world.history.explanations,
        waits=world.waits.samples,
        warnings=tuple(world.history.warnings),
        speed=_speed(world, wall_s),
    )


def _jobs(world: World) -> JobFigures:
    end_ns = world.setting.end_ns
    records = [job for job in world.jobs.values() if not job.refused]
    refused = len(world.jobs) - len(records)
    if not records:
        return JobFigures(submitted=len(world.jobs), refused=refused)
    submitted = np.array([job.workload.submitted_ns for job in records])
    ended = np.array([job.ended_ns if job.ended_ns >= 0 else end_ns for job in records])
    started = np.array([job.started_ns if job.started_ns >= 0 else end_ns for job in records])
    completion_s = (ended - submitted) / NS_PER_S
    wait_s = (started - submitted) / NS_PER_S
    with_deadline = [job for job in records if _has_deadline(job, end_ns)]
    on_time = sum(_on_time(job) for job in with_deadline)
    done = sum(job.ended_ns >= 0 for job in records)
    return JobFigures(
        submitted=len(world.jobs),
        ended=done,
        unfinished=len(records) - done,
        refused=refused,
        with_deadline=len(with_deadline),
        on_time_share=on_time / len(with_deadline) if with_deadline else 1.0,
        mean_completion_s=float(completion_s.mean()),
        p95_completion_s=float(np.percentile(completion_s, 95)),
        mean_wait_s=float(wait_s.mean()),
        p95_wait_s=float(np.percentile(wait_s, 95)),
        lost_device_h=world.history.lost_device_s / 3600.0,
    )


def _has_deadline(job: JobRecord, end_ns: int) -> bool:
    deadline_ns = job.workload.sla.deadline_ns
    return deadline_ns is not None and deadline_ns <= end_ns


def _on_time(job: JobRecord) -> bool:
    deadline_ns = job.workload.sla.deadline_ns
    return deadline_ns is not None and 0 <= job.ended_ns <= deadline_ns


def _services(world: World) -> ServiceFigures:
    services = world.services
    count = len(services.workloads)
    if not count:
        return ServiceFigures()
    minutes = float(services.minutes.sum())
    violated = float(services.violated_minutes.sum())
    simulated_s = world.setting.duration_ns / NS_PER_S
    return ServiceFigures(
        services=count,
        minutes=minutes,
        within_target_share=1.0 - violated / minutes if minutes else 1.0,
        violated_minutes=violated,
        mean_replicas=services.replica_s / simulated_s / count,
        requests=float(services.requests.sum()),
        starts=world.counts["service_starts"],
    )


def _actions(world: World) -> ActionFigures:
    counts = world.counts
    return ActionFigures(
        placements=counts["placements"],
        moves=counts["moves"],
        moves_abandoned=counts["moves_abandoned"],
        moves_proposed=counts["moves_proposed"],
        expected_saving=world.savings.expected,
        realised_saving=world.savings.realised,
        local_moves=counts["local_moves"],
        preemptions=counts["preemptions"],
        deferrals=counts["deferrals"],
        turned_down=counts["turned_down"],
        grown=counts["grown"],
        shrunk=counts["shrunk"],
        powered_down=counts["powered_down"],
        warnings=counts["warnings"],
        right_sizes=counts["right_sizes"],
        transfers=counts["transfers"],
        moved_gb=world.history.moved_gb,
    )


_JUDGED_H = 6
"""Hours ahead at which forecasts of prices and carbon are judged: about a deferral."""
_LOAD_JUDGED_H = 1
"""The same of load: replicas are provided for the next hour."""


def _forecasts(world: World) -> ForecastFigures:
    centre = world.centre
    if not isinstance(centre, GlobalMachine):
        return ForecastFigures()
    state = centre.state
    if not state.policy.forecast:
        return ForecastFigures()
    price = _error(state.price_forecast.errors())
    carbon = _error(state.carbon_forecast.errors())
    load = _error(state.loads.errors(), _LOAD_JUDGED_H)
    return ForecastFigures(
        price=price[0],
        price_as_now=price[1],
        carbon=carbon[0],
        carbon_as_now=carbon[1],
        load=load[0],
        load_as_now=load[1],
    )


def _error(
    errors: tuple[ForecastError, ...], horizon_h: int = _JUDGED_H
) -> tuple[float | None, float | None]:
    """Of the forecast, and of expecting that all stays as it is."""
    for error in errors:
        if error.horizon_h == horizon_h and error.count:
            return error.share, error.persistence
    return None, None


def _hourly(world: World) -> HourlySeries:
    hours = world.history.hours
    columns = (hours.rent, hours.energy, hours.transfers, hours.penalties)
    return HourlySeries(
        start_ns=world.setting.start_ns,
        money=tuple(sum(values) for values in zip(*columns, strict=True)),
        rent=tuple(hours.rent),
        energy=tuple(hours.energy),
        transfers=tuple(hours.transfers),
        penalties=tuple(hours.penalties),
        kg_co2=tuple(hours.kg_co2),
        utilisation=tuple(hours.utilisation),
        open_share=tuple(hours.open_share),
        fragmentation=tuple(hours.fragmentation),
        service_within_target=tuple(hours.service_within_target),
        jobs_on_time=tuple(hours.jobs_on_time),
        waiting_jobs=tuple(hours.waiting_jobs),
        running_jobs=tuple(hours.running_jobs),
        congestion=tuple(hours.congestion),
    )


def _tenants(world: World) -> tuple[TenantFigures, ...]:
    books = world.books
    end_ns = world.setting.end_ns
    ended: dict[TenantId, int] = {}
    due: dict[TenantId, list[bool]] = {}
    for job in world.jobs.values():
        tenant = job.workload.tenant
        ended[tenant] = ended.get(tenant, 0) + (job.ended_ns >= 0)
        if not job.refused and _has_deadline(job, end_ns):
            due.setdefault(tenant, []).append(_on_time(job))
    figures = []
    tenants = [tenant.id for tenant in world.setting.tenants]
    for line in _whole_run(books.periods(end_ns), tenants):
        met = due.get(line.tenant, [])
        figures.append(
            TenantFigures(
                tenant=line.tenant if line.tenant != FLEET else "(fleet, idle)",
                money=MoneyTerms(
                    rent=line.rent,
                    energy=line.energy,
                    transfers=line.transfer,
                    late_jobs=books.late_jobs.get(line.tenant, 0.0),
                    slow_services=books.slow_services.get(line.tenant, 0.0),
                    unfinished=books.unfinished.get(line.tenant, 0.0),
                ),
                kg_co2=line.g_co2 / 1000.0,
                device_h=books.device_h.get(line.tenant, 0.0),
                jobs_ended=ended.get(line.tenant),
                on_time_share=sum(met) / len(met) if met else None,
            )
        )
    return tuple(figures)


def _whole_run(periods: Sequence[PeriodBill], tenants: Sequence[TenantId]) -> list[BillLine]:
    """The bills of all periods in one, by tenant; also of tenants that were charged nothing."""
    sums: dict[TenantId, list[float]] = {tenant: [0.0] * 5 for tenant in tenants}
    for period in periods:
        for line in period.lines:
            terms = sums.setdefault(line.tenant, [0.0] * 5)
            parts = (line.rent, line.energy, line.transfer, line.penalty, line.g_co2)
            for number, part in enumerate(parts):
                terms[number] += part
    return [BillLine(tenant, "", "", "", *sums[tenant]) for tenant in sorted(sums)]


def _periods(world: World) -> tuple[PeriodFigures, ...]:
    return tuple(
        PeriodFigures(
            bill.start_ns,
            bill.end_ns,
            tuple(
                BillFigures(
                    tenant=line.tenant if line.tenant != FLEET else "(fleet, idle)",
                    team=line.team,
                    service=line.service,
                    rent=line.rent,
                    energy=line.energy,
                    transfers=line.transfer,
                    penalties=line.penalty,
                    kg_co2=line.g_co2 / 1000.0,
                )
                for line in bill.lines
            ),
        )
        for bill in world.books.periods(world.setting.end_ns)
    )


def _clusters(world: World) -> tuple[ClusterFigures, ...]:
    hours = world.setting.duration_ns / HOUR_NS
    return tuple(
        ClusterFigures(
            cluster=member.id,
            region=member.cluster.region,
            cluster_class=member.cluster.cluster_class.value,
            devices=member.hardware.devices,
            device_h=meter.device_h,
            open_device_h=meter.open_device_h,
            utilisation=meter.device_h / hours / max(1, member.hardware.devices),
            money=meter.rent + meter.energy,
            kg_co2=meter.g_co2 / 1000.0,
            jobs=member.jobs_ended,
        )
        for member, meter in zip(world.members, world.books.clusters, strict=True)
    )


def _speed(world: World, wall_s: float) -> SpeedFigures:
    rounds_ms = [1000.0 * each for each in world.round_s]
    return SpeedFigures(
        wall_s=wall_s,
        centre_s=world.centre_s,
        local_s=sum(member.stage_s for member in world.members),
        rounds=len(rounds_ms),
        events=world.agenda.done,
        centre_round_ms_median=statistics.median(rounds_ms) if rounds_ms else 0.0,
        centre_round_ms_p99=float(np.percentile(rounds_ms, 99)) if rounds_ms else 0.0,
    )
