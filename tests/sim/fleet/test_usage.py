"""What workloads really use, and who hears of it."""

from dataclasses import replace

import numpy as np

from dure.domain.fleet.events import UsageObserved
from dure.domain.fleet.instructions import PlaceWorkload
from dure.domain.fleet.policy import HOUR_NS
from dure.domain.fleet.workloads import Demand, Gang
from dure.domain.units import GIB
from dure.sim.fleet.run import run
from dure.sim.fleet.usage import TrueUse
from tests.sim.fleet.worlds import Script, at_s, cluster, job, order, play, setting

ASKED = Demand(memory_bytes=30 * GIB, compute_tops=100.0, whole=True)


def test_the_truth_of_a_workload_depends_on_the_seed_and_its_name_alone() -> None:
    names = [job(f"j{number}", demand=ASKED) for number in range(200)]
    forwards, backwards = TrueUse(1), TrueUse(1)
    first = [forwards.shares(each) for each in names]
    assert [backwards.shares(each) for each in reversed(names)] == first[::-1]
    assert [TrueUse(2).shares(each) for each in names] != first
    memory, compute = np.array(first).T
    assert 0.65 < memory.mean() < 0.8
    assert 0.45 < compute.mean() < 0.6
    assert 0 < (memory > 1.0).mean() < 0.15


def test_runs_of_one_service_use_alike() -> None:
    runs = [job(f"j{number}", demand=ASKED, service_name="nightly") for number in range(5)]
    use = TrueUse(1)
    assert len({use.shares(each) for each in runs}) == 1


def test_the_centre_hears_of_use_after_an_hour_and_then_every_day() -> None:
    long, short = job("long", runs_s=60 * 3600.0), job("short", runs_s=3000.0)
    script = Script((0.0, PlaceWorkload(order(long, "c"))), (0.0, PlaceWorkload(order(short, "c"))))
    made = setting([cluster("c")], [long, short], hours=60.0, round_ns=HOUR_NS, validate=False)
    play(made, script)
    heard = script.all_of(UsageObserved)
    assert {each.workload for each in heard} == {"long"}
    assert [round(at_s(each.now_ns) / 3600.0) for each in heard] == [1, 25, 49]
    assert [each.samples for each in heard] == [60, 1440, 1440]


def test_suggestions_of_a_better_size_are_counted_and_told_once() -> None:
    jobs = [
        job(f"j{number}", runs_s=80 * 3600.0, demand=ASKED, gang=Gang(checkpoint_s=None))
        for number in range(8)
    ]
    made = setting([cluster("c")], jobs, hours=72.0, round_ns=HOUR_NS, validate=False)
    use = TrueUse(made.seed)
    worth = sum(min(use.shares(each)) < 0.6 for each in jobs)
    result = run(made, "dure")
    assert worth <= result.actions.right_sizes <= len(jobs)
    told = [text for text in result.warnings if "observations" in text]
    assert len(told) == result.actions.right_sizes
    assert len({text.split(":")[0] for text in told}) == len(told)
    assert all("ask for" in text for text in told)
    assert run(replace(made, duration_ns=HOUR_NS), "dure").actions.right_sizes == 0
