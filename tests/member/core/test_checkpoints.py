"""Checkpoints that the centre asks for: each instance is asked once, and all must have saved."""

from dataclasses import replace

from dure.domain.fleet.protocol.desired import Desired
from dure.member.core.actions import Request
from dure.member.ports import Checkpointed, Progressed
from tests.member.core.factories import Bench, a_job, released


def requests(bench: Bench) -> list[tuple[int, int]]:
    return [(each.instance.index, each.number) for each in bench.done if isinstance(each, Request)]


def asked(each: Desired, number: int) -> Desired:
    return replace(each, checkpoint=number)


def running(workers: int = 1) -> tuple[Bench, Desired]:
    bench, job = Bench(), a_job("a", workers=workers)
    bench.plan(job)
    bench.run_all()
    return bench, job


def test_every_instance_is_asked_once_and_no_more_when_it_is_called_off() -> None:
    bench, job = running(workers=2)
    assert requests(bench) == []
    bench.plan(asked(job, 7))
    bench.wait(5)
    assert sorted(requests(bench)) == [(0, 7), (1, 7)]
    bench.plan(asked(job, 0))
    bench.wait(5)
    assert sorted(requests(bench)) == [(0, 0), (0, 7), (1, 0), (1, 7)]


def test_what_does_not_run_yet_is_asked_when_it_does() -> None:
    bench, job = Bench(), a_job("a")
    bench.plan(asked(job, 7))
    assert requests(bench) == []
    bench.run_all()
    assert requests(bench) == [(0, 7)]


def test_a_member_that_starts_anew_asks_again_and_hears_the_answer_again() -> None:
    bench, job = running()
    bench.plan(asked(job, 7))
    (seen,) = bench.of("a")
    bench.done.clear()
    bench.start()
    bench.plan(asked(job, 7))
    bench.wait(1)
    assert requests(bench) == [(0, 7)]
    bench.desk.see(Checkpointed(seen.instance, 7), bench.now_ns)
    bench.settle()
    assert bench.status("a").checkpointed == 7


def test_a_gang_has_saved_when_all_have_who_speak_of_themselves() -> None:
    bench, job = running(workers=2)
    bench.plan(asked(job, 7))
    first, second = (seen.instance for seen in bench.of("a"))
    for each in (first, second):
        bench.desk.see(Progressed(each, 0.5, 0.0), bench.now_ns)
    bench.desk.see(Checkpointed(first, 7), bench.now_ns)
    bench.settle()
    assert bench.status("a").checkpointed == 0
    bench.desk.see(Checkpointed(second, 7), bench.now_ns)
    bench.settle()
    assert bench.status("a").checkpointed == 7


def test_of_a_gang_that_reports_nothing_one_answer_will_do() -> None:
    bench, job = running(workers=2)
    bench.plan(asked(job, 7))
    bench.desk.see(Checkpointed(bench.of("a")[0].instance, 7), bench.now_ns)
    bench.settle()
    assert bench.status("a").checkpointed == 7


def test_what_could_not_be_asked_is_decided_anew_after_a_while() -> None:
    bench, job = running()
    bench.plan(asked(job, 7))
    (seen,) = bench.of("a")
    bench.desk.request_failed(seen.instance, 7, bench.now_ns)
    bench.wait(5)
    assert requests(bench) == [(0, 7)]
    bench.wait(6)
    assert requests(bench) == [(0, 7), (0, 7)]
    bench.desk.request_failed(seen.instance, 7, bench.now_ns)
    bench.plan(asked(job, 0))
    bench.wait(30)
    assert requests(bench) == [(0, 7), (0, 7), (0, 0)]


def test_the_failure_of_a_request_that_another_has_followed_means_nothing() -> None:
    bench, job = running()
    bench.plan(asked(job, 7))
    (seen,) = bench.of("a")
    bench.plan(asked(job, 8))
    bench.desk.request_failed(seen.instance, 7, bench.now_ns)
    bench.wait(30)
    assert requests(bench) == [(0, 7), (0, 8)]


def test_nobody_is_asked_who_was_told_to_end() -> None:
    bench, job = running()
    bench.plan(released(asked(job, 7)))
    bench.wait(5)
    assert requests(bench) == []
