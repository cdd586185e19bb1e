from dataclasses import replace

import pytest

from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import NodeGroup
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.workloads import Demand, Gang, Service, Work, Workload, WorkloadKind
from dure.domain.ids import ClusterId, TenantId, WorkloadId
from dure.domain.units import GIB, NS_PER_S
from dure.fleet.fit import footprint, never_fits, replicas_for, runtime_ns, speed

H100, V100 = device_profile("h100"), device_profile("v100")
SMALL = Demand(memory_bytes=8 * GIB, compute_tops=50.0, cpu_milli=2000)
WHOLE = Demand(memory_bytes=8 * GIB, whole=True)
JOB = Workload(
    WorkloadId("job"),
    TenantId("t"),
    WorkloadKind.TRAINING,
    WHOLE,
    work=Work(reference_s=1000.0),
    gang=Gang(workers=2, most_workers=4),
)
GROUP = NodeGroup("g", 2, "h100", 8, 64_000, 512 * GIB, link_domain=8)


def test_the_smallest_slice_that_meets_the_demand_is_taken() -> None:
    found = footprint(SMALL, H100, ShareMode.MIG)
    assert found is not None
    assert found.template == "1g.10gb"
    assert (found.slots, found.devices, found.cpu_milli) == (1, 1, 2000)


def test_whole_devices_fit_on_shared_ones_that_are_empty_but_not_on_slots() -> None:
    found = footprint(WHOLE, H100, ShareMode.MPS)
    assert found is not None
    assert found.compute_milli == 1000
    assert footprint(WHOLE, H100, ShareMode.MIG) is None


def test_a_demand_no_slice_meets_has_no_footprint() -> None:
    assert footprint(replace(SMALL, memory_bytes=100 * GIB), H100, ShareMode.WHOLE) is None


def test_whole_devices_speed_work_up_and_sufficient_slices_do_not() -> None:
    assert speed(JOB, V100) == pytest.approx(1.0)
    assert speed(JOB, H100) > 2.0
    assert speed(replace(JOB, demand=SMALL), H100) == 1.0


def test_runtime_counts_workers_and_what_is_done() -> None:
    full = runtime_ns(JOB, V100, 2)
    assert full == 1000 * NS_PER_S
    assert runtime_ns(JOB, V100, 4) == pytest.approx(full / 1.9, rel=1e-6)
    assert runtime_ns(JOB, V100, 2, done_share=0.5) == full // 2


def test_a_service_has_replicas_for_its_load_and_never_fewer_than_its_warm_minimum() -> None:
    service = Service(1.0, 10.0, target_latency_ms=200.0, service_time_ms=50.0, warm_minimum=2)
    web = replace(JOB, kind=WorkloadKind.SERVING, work=None, service=service, demand=SMALL)
    assert replicas_for(web, H100, 0.0, 150.0) == 2
    assert replicas_for(web, H100, 100.0, 150.0) > 10


def where(*groups: NodeGroup) -> list[tuple[ClusterId, NodeGroup]]:
    return [(ClusterId("seoul"), group) for group in groups]


def test_what_fits_somewhere_is_not_refused() -> None:
    assert (
        never_fits(JOB, where(replace(GROUP, profile="t4", devices=1, link_domain=1), GROUP))
        is None
    )


@pytest.mark.parametrize(
    ("job", "why", "nearest"),
    [
        (replace(JOB, gang=Gang(workers=17)), "all its workers", "room for 16 of its 17"),
        (replace(JOB, demand=replace(WHOLE, devices=9)), "one worker", "at most 8 devices"),
        (replace(JOB, demand=replace(WHOLE, cpu_milli=65_000)), "one worker", "64 CPUs"),
        (replace(JOB, demand=replace(WHOLE, memory_bytes=90 * GIB)), "demand", "74.5 GiB"),
        (replace(JOB, profiles=frozenset({"t4"})), "accepts", "use h100 as well"),
        (replace(JOB, clusters=frozenset({ClusterId("oslo")})), "clusters", "allow it in 'seoul'"),
    ],
)
def test_what_can_never_run_is_told_the_nearest_thing_that_would(
    job: Workload, why: str, nearest: str
) -> None:
    found = never_fits(job, where(GROUP))
    assert found is not None
    assert why in found[0]
    assert nearest in found[1]
