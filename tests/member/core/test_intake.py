"""Plans of the centre: which are taken, what is refused, what ends and when that is told."""

from dataclasses import replace

import pytest

from dure.domain.fleet.protocol.desired import Plan
from dure.domain.fleet.protocol.reports import Outcome, RunPhase
from dure.domain.ids import ClusterId
from dure.member.core.actions import Forget
from dure.member.ports import Life
from tests.fleet.factories import job
from tests.member.core.factories import (
    Bench,
    a_job,
    a_service,
    desired,
    key,
    released,
)


def test_what_is_desired_runs_and_is_told() -> None:
    bench = Bench()
    answer = bench.plan(a_job("a"), a_service("s", replicas=2))
    assert answer.taken
    assert answer.accepted == (key("a"), key("s"))
    assert bench.phase("a") is RunPhase.STARTING
    bench.run_all()
    assert bench.phase("a") is RunPhase.RUNNING
    assert len(bench.of("s")) == 2


def test_a_plan_that_is_said_again_changes_nothing() -> None:
    bench = Bench()
    bench.plan(a_job("a"), a_service("s"))
    bench.settle()
    done = len(bench.done)
    answer = bench.plan(a_job("a"), a_service("s"), revision=bench.revision)
    assert answer.taken
    assert answer.accepted == (key("a"), key("s"))
    assert len(bench.done) == done


@pytest.mark.parametrize(("epoch", "revision"), [(1, 1), (0, 9)])
def test_a_plan_older_than_the_known_one_is_not_taken(epoch: int, revision: int) -> None:
    bench = Bench()
    bench.plan(a_job("a"), revision=2)
    answer = bench.plan(epoch=epoch, revision=revision)
    assert not answer.taken
    assert "older" in answer.why
    assert bench.of("a")


def test_a_new_epoch_counts_its_revisions_anew() -> None:
    bench = Bench()
    bench.plan(a_job("a"), revision=7)
    assert bench.plan(a_job("a"), a_job("b"), epoch=2, revision=1).taken
    assert bench.of("b")


def test_a_difference_is_taken_only_from_its_own_base() -> None:
    bench = Bench()
    bench.plan(a_job("a"), revision=1)
    answer = bench.plan(a_job("b"), revision=5, base=3)
    assert not answer.taken
    assert not bench.of("b")
    assert bench.plan(a_job("b"), revision=5, base=1).taken
    assert bench.of("a")
    assert bench.of("b")
    assert bench.plan(removed=(key("a"),), revision=6, base=5).taken
    bench.settle()
    assert not bench.of("a")


def test_what_cannot_run_here_is_refused_by_itself_and_the_rest_is_taken() -> None:
    bench = Bench()
    elsewhere = a_job("far")
    order = elsewhere.order
    elsewhere = replace(elsewhere, order=replace(order, site=replace(order.site, group="tpu")))
    large = desired(job("large", devices=99))
    stranger = a_job("stranger")
    order = stranger.order
    site = replace(order.site, cluster=ClusterId("busan"))
    stranger = replace(stranger, order=replace(order, site=site))
    answer = bench.plan(elsewhere, large, stranger, a_job("ok"))
    assert {each.key.job for each in answer.refused} == {"far", "large", "stranger"}
    assert answer.accepted == (key("ok"),)
    status = bench.status("far")
    assert (status.phase, status.outcome) == (RunPhase.GONE, Outcome.TURNED_DOWN)
    assert "tpu" in status.why


def test_what_the_cluster_refuses_is_turned_down_with_its_words() -> None:
    bench = Bench()
    each = a_job("a")
    plan = Plan(1, 1, desired=(each,), surroundings=bench.around)
    assert bench.desk.unknown(plan) == [each]
    answer = bench.desk.plan(plan, {each.key: "no such image"}, bench.now_ns)
    assert answer.refused[0].why == "no such image"
    assert bench.desk.unknown(plan) == []
    bench.act()
    assert not bench.of("a")


def test_an_end_is_told_until_the_desired_set_drops_it_and_only_then_forgotten() -> None:
    bench = Bench()
    bench.plan(a_job("a"))
    bench.run_all()
    (seen,) = bench.of("a")
    bench.become(seen.instance, Life.SUCCEEDED, exit_code=0, ended_ns=bench.now_ns)
    assert bench.status("a").outcome is Outcome.SUCCEEDED
    assert bench.status("a").exit_code == 0
    bench.start()
    assert bench.status("a").outcome is Outcome.SUCCEEDED
    bench.wait(100)
    assert seen.instance in bench.cluster.objects
    bench.plan()
    assert Forget(seen.instance) in bench.done
    assert not bench.cluster.objects
    bench.start()
    assert bench.told == {}


def test_a_gang_has_succeeded_when_all_its_workers_have() -> None:
    bench = Bench()
    bench.plan(a_job("a", workers=3))
    bench.run_all()
    first, second, third = (seen.instance for seen in bench.of("a"))
    bench.become(first, Life.SUCCEEDED)
    bench.become(second, Life.SUCCEEDED)
    assert bench.phase("a") is RunPhase.RUNNING
    bench.start()
    bench.settle()
    assert bench.phase("a") is RunPhase.RUNNING
    assert len(bench.of("a")) == 1
    bench.become(third, Life.SUCCEEDED)
    assert bench.status("a").outcome is Outcome.SUCCEEDED


def test_a_worker_that_fails_ends_its_whole_gang() -> None:
    bench = Bench()
    bench.plan(a_job("a", workers=3))
    bench.run_all()
    first = bench.of("a")[0].instance
    bench.become(first, Life.FAILED, exit_code=3, why="it crashed")
    assert bench.phase("a") is RunPhase.RELEASING
    bench.finish_endings()
    status = bench.status("a")
    assert (status.outcome, status.exit_code) == (Outcome.FAILED, 3)
    assert not bench.of("a")
    assert list(bench.cluster.objects) == [first]


def test_a_release_is_gone_only_when_nothing_runs_any_more() -> None:
    bench = Bench()
    bench.plan(a_job("a"))
    bench.run_all()
    bench.plan(released(a_job("a")))
    assert bench.phase("a") is RunPhase.RELEASING
    bench.finish_endings()
    assert bench.status("a").outcome is Outcome.STOPPED


def test_a_release_of_what_was_never_here_is_gone_at_once() -> None:
    bench = Bench()
    bench.plan(released(a_job("a")))
    assert bench.status("a").outcome is Outcome.STOPPED
    assert bench.done == []


def test_what_the_set_drops_while_it_runs_is_stopped() -> None:
    bench = Bench()
    bench.plan(a_job("a"))
    bench.settle()
    bench.plan()
    bench.settle()
    assert not bench.cluster.objects
    assert not bench.desk.books.attempts
