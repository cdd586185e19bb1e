"""Rules of a member: which plans it takes, what it starts and stops, what it tells."""

from dataclasses import replace

import pytest

from dure.domain.fleet.decisions import InstanceId
from dure.domain.fleet.protocol import AttemptKey, Outcome, Plan, RunPhase
from dure.domain.ids import ClusterId, WorkloadId
from dure.member.core.actions import Begin, End, Forget
from dure.member.ports import InventoryChanged, Life, Progressed, Seen, Taken
from tests.fleet.factories import job
from tests.member.core.factories import (
    Bench,
    a_job,
    a_service,
    desired,
    inventory,
    released,
    seconds,
)


def key(name: str, attempt: int = 1) -> AttemptKey:
    return AttemptKey(WorkloadId(name), attempt)


# --- plans ---------------------------------------------------------------------------------


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


# --- ends ----------------------------------------------------------------------------------


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


# --- never twice ---------------------------------------------------------------------------


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


# --- death ---------------------------------------------------------------------------------


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


# --- nodes ---------------------------------------------------------------------------------


def test_what_runs_keeps_its_place_when_other_nodes_come_and_go() -> None:
    bench = Bench()
    bench.plan(a_job("a", devices=2), a_job("b", devices=3), a_job("c", devices=1))
    bench.settle()
    before = {seen.instance: (seen.node, seen.devices) for seen in bench.cluster.alive()}
    more = inventory(4)
    first = replace(more.nodes[0], name="new-first")
    bench.cluster.inventory = replace(more, nodes=(first, more.nodes[3], *inventory(2).nodes))
    bench.desk.see(InventoryChanged(bench.cluster.inventory), bench.now_ns)
    bench.act()
    bench.settle()
    after = {seen.instance: (seen.node, seen.devices) for seen in bench.cluster.alive()}
    assert after == before
    for status in bench.told.values():
        for each in status.instances:
            assert bench.cluster.inventory.nodes[each.placement.node].name == each.node


def test_what_runs_on_a_node_that_is_no_more_starts_elsewhere() -> None:
    bench = Bench()
    bench.plan(a_job("a", devices=3))
    bench.settle()
    (seen,) = bench.of("a")
    left = tuple(node for node in inventory().nodes if node.name != seen.node)
    bench.cluster.inventory = replace(inventory(1), nodes=left)
    bench.desk.see(InventoryChanged(bench.cluster.inventory), bench.now_ns)
    bench.act()
    bench.settle()
    (again,) = bench.of("a")
    assert again.node == left[0].name


def test_a_cordoned_node_keeps_what_it_has_and_takes_nothing_new() -> None:
    bench = Bench()
    bench.plan(a_job("a"))
    bench.settle()
    (seen,) = bench.of("a")
    bench.cluster.inventory = inventory(down=[seen.node], why="cordoned")
    bench.desk.see(InventoryChanged(bench.cluster.inventory), bench.now_ns)
    bench.act()
    bench.plan(a_job("a"), a_job("b"))
    bench.settle()
    assert bench.of("a")[0].instance == seen.instance
    assert bench.of("b")[0].node != seen.node


def test_what_others_use_is_not_given_out() -> None:
    bench = Bench()
    bench.plan(a_job("x"))
    for node in ("n0", "n1"):
        bench.desk.see(Taken(node, devices=3), bench.now_ns)
    bench.plan(a_job("x"), a_job("a", devices=4))
    bench.wait(1)
    assert not bench.of("a")
    assert bench.phase("a") is RunPhase.WAITING
    for node in ("n0", "n1"):
        bench.desk.see(Taken(node), bench.now_ns)
    bench.settle()
    assert bench.of("a")


def moving_service() -> tuple[Bench, str]:
    """Two services on a node each, one of which is about to move to the other."""
    bench = Bench()
    bench.plan(a_job("j", devices=3), a_service("s1"), a_service("s2"))
    bench.settle()
    nodes = {name: bench.of(name)[0].node for name in ("s1", "s2")}
    assert nodes["s1"] != nodes["s2"]
    for seen in bench.of("j"):
        bench.become(seen.instance, Life.SUCCEEDED)
    for _ in range(3):
        bench.wait(3601)
    (name,) = [name for name in nodes if len(bench.of(name)) == 2]
    return bench, name


def test_a_service_moves_by_starting_anew_before_the_old_one_ends() -> None:
    bench, name = moving_service()
    old, new = sorted(bench.of(name), key=lambda seen: seen.instance.index)
    assert old.node != new.node
    assert not bench.ending
    bench.run_all()
    assert bench.ending == [old.instance]
    bench.finish_endings()
    assert [seen.instance for seen in bench.of(name)] == [new.instance]
    assert bench.phase(name) is RunPhase.RUNNING


def test_a_move_whose_replacement_fails_leaves_the_old_one_alone() -> None:
    bench, name = moving_service()
    old, new = sorted(bench.of(name), key=lambda seen: seen.instance.index)
    bench.become(new.instance, Life.FAILED)
    bench.settle()
    assert old.instance in [seen.instance for seen in bench.of(name)]
    assert old.instance not in bench.ending


def test_a_move_is_undone_when_the_member_dies_in_the_middle_of_it() -> None:
    bench, name = moving_service()
    _, new = sorted(bench.of(name), key=lambda seen: seen.instance.index)
    bench.start()
    assert bench.ending == [new.instance]
    bench.settle()
    assert len(bench.of(name)) == 1


# --- contact -------------------------------------------------------------------------------


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


# --- what is told --------------------------------------------------------------------------


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
    start_ns, used = bench.now_ns, 0.0
    for _ in range(10):
        bench.now_ns += seconds(7)
        bench.desk.tick(bench.now_ns)
        report = bench.desk.news(bench.now_ns, whole=False)
        used += sum(each.device_s for each in report.usage) if report is not None else 0.0
    assert used == pytest.approx(2 * (bench.now_ns - start_ns) / 1e9, rel=0.15)


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
