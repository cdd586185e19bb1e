"""Lives of instances: nothing runs twice, and nothing is lost when a member dies."""

from dure.domain.fleet.protocol.reports import Outcome, RunPhase
from dure.member.core.held import Ended
from dure.member.ports import InventoryChanged, Life
from tests.member.core.factories import (
    Bench,
    a_job,
    a_service,
    inventory,
    released,
)


def test_a_newer_attempt_of_a_job_starts_only_when_the_older_is_over() -> None:
    bench = Bench()
    bench.plan(a_job("a", 1))
    bench.run_all()
    bench.plan(a_job("a", 1), a_job("a", 2))
    bench.wait(5)
    assert {seen.instance.attempt for seen in bench.of("a")} == {1}
    bench.finish_endings()
    assert {seen.instance.attempt for seen in bench.of("a")} == {2}
    assert bench.status("a", 1).outcome is Outcome.STOPPED


def test_a_newer_attempt_of_a_service_runs_beside_the_older_until_it_is_ready() -> None:
    bench = Bench()
    bench.plan(a_service("s", 1))
    bench.run_all()
    bench.plan(a_service("s", 1), a_service("s", 2))
    assert {seen.instance.attempt for seen in bench.of("s")} == {1, 2}
    assert not bench.ending
    bench.run_all()
    assert [name.attempt for name in bench.ending] == [1]
    bench.finish_endings()
    assert bench.status("s", 1).outcome is Outcome.STOPPED
    assert bench.phase("s", 2) is RunPhase.RUNNING


def test_an_older_attempt_of_a_service_that_lost_its_instance_ends_when_the_newer_is_ready() -> (
    None
):
    bench = Bench()
    bench.plan(a_service("s", 1))
    bench.run_all()
    bench.plan(a_service("s", 1), a_service("s", 2))
    (old,) = bench.of("s", 1)
    bench.become(old.instance, Life.FAILED)
    bench.settle()
    assert bench.status("s", 1).outcome is Outcome.STOPPED
    assert bench.phase("s", 2) is RunPhase.RUNNING


def test_two_attempts_of_a_service_that_come_at_once_are_one_to_run() -> None:
    bench = Bench()
    bench.plan(a_service("s", 1), a_service("s", 2))
    bench.settle()
    assert bench.status("s", 1).outcome is Outcome.STOPPED
    assert bench.phase("s", 2) is RunPhase.RUNNING


def test_a_place_is_used_again_only_when_its_former_holder_is_over() -> None:
    bench = Bench()
    bench.plan(a_job("a", workers=2, devices=4))
    bench.run_all()
    bench.plan(released(a_job("a", workers=2, devices=4)), a_job("b", devices=4))
    bench.wait(1)
    assert not bench.of("b")
    bench.finish_endings()
    assert bench.of("b")


def test_a_gang_whose_node_died_waits_until_its_former_self_is_over() -> None:
    bench = Bench()
    bench.plan(a_job("a", workers=2, devices=2))
    bench.run_all()
    node = bench.of("a")[0].node
    bench.cluster.inventory = inventory(down=[node])
    bench.desk.see(InventoryChanged(bench.cluster.inventory), bench.now_ns)
    bench.act()
    bench.wait(1)
    assert len(bench.of("a")) == 2
    assert len(bench.ending) == 2
    bench.settle()
    places = bench.of("a")
    assert len(places) == 2
    assert node not in {seen.node for seen in places}
    assert sorted(bench.cluster.starts[seen.instance].rank for seen in places) == [0, 1]


def test_an_instance_that_came_to_nothing_takes_its_gang_back_and_starts_again() -> None:
    bench = Bench()
    bench.plan(a_job("a", workers=2))
    first, second = (seen.instance for seen in bench.of("a"))
    bench.become(first, Life.UNBOUND, why="the node is full")
    assert bench.ending == [second]
    bench.settle()
    again = [seen.instance for seen in bench.of("a")]
    assert len(again) == 2
    assert not {first, second} & set(again)
    assert bench.phase("a") is RunPhase.RUNNING


def test_an_attempt_that_is_taken_away_again_and_again_goes_back_to_the_centre() -> None:
    bench = Bench()
    bench.plan(a_job("a"))
    for _ in range(20):
        bench.run_all()
        for seen in bench.of("a"):
            bench.become(seen.instance, Life.GONE)
        bench.wait(60)
    assert bench.status("a").outcome is Outcome.DISPLACED


