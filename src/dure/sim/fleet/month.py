"""The month: one committed scenario, at any load, penalty rate and carbon budget."""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.series import HOUR_NS
from dure.domain.fleet.workloads import Workload
from dure.domain.units import NS_PER_S
from dure.fleet.fit import footprint, speed
from dure.sim.fleet.scenario import Overrides, read_scenario
from dure.sim.fleet.setting import Setting

_FOLDER = Path(__file__).parent / "scenarios"


@dataclass(frozen=True, slots=True)
class MonthCase:
    """One variant of the month."""

    load: float
    """Mean demand over capacity while jobs arrive."""
    seed: int
    penalty: float = 1.0
    """Factor on every penalty and its cap."""
    carbon_budget_kg: float | None = None


def month_setting(case: MonthCase, data: Path | None) -> Setting:
    """The scenario with its node groups scaled to the load; made data where none is given."""
    setting = _read(case.seed, data)
    setting = _with_penalty(_at_load(setting, case.load), case.penalty)
    if case.carbon_budget_kg is None:
        return setting
    policy = replace(setting.policy, carbon_budget_g=case.carbon_budget_kg * 1000.0)
    return replace(setting, policy=replace(policy, period_ns=setting.duration_ns))


@cache
def _read(seed: int, data: Path | None) -> Setting:
    name = "month-made.yaml" if data is None else "month.yaml"
    return read_scenario(_FOLDER / name, Overrides(data=data, seed=seed)).setting


def _at_load(setting: Setting, load: float) -> Setting:
    """The same work on as many nodes as make its mean load this."""
    jobs = [workload for workload in setting.workloads if workload.work is not None]
    hours = (max(job.submitted_ns for job in jobs) - setting.start_ns) / HOUR_NS
    demand = sum(_reference_device_hours(job) for job in jobs) / hours
    factor = demand / (load * _reference_devices(setting, jobs[0]))
    clusters = tuple(
        replace(
            cluster,
            groups=tuple(
                replace(group, count=max(1, round(group.count * factor)))
                for group in cluster.groups
            ),
        )
        for cluster in setting.fleet.clusters
    )
    return replace(setting, fleet=replace(setting.fleet, clusters=clusters))


def _reference_device_hours(job: Workload) -> float:
    assert job.work is not None
    return job.gang.workers * job.demand.devices * job.work.reference_s * NS_PER_S / HOUR_NS


def _reference_devices(setting: Setting, job: Workload) -> float:
    """All devices that can run a job like this, each counted by its speed."""
    return sum(
        group.count * group.devices * speed(job, profile)
        for cluster in setting.fleet.clusters
        for group in cluster.groups
        for profile in [device_profile(group.profile)]
        if footprint(job.demand, profile, group.mode) is not None
    )


def _with_penalty(setting: Setting, factor: float) -> Setting:
    """Every penalty, and what it is capped at, times a factor."""
    if factor == 1.0:
        return setting
    return replace(
        setting,
        workloads=tuple(
            replace(
                workload,
                sla=replace(
                    workload.sla,
                    penalty_per_hour_late=factor * workload.sla.penalty_per_hour_late,
                    penalty_per_violated_minute=factor * workload.sla.penalty_per_violated_minute,
                    penalty_cap=factor * workload.sla.penalty_cap,
                ),
            )
            for workload in setting.workloads
        ),
    )
