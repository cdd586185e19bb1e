"""Nodes that come, go and change, and services that move between them."""

from dataclasses import replace

from dure.domain.fleet.protocol.reports import RunPhase
from dure.member.ports import InventoryChanged, Life, Taken
from tests.member.core.factories import (
    Bench,
    a_job,
    a_service,
    inventory,
)


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