def test_a_service_that_never_comes_up_is_started_ever_more_slowly_and_then_given_up() -> None:
    bench = Bench()
    bench.plan(a_service("s"))
    starts = 0
    for _ in range(200):
        for seen in bench.of("s"):
            starts += 1
            bench.become(seen.instance, Life.FAILED, exit_code=1)
        bench.wait(0.5)
    assert starts == 5
    assert bench.status("s").outcome is Outcome.FAILED


def test_a_service_that_ran_is_started_again_when_it_ends() -> None:
    bench = Bench()
    bench.plan(a_service("s"))
    for _ in range(10):
        bench.run_all()
        for seen in bench.of("s"):
            bench.become(seen.instance, Life.FAILED, exit_code=1)
        bench.wait(2)
    assert bench.of("s")
    assert len(bench.cluster.objects) <= 2


def test_a_member_that_died_goes_on_with_what_runs() -> None:
    bench = Bench()
    bench.plan(a_job("a", workers=2), a_service("s", replicas=2), a_job("w", devices=4))
    bench.settle()
    before = sorted(seen.instance.index for seen in bench.cluster.alive())
    done = len(bench.done)
    bench.start()
    bench.settle()
    assert len(bench.done) == done
    assert sorted(seen.instance.index for seen in bench.cluster.alive()) == before
    assert bench.phase("a") is RunPhase.RUNNING


def test_strangers_are_left_alone_until_a_plan_was_taken() -> None:
    bench = Bench()
    bench.plan(a_job("a"), a_job("b"))
    bench.settle()
    bench.memory = {}
    bench.start()
    bench.wait(100)
    assert len(bench.cluster.alive()) == 2
    assert not bench.ending
    bench.plan(a_job("a"), epoch=2)
    assert [name.workload for name in bench.ending] == ["b"]
    bench.settle()
    assert [seen.instance.workload for seen in bench.cluster.alive()] == ["a"]
    assert bench.phase("a") is RunPhase.RUNNING


def test_what_ended_while_the_member_was_dead_is_not_lost() -> None:
    bench = Bench()
    bench.plan(a_job("a"), a_job("b"))
    bench.run_all()
    (a,), (b,) = bench.of("a"), bench.of("b")
    bench.cluster.become(a.instance, Life.SUCCEEDED, exit_code=0)
    bench.cluster.become(b.instance, Life.FAILED, exit_code=9)
    bench.start()
    assert bench.status("a").outcome is Outcome.SUCCEEDED
    assert (bench.status("b").outcome, bench.status("b").exit_code) == (Outcome.FAILED, 9)


def test_a_gang_that_lost_a_worker_while_the_member_was_dead_starts_again_whole() -> None:
    bench = Bench()
    bench.plan(a_job("a", workers=3))
    bench.run_all()
    former = [seen.instance for seen in bench.of("a")]
    bench.cluster.become(former[1], Life.GONE)
    bench.start()
    bench.settle()
    now = {seen.instance for seen in bench.of("a")}
    assert len(now) == 3
    assert not now & {former[0], former[2]}


def test_an_end_is_safe_in_memory_before_it_is_told() -> None:
    bench = Bench()
    bench.plan(a_job("a"))
    bench.run_all()
    (seen,) = bench.of("a")
    bench.desk.see(bench.cluster.become(seen.instance, Life.SUCCEEDED), bench.now_ns)
    changed, _, urgent = bench.desk.memory()
    assert urgent
    assert changed["attempt/a/1"]["end"]["outcome"] == "succeeded"


def test_an_end_that_its_cluster_stamped_long_ago_is_no_event_of_the_past() -> None:
    bench = Bench()
    bench.plan(a_job("a"))
    bench.run_all()
    began_ns = bench.now_ns
    bench.wait(60)
    (held,) = bench.desk.books.attempts.values()
    stage = bench.desk.stage
    assert stage.has(held)
    stage.finish(held, Ended(Outcome.SUCCEEDED, "", began_ns), bench.now_ns)
    assert not stage.has(held)
    assert held.end is not None
    assert held.end.at_ns == began_ns
