"""Members without contact to the centre: what is fenced, and what goes on."""

from dure.domain.fleet.protocol.reports import Outcome, RunPhase
from dure.member.ports import Life
from tests.member.core.factories import (
    Bench,
    a_job,
    a_service,
    put_forward,
    released,
    seconds,
)


def test_without_contact_only_what_asked_for_it_is_fenced() -> None:
    bench = Bench()
    bench.plan(a_job("a", fence_after_s=30.0), a_job("b"), a_service("s", fence_after_s=60.0))
    bench.settle()
    bench.desk.contact(bench.now_ns)
    bench.wait(29)
    assert len(bench.of("a")) == 1
    assert not bench.ending
    bench.wait(2)
    assert [name.workload for name in bench.ending] == ["a"]
    bench.finish_endings()
    assert bench.status("a").outcome is Outcome.FENCED
    bench.desk.contact(bench.now_ns)
    bench.wait(59)
    assert bench.of("b")
    assert bench.of("s")
    assert not bench.of("a")


def test_the_time_without_contact_counts_on_while_the_member_is_dead() -> None:
    bench = Bench()
    bench.plan(a_job("a", fence_after_s=30.0))
    bench.settle()
    for _ in range(10):
        bench.desk.contact(bench.now_ns)
        bench.wait(3)
    bench.now_ns += seconds(31)
    bench.start()
    assert [name.workload for name in bench.ending] == ["a"]
    bench.finish_endings()
    assert bench.status("a").outcome is Outcome.FENCED


def test_a_fleet_whose_time_is_ahead_of_the_host_fences_nothing_after_a_short_death() -> None:
    bench = Bench()
    bench.plan(a_job("a", fence_after_s=30.0))
    bench.settle()
    put_forward(bench, 3600)
    bench.wait(10)
    assert not bench.ending
    for _ in range(10):
        bench.desk.contact(bench.now_ns)
        bench.wait(3)
    bench.now_ns += seconds(2)
    before_ns = bench.now_ns
    bench.start()
    assert bench.now_ns == before_ns
    assert not bench.ending
    bench.now_ns += seconds(31)
    bench.start()
    assert [name.workload for name in bench.ending] == ["a"]


def test_a_host_whose_calendar_was_set_back_has_never_heard_of_the_centre() -> None:
    bench = Bench()
    bench.plan(a_job("a", fence_after_s=30.0))
    bench.settle()
    put_forward(bench, 3600)
    for _ in range(10):
        bench.desk.contact(bench.now_ns)
        bench.wait(3)
    bench.ahead_ns += seconds(60)
    bench.start()
    assert [name.workload for name in bench.ending] == ["a"]


def test_that_the_time_is_put_forward_does_not_make_a_lost_contact_a_fresh_one() -> None:
    bench = Bench()
    bench.plan(a_job("a", fence_after_s=30.0))
    bench.settle()
    bench.desk.contact(bench.now_ns)
    bench.wait(20)
    put_forward(bench, 3600)
    bench.wait(9)
    assert not bench.ending
    bench.wait(2)
    assert [name.workload for name in bench.ending] == ["a"]


def test_what_was_done_while_the_member_was_dead_is_done_however_long_the_silence() -> None:
    bench = Bench()
    bench.plan(a_job("a", fence_after_s=30.0))
    bench.settle()
    bench.desk.contact(bench.now_ns)
    bench.wait(3)
    (seen,) = bench.of("a")
    bench.cluster.become(seen.instance, Life.SUCCEEDED)
    bench.now_ns += seconds(31)
    bench.start()
    assert bench.status("a").outcome is Outcome.SUCCEEDED


def test_what_is_fenced_before_it_started_never_starts() -> None:
    bench = Bench()
    bench.plan(a_job("big", workers=2, devices=4))
    bench.plan(a_job("big", workers=2, devices=4), a_job("a", fence_after_s=5.0))
    bench.wait(6)
    assert bench.status("a").outcome is Outcome.FENCED
    bench.plan(released(a_job("big", workers=2, devices=4)), a_job("a", fence_after_s=5.0))
    bench.settle()
    assert not bench.of("a")


def test_without_the_centre_a_cluster_admits_what_waits() -> None:
    bench = Bench()
    bench.plan(a_job("big", workers=2, devices=4), a_job("a"))
    bench.settle()
    assert bench.phase("a") is RunPhase.WAITING
    bench.start()
    bench.settle()
    for seen in bench.of("big"):
        bench.become(seen.instance, Life.SUCCEEDED)
    bench.settle()
    assert bench.phase("a") is RunPhase.RUNNING
