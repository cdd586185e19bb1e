"""A node whose devices are to be divided anew is held, never while in use, and to the end."""

from dataclasses import replace

import pytest

from dure.domain.fleet.lifecycle import PartitionPhase
from dure.domain.fleet.protocol.desired import Partition
from dure.domain.fleet.protocol.reports import PartitionStatus, Report
from dure.member.core.actions import Action, Divide
from dure.member.ports import InventoryChanged, Life, Progressed, Warned
from tests.member.core.factories import Bench, a_job, a_service, inventory, surroundings

WISH = Partition("n0", "all-1g.10gb", 7)


class Divided(Bench):
    """A bench that keeps what is told of partitions."""

    def wish(self, *wishes: Partition) -> None:
        self.around = surroundings(partitions=wishes)
        self.plan(*self.desk.desires.items.values())

    def asked(self, within_s: int = 5) -> list[Partition]:
        """What the cluster is asked for in that time."""
        before = len(self.done)
        for _ in range(within_s):
            self.wait(1)
        return [each.partition for each in self.done[before:] if isinstance(each, Divide)]

    def answer(self, phase: PartitionPhase, why: str = "", wish: Partition = WISH) -> None:
        self.desk.divided(wish, phase, why, self.now_ns)

    def report(self) -> Report:
        found = self.desk.news(self.now_ns, whole=True)
        assert found is not None
        return found

    def status(self) -> PartitionStatus:  # type: ignore[override]
        (found,) = self.report().partitions
        return found

    def _do(self, action: Action) -> None:
        if not isinstance(action, Divide):
            super()._do(action)


def up(bench: Divided) -> dict[str, bool]:
    told = bench.report().inventory
    assert told is not None
    return {node.name: node.up for node in told.nodes}


def test_nothing_new_is_placed_on_a_node_that_is_to_be_divided_until_it_is() -> None:
    bench = Divided()
    bench.wish(WISH)
    assert up(bench) == {"n0": False, "n1": True}
    bench.plan(*(a_job(f"j{number}") for number in range(6)))
    bench.settle()
    assert {seen.node for seen in bench.cluster.alive()} == {"n1"}
    bench.answer(PartitionPhase.DONE)
    bench.settle()
    assert up(bench) == {"n0": True, "n1": True}
    assert {seen.node for seen in bench.cluster.alive()} == {"n0", "n1"}
    assert bench.status() == PartitionStatus("n0", 7, PartitionPhase.DONE)


def test_a_node_whose_devices_are_in_use_is_refused_with_the_name_of_the_user() -> None:
    bench = Divided()
    bench.plan(*(a_job(f"j{number}") for number in range(8)))
    bench.settle()
    bench.wish(WISH)
    assert bench.asked() == []
    status = bench.status()
    assert status.phase is PartitionPhase.REFUSED
    assert "used by attempt 1 of job j" in status.why
    assert up(bench)["n0"]


def test_the_cluster_is_asked_again_but_never_twice_at_once_until_it_is_done() -> None:
    bench = Divided()
    bench.wish(WISH)
    assert bench.asked() == [WISH]
    bench.answer(PartitionPhase.UNDER_WAY, "its manager")
    assert bench.status() == PartitionStatus("n0", 7, PartitionPhase.UNDER_WAY, "its manager")
    assert bench.asked() == [WISH]
    bench.answer(PartitionPhase.FAILED, "it broke")
    assert bench.asked() == []
    assert bench.status() == PartitionStatus("n0", 7, PartitionPhase.FAILED, "it broke")


def test_what_is_never_done_fails_in_the_end_and_the_node_is_used_again() -> None:
    bench = Divided()
    bench.wish(WISH)
    for _ in range(40):
        bench.wait(60)
        bench.answer(PartitionPhase.UNDER_WAY, "its manager")
    assert bench.status().phase is PartitionPhase.FAILED
    assert "its manager" in bench.status().why
    assert up(bench)["n0"]


@pytest.mark.parametrize("end", [PartitionPhase.DONE, PartitionPhase.REFUSED, None])
def test_a_new_member_goes_on_with_what_is_unfinished_and_repeats_no_end(
    end: PartitionPhase | None,
) -> None:
    bench = Divided()
    bench.wish(WISH)
    bench.wait(1)
    if end is not None:
        bench.answer(end, "so it is")
    bench.act()
    bench.done.clear()
    bench.start()
    bench.wait(1)
    assert up(bench)["n0"] is (end is not None)
    assert bench.done == ([] if end is not None else [Divide(WISH)])
    assert bench.status().phase is (end or PartitionPhase.UNDER_WAY)


