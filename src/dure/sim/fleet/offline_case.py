"""A setting as the offline problem: sites and hours, jobs and steps of services in columns."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import Cluster, Fleet, NodeGroup
from dure.domain.fleet.profiles import DeviceProfile
from dure.domain.fleet.series import HOUR_NS
from dure.domain.fleet.workloads import Workload
from dure.domain.units import NS_PER_S
from dure.fleet.fit import Footprint, footprint, replica_rate, speed
from dure.fleet.queueing import least_replicas_each
from dure.sim.fleet.offline import OfflineCase
from dure.sim.fleet.setting import Setting

Floats = NDArray[np.float64]

_PENALTY = 5
"""Column of a job's penalty per hour late."""
_WH_PER_MWH = 1e6
_WH_PER_KWH = 1e3
_G_PER_TONNE = 1e6


@dataclass(frozen=True, slots=True)
class _Place:
    """One site."""

    cluster: Cluster
    group: NodeGroup
    profile: DeviceProfile

    def takes(self, workload: Workload) -> Footprint | None:
        """What an instance takes here; None: it may or can not run here."""
        if workload.clusters is not None and self.cluster.id not in workload.clusters:
            return None
        if workload.profiles is not None and self.profile.name not in workload.profiles:
            return None
        return footprint(workload.demand, self.profile, self.group.mode)


@dataclass(frozen=True, slots=True)
class Counted:
    """What the offline problem counts."""

    carbon_per_tonne: float = 0.0
    money: bool = True
    """Whether rent, energy and penalties count; else services are always served."""


