"""What a member tells, asks for again and finds."""

from dure.domain.fleet.decisions import InstanceId
from dure.domain.fleet.protocol.desired import Plan
from dure.domain.fleet.protocol.reports import RunPhase, Usage
from dure.domain.ids import WorkloadId
from dure.member.core.actions import Begin, End
from dure.member.core.meters import BEHIND_NS
from dure.member.ports import Life, Progressed, Seen
from tests.member.core.factories import (
    Bench,
    a_job,
    key,
    seconds,
)


def test_progress_is_told_and_a_checkpoint_survives_a_restart_of_the_gang() -> None:
    bench = Bench()
    bench.plan(a_job("a"))
    bench.run_all()
    (seen,) = bench.of("a")
    bench.desk.see(Progressed(seen.instance, 0.5, 0.4), bench.now_ns)
    bench.act()
    assert (bench.status("a").done_share, bench.status("a").saved_share) == (0.5, 0.4)
    bench.become(seen.instance, Life.GONE)
    bench.settle()
    assert bench.status("a").saved_share == 0.4


def test_what_has_not_changed_is_not_told_again() -> None:
    bench = Bench()
    bench.plan(a_job("a"))
    bench.settle()
    bench.wait(1)
    assert bench.desk.news(bench.now_ns, whole=False) is None


def test_device_time_is_told_once() -> None:
    bench = Bench()
    bench.plan(a_job("a", devices=2))
    bench.run_all()
    start_ns, told = bench.now_ns, list[Usage]()
    for _ in range(10):
        bench.now_ns += seconds(10)
        bench.desk.tick(bench.now_ns)
        report = bench.desk.news(bench.now_ns, whole=False)
        told += report.usage if report is not None else ()
    assert [each.device_us for each in told] == sorted({each.device_us for each in told})
    counted_ns = bench.now_ns - BEHIND_NS
    assert told[-1].until_ns == counted_ns
    assert told[-1].device_us == 2 * (counted_ns - start_ns) // 1000


def test_what_was_asked_for_and_not_done_is_asked_for_again() -> None:
    bench = Bench()
    bench.plan(a_job("a"))
    bench.run_all()
    (seen,) = bench.of("a")
    bench.plan()
    bench.wait(60)
    asked = [each for each in bench.done if isinstance(each, End)]
    assert len(asked) > 1
    assert {each.instance for each in asked} == {seen.instance}


def test_a_start_that_raised_is_as_if_the_cluster_had_taken_it_back() -> None:
    bench = Bench()
    plan = Plan(1, 1, desired=(a_job("a"),), surroundings=bench.around)
    bench.desk.plan(plan, {}, bench.now_ns)
    (begin,) = bench.desk.actions()
    assert isinstance(begin, Begin)
    bench.desk.start_failed(begin.starts, "the API said no", bench.now_ns)
    bench.act()
    bench.settle()
    assert bench.phase("a") is RunPhase.RUNNING


def test_an_instance_is_found_by_its_number_or_its_rank() -> None:
    bench = Bench()
    bench.plan(a_job("a", workers=2))
    bench.run_all()
    bench.become(bench.of("a")[0].instance, Life.GONE)
    bench.settle()
    first, second = sorted(bench.of("a"), key=lambda seen: seen.instance.index)
    assert bench.desk.instance(key("a"), 0) == first.instance
    assert bench.desk.instance(key("a"), second.instance.index) == second.instance
    assert bench.desk.instance(key("a"), 99) is None
    assert bench.desk.instance(key("nobody"), 0) is None


def test_what_the_member_did_not_start_and_does_not_know_is_stopped() -> None:
    bench = Bench()
    bench.plan(a_job("a"))
    bench.settle()
    stranger = InstanceId(WorkloadId("x"), 1, 0)
    bench.cluster.objects[stranger] = Seen(stranger, Life.RUNNING, "n0", "x")
    bench.desk.see(bench.cluster.objects[stranger], bench.now_ns)
    bench.act()
    bench.settle()
    assert stranger not in bench.cluster.objects