def test_an_end_is_safe_before_it_is_told() -> None:
    bench = Divided()
    bench.wish(WISH)
    bench.wait(1)
    bench.answer(PartitionPhase.REFUSED, "in use")
    changed, _, urgent = bench.desk.memory()
    assert urgent
    assert changed["partition/n0"]["phase"] == "refused"


def test_a_wish_that_is_withdrawn_frees_its_node_and_is_forgotten() -> None:
    bench = Divided()
    bench.wish(WISH)
    bench.wait(1)
    bench.wish()
    bench.act()
    assert up(bench)["n0"]
    assert bench.report().partitions == ()
    assert not [name for name in bench.memory if name.startswith("partition/")]
    bench.answer(PartitionPhase.DONE)
    assert bench.report().partitions == ()


def test_a_later_wish_for_the_same_node_begins_anew() -> None:
    bench = Divided()
    bench.wish(WISH)
    bench.wait(1)
    bench.answer(PartitionPhase.DONE)
    again = replace(WISH, number=9)
    bench.wish(again)
    assert bench.asked() == [again]
    bench.answer(PartitionPhase.DONE)
    assert bench.status() == PartitionStatus("n0", 9, PartitionPhase.UNDER_WAY)


def test_a_held_node_that_is_gone_for_a_while_is_held_when_it_is_back() -> None:
    bench = Divided()
    bench.wish(WISH)
    bench.wait(1)
    whole = inventory()
    less = replace(inventory(1), nodes=(whole.nodes[1],))
    bench.desk.see(InventoryChanged(less), bench.now_ns)
    assert up(bench) == {"n1": True}
    bench.desk.see(InventoryChanged(whole), bench.now_ns)
    assert up(bench) == {"n0": False, "n1": True}


def test_what_the_cluster_warns_of_is_told_once() -> None:
    bench = Bench()
    bench.desk.see(Warned("node n9 has an accelerator nobody knows"), bench.now_ns)
    report = bench.desk.news(bench.now_ns, whole=False)
    assert report is not None
    assert report.warnings == ("node n9 has an accelerator nobody knows",)
    later = bench.desk.news(bench.now_ns, whole=False)
    assert later is None or later.warnings == ()


def test_a_program_that_ends_lets_the_next_wish_through() -> None:
    bench = Divided()
    bench.plan(*(a_job(f"j{number}") for number in range(8)))
    bench.settle()
    for seen in list(bench.cluster.alive()):
        bench.become(seen.instance, Life.SUCCEEDED, exit_code=0)
    bench.wish(WISH)
    assert bench.asked() == [WISH]


def test_with_drain_services_move_new_first_and_then_the_node_is_divided() -> None:
    bench = Divided()
    bench.plan(a_service("a"), a_service("b"))
    bench.settle()
    assert {seen.node for seen in bench.cluster.alive()} == {"n0"}
    bench.wish(replace(WISH, drain=True))
    bench.wait(1)
    assert {seen.node for seen in bench.cluster.alive()} == {"n0", "n1"}, "old ones serve still"
    assert "2 that use its devices to move" in bench.status().why
    assert bench.status().phase is PartitionPhase.UNDER_WAY
    bench.settle()
    assert {seen.node for seen in bench.cluster.alive()} == {"n1"}
    assert [each.partition.node for each in bench.done if isinstance(each, Divide)] == ["n0"]


def test_with_drain_what_may_not_be_moved_is_named_and_the_wish_refused_in_the_end() -> None:
    bench = Divided()
    bench.plan(a_job("j"))
    bench.settle()
    bench.wish(replace(WISH, drain=True))
    bench.wait(60)
    status = bench.status()
    assert status.phase is PartitionPhase.UNDER_WAY
    assert "attempt 1 of job j" in status.why
    bench.wait(31 * 60)
    bench.wait(1)
    assert bench.status().phase is PartitionPhase.REFUSED
    assert up(bench)["n0"]


def test_with_drain_a_job_moves_when_it_has_saved_its_work() -> None:
    bench = Divided()
    bench.plan(a_job("j"))
    bench.settle()
    bench.wish(replace(WISH, drain=True))
    bench.wait(6)
    (before,) = bench.cluster.alive()
    bench.desk.see(Progressed(before.instance, 0.5, 0.5), bench.now_ns)
    bench.act()
    bench.settle()
    (after,) = bench.cluster.alive()
    assert (before.node, after.node) == ("n0", "n1")
    assert [each.partition.node for each in bench.done if isinstance(each, Divide)] == ["n0"]