def offline_case(setting: Setting, counted: Counted) -> OfflineCase:
    """The offline problem of a setting."""
    places = [
        _Place(cluster, group, device_profile(group.profile))
        for cluster in setting.fleet.clusters
        for group in cluster.groups
    ]
    hours = -(-setting.duration_ns // HOUR_NS)
    price = np.array([_prices(setting, place, hours, counted) for place in places])
    classes = _Classes(places)
    jobs, job_class = _jobs(setting, classes)
    jobs[:, _PENALTY] *= counted.money
    steps = [
        _steps(setting, workload, places) for workload in setting.workloads if workload.service
    ]
    hour, need, penalty = (
        (np.concatenate(column) for column in zip(*steps, strict=True))
        if steps
        else (np.zeros(0, np.int64), np.zeros((0, len(places))), np.zeros(0))
    )
    return OfflineCase(
        price=price,
        capacity=np.array([float(place.group.count * place.group.devices) for place in places]),
        slowness=np.array(classes.slowness).reshape(-1, len(places)),
        job_class=job_class,
        jobs=jobs,
        step_hour=hour,
        step_need=need,
        step_penalty=penalty if counted.money else np.full(len(penalty), np.inf),
        unfinished_price=np.array([_dearest(price, places, row) for row in classes.slowness]),
    )


def _prices(setting: Setting, place: _Place, hours: int, counted: Counted) -> Floats:
    """What a device-hour costs there, hour by hour, when its node is full."""
    cluster, group = place.cluster, place.group
    watts = (group.base_power_w / group.devices + place.profile.power_w(1.0)) * cluster.pue
    starts = setting.start_ns + np.arange(hours, dtype=np.int64) * HOUR_NS
    ends = starts + HOUR_NS
    carbon = cluster.carbon_g_per_kwh.means(starts, ends) * watts / _WH_PER_KWH
    cost = carbon * counted.carbon_per_tonne / _G_PER_TONNE
    if not counted.money:
        return np.asarray(cost)
    if cluster.owned(group.profile):
        energy = cluster.electricity_per_mwh.means(starts, ends) * watts / _WH_PER_MWH
        return np.asarray(cost + setting.fleet.rates.to_base(1.0, cluster.tariff.currency) * energy)
    return np.asarray(cost + rent_by_hour(setting.fleet, cluster, group.profile, starts))


def rent_by_hour(
    fleet: Fleet, cluster: Cluster, profile: str, starts_ns: NDArray[np.int64]
) -> Floats:
    """Price of one device-hour that begins at each of these full hours, in the base currency."""
    tariff = cluster.tariff
    rent = fleet.rates.to_base(tariff.device_hour[profile], tariff.currency)
    return rent * np.array([tariff.factor(int(start)) for start in starts_ns])


class _Classes:
    """Kinds of jobs that are equally fast everywhere."""

    def __init__(self, places: list[_Place]) -> None:
        self.places = places
        self.slowness: list[list[float]] = []
        self.fastest: list[float] = []
        self._known: dict[object, int] = {}

    def of(self, workload: Workload) -> int:
        """The class of a job; -1 if it can run nowhere."""
        assert workload.work is not None
        key = (
            workload.demand,
            workload.gang.workers,
            workload.work.reference,
            workload.work.compute_bound,
            workload.clusters,
            workload.profiles,
        )
        if key not in self._known:
            row, fastest = self._row(workload)
            self._known[key] = len(self.slowness) if fastest > 0 else -1
            if fastest > 0:
                self.slowness.append(row)
                self.fastest.append(fastest)
        return self._known[key]

    def _row(self, workload: Workload) -> tuple[list[float], float]:
        row, fastest = [], 0.0
        for place in self.places:
            takes = place.takes(workload)
            if takes is None:
                row.append(math.inf)
                continue
            rate = speed(workload, place.profile)
            row.append(workload.gang.workers * takes.device_share / rate)
            fastest = max(fastest, rate)
        return row, fastest


def _jobs(setting: Setting, classes: _Classes) -> tuple[Floats, NDArray[np.int64]]:
    rows, kinds = [], []
    for workload in setting.workloads:
        if workload.work is None or workload.submitted_ns >= setting.end_ns:
            continue
        kind = classes.of(workload)
        if kind < 0:
            continue
        release = (workload.submitted_ns - setting.start_ns) / HOUR_NS
        hours = workload.work.reference_s * NS_PER_S / HOUR_NS
        rate = classes.fastest[kind] * workload.gang.speed(workload.gang.limit)
        sla = workload.sla
        deadline = (
            math.inf if sla.deadline_ns is None else (sla.deadline_ns - setting.start_ns) / HOUR_NS
        )
        per_hour = 0.0 if math.isinf(deadline) else sla.penalty_per_hour_late
        cap = min(sla.penalty_cap, 1e18)
        earliest = release + hours / rate
        rows.append((max(0.0, release), hours, rate, earliest, min(deadline, 1e9), per_hour, cap))
        kinds.append(kind)
    return np.array(rows, dtype=np.float64).reshape(-1, 7), np.array(kinds, np.int64)


def _steps(
    setting: Setting, workload: Workload, places: list[_Place]
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Hour, device-hours by site and penalty of each step of a service."""
    service = workload.service
    assert service is not None
    loads = setting.loads
    count = -(-setting.duration_ns // loads.step_ns)
    starts = setting.start_ns + np.arange(count, dtype=np.int64) * loads.step_ns
    rates = (
        np.array([loads.at(int(start))[loads.services.index(workload.id)] for start in starts])
        if workload.id in loads.services
        else np.full(count, service.requests_per_s)
    )
    step_h = loads.step_ns / HOUR_NS
    need = np.full((count, len(places)), np.inf)
    for index, place in enumerate(places):
        takes = place.takes(workload)
        if takes is None:
            continue
        way_ms = min(
            (setting.fleet.latency(region, place.cluster.id) for region, _ in service.users),
            default=0.0,
        )
        slack_ms = service.target_latency_ms - way_ms
        slack_ms -= service.service_time_ms / speed(workload, place.profile)
        if slack_ms < 0:
            continue
        replicas = least_replicas_each(
            rates,
            np.full(count, replica_rate(workload, place.profile)),
            np.full(count, slack_ms / 1000.0),
            np.full(count, 2**31),
        )
        need[:, index] = replicas * takes.device_share * step_h
    live = (starts >= workload.submitted_ns) & (rates > 0)
    penalty = np.full(count, workload.sla.penalty_per_violated_minute * step_h * 60.0)
    hour = (starts - setting.start_ns) // HOUR_NS
    return hour[live], need[live], penalty[live]


def _dearest(price: Floats, places: list[_Place], slowness: list[float]) -> float:
    """The most a reference hour of a class costs on demand anywhere, for work left undone."""
    return max(
        (
            slow * float(price[index].max())
            for index, slow in enumerate(slowness)
            if math.isfinite(slow) and not places[index].cluster.owned(places[index].profile.name)
        ),
        default=0.0,
    )
