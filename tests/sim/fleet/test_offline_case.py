import numpy as np
import pytest

from dure.domain.fleet.clusters import Cluster, ClusterClass, Fleet, NodeGroup, Tariff
from dure.domain.fleet.series import HOUR_NS, Series
from dure.domain.fleet.workloads import (
    Demand,
    Gang,
    Service,
    Sla,
    Work,
    Workload,
    WorkloadKind,
)
from dure.domain.ids import ClusterId, TenantId, WorkloadId
from dure.domain.units import GIB
from dure.sim.fleet.modes import MODES
from dure.sim.fleet.offline import offline_bound
from dure.sim.fleet.offline_case import Counted, offline_case
from dure.sim.fleet.run import run
from dure.sim.fleet.setting import Setting

GROUP = NodeGroup("g", 2, "a100", 8, 128_000, 1024 * GIB, link_domain=8, base_power_w=800.0)


def cluster(name: str, price: float | None) -> Cluster:
    return Cluster(
        ClusterId(name),
        region=name,
        provider="p",
        cluster_class=ClusterClass.CLOUD,
        groups=(GROUP,),
        tariff=Tariff("USD", {} if price is None else {"a100": price}),
        carbon_g_per_kwh=Series.constant(400.0),
        electricity_per_mwh=Series.constant(100.0),
        pue=1.25,
    )


def job(name: str, at_h: float, hours: float, workers: int = 1) -> Workload:
    return Workload(
        WorkloadId(name),
        TenantId("t"),
        WorkloadKind.TRAINING,
        Demand(memory_bytes=8 * GIB, cpu_milli=1000, whole=True),
        submitted_ns=int(at_h * HOUR_NS),
        work=Work(hours * 3600.0, "a100"),
        gang=Gang(workers),
        sla=Sla(int((at_h + 2 * hours + 1) * HOUR_NS), penalty_per_hour_late=2.0),
    )


def setting(*workloads: Workload, hours: int = 24) -> Setting:
    fleet = Fleet((cluster("own", None), cluster("rented", 2.0)))
    return Setting(fleet, workloads, start_ns=0, duration_ns=hours * HOUR_NS)


def test_a_device_hour_costs_rent_or_energy_and_its_carbon() -> None:
    case = offline_case(setting(job("a", 0, 1)), Counted(carbon_per_tonne=50.0))
    kwh = (800.0 / 8 + 400.0) * 1.25 / 1000.0
    carbon = kwh * 400.0 * 50.0 / 1e6
    assert case.price[0] == pytest.approx(np.full(24, kwh * 0.1 + carbon))
    assert case.price[1] == pytest.approx(np.full(24, 2.0 + carbon))


def test_counting_grams_alone_ignores_money_and_penalties() -> None:
    case = offline_case(setting(job("a", 0, 1)), Counted(carbon_per_tonne=1e6, money=False))
    assert case.price[0] == pytest.approx(case.price[1])
    assert case.price[0, 0] == pytest.approx((800.0 / 8 + 400.0) * 1.25 / 1000.0 * 400.0)
    assert not case.jobs[:, 5].any()


def test_a_gang_takes_its_workers_times_its_hours() -> None:
    found = offline_bound(offline_case(setting(job("a", 0, 3, workers=4)), Counted()))
    assert found.value == pytest.approx(12 * (800.0 / 8 + 400.0) * 1.25 / 1000.0 * 0.1)


def test_a_step_of_a_service_needs_replicas_for_its_rate() -> None:
    service = Workload(
        WorkloadId("web"),
        TenantId("t"),
        WorkloadKind.SERVING,
        Demand(memory_bytes=8 * GIB, whole=True),
        service=Service(30.0, 10.0, 500.0, 100.0, reference="a100"),
        sla=Sla(penalty_per_violated_minute=1.0),
    )
    case = offline_case(setting(service), Counted())
    assert len(case.step_hour) == 24 * 12
    assert (case.step_need[:, 0] >= 4 / 12).all()
    assert case.step_penalty == pytest.approx(np.full(24 * 12, 5.0))


@pytest.mark.parametrize(
    "mode", [mode.name for mode in MODES.values() if "without" not in mode.name]
)
def test_no_mode_beats_the_bound(mode: str) -> None:
    work = [
        job(f"j{index}", 0.4 * index, 0.5 + index % 5, 1 + 3 * (index % 3)) for index in range(24)
    ]
    world = setting(*work, hours=36)
    bound = offline_bound(offline_case(world, Counted()), site_steps=30, hour_steps=30).value
    assert 0.0 < bound <= run(world, mode).money.total
