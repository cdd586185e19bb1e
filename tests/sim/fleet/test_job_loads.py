import numpy as np
import pytest

from dure.domain.fleet.workloads import Workload, WorkloadKind
from dure.domain.units import NS_PER_S
from dure.sim.fleet.generators import Shape
from dure.sim.fleet.job_loads import Draw, job_workloads, share_out
from dure.sim.fleet.philly import JobTrace
from dure.sim.fleet.scenario_work_file import JobRulesPart


def trace(*devices: int) -> JobTrace:
    """Jobs of an hour, a minute apart."""
    count = len(devices)
    return JobTrace(
        np.arange(count, dtype=np.float64) * 60.0,
        np.full(count, 3600.0),
        np.array(devices, dtype=np.int64),
        tuple(f"vc-{number % 2}" for number in range(count)),
    )


def made(jobs: JobTrace, rules: JobRulesPart, shapes: list[Shape] | None = None) -> list[Workload]:
    draw = Draw("jobs", np.random.default_rng(1), 1000 * NS_PER_S)
    return job_workloads(jobs, rules, draw, tenants={"lab": 1.0}, shapes=shapes or ())


@pytest.mark.parametrize(
    ("devices", "workers", "each"),
    [
        (1, 1, 1),
        (4, 1, 4),
        (8, 1, 8),
        (12, 2, 6),
        (16, 2, 8),
        (24, 3, 8),
        (128, 16, 8),
        (13, 13, 1),
    ],
)
def test_large_jobs_are_gangs_of_equal_workers(devices: int, workers: int, each: int) -> None:
    (job,) = made(trace(devices), JobRulesPart())
    assert (job.gang.workers, job.demand.devices) == (workers, each)
    assert job.demand.whole
    assert job.demand.cpu_milli == 6000 * each


def test_times_are_on_the_clock_of_the_fleet() -> None:
    first, second = made(trace(1, 1), JobRulesPart(time_factor=0.5))
    assert (first.id, second.id) == ("jobs-0", "jobs-1")
    assert second.submitted_ns - first.submitted_ns == 60 * NS_PER_S
    assert first.submitted_ns == 1000 * NS_PER_S
    assert first.work is not None
    assert first.work.reference_s == 1800.0


def test_a_penalty_is_capped_by_the_length_of_the_job() -> None:
    rules = JobRulesPart(penalty_per_device_hour=3.0, cap_factor=5.0)
    (job,) = made(trace(4), rules)
    assert job.sla.penalty_per_hour_late == 12.0
    assert job.sla.penalty_cap == 60.0


def test_only_jobs_of_one_device_are_batch_inference() -> None:
    kinds = [job.kind for job in made(trace(1, 2, 1), JobRulesPart(batch=1.0))]
    assert kinds == [WorkloadKind.BATCH, WorkloadKind.TRAINING, WorkloadKind.BATCH]


def test_elastic_jobs_may_grow_and_others_may_not() -> None:
    assert made(trace(16), JobRulesPart(elastic=1.0))[0].gang.most_workers == 4
    assert made(trace(16), JobRulesPart())[0].gang.most_workers is None


def test_a_part_of_a_device_is_a_part_of_the_reference() -> None:
    shapes = [Shape(1, 500, 4000, 8192), Shape(1, 500, 4000, 8192)]
    part, whole = made(trace(1, 8), JobRulesPart(reference="v100"), shapes)
    assert not part.demand.whole
    assert part.demand.memory_bytes == 16 * 1000**3
    assert part.demand.compute_tops == 62.5
    assert whole.demand.devices == 8


def test_groups_go_to_tenants_as_a_whole_and_near_their_shares() -> None:
    groups = ["a"] * 50 + ["b"] * 30 + ["c"] * 20
    owner = share_out(groups, {"lab": 1.0, "web": 1.0})
    assert owner["a"] != owner["b"]
    assert owner["b"] == owner["c"]
