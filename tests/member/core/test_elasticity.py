"""Services that follow what is said of their load: by instances, by fronts and people, in size."""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from dure.domain.fleet.clusters import NodeGroup
from dure.domain.fleet.protocol.desired import Desired
from dure.domain.fleet.protocol.reports import Inventory, NodeFact, Sizing
from dure.domain.fleet.protocol.services import LoadSignal
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.workloads import Demand
from dure.domain.ids import WorkloadId
from dure.domain.units import GIB
from dure.member.core.actions import End, Resize
from dure.member.core.signals import LONGEST_NS, MOST_SOURCES, SignalBook
from dure.member.ports import InventoryChanged, Life, Loaded
from tests.fleet.factories import service
from tests.member.core.factories import (
    GROUP,
    Bench,
    SimulatedCluster,
    a_job,
    a_service,
    desired,
    group,
    inventory,
    key,
    seconds,
)

CHAT = WorkloadId("s")


def signal(at_ns: int, *, source: str = "front", valid_s: float = 30.0, **said: Any) -> LoadSignal:
    return LoadSignal(CHAT, source, at_ns, at_ns + seconds(valid_s), **said)


def chat(replicas: int = 1, **changes: Any) -> Desired:
    made = service("s")
    assert made.service is not None
    return desired(replace(made, service=replace(made.service, **changes)), instances=replicas)


def _furnish(it: Bench, nodes: NodeGroup) -> None:
    """Let the centre know the same nodes as the cluster has."""
    assert it.around is not None
    it.around = replace(it.around, cluster=replace(it.around.cluster, groups=(nodes,)))


def bench(replicas: int = 1, nodes: int = 4, **changes: Any) -> Bench:
    """A member with a service that runs."""
    it = Bench(SimulatedCluster(inventory=inventory(nodes)))
    _furnish(it, group(nodes))
    it.plan(chat(replicas, **changes))
    it.settle()
    return it


def say(it: Bench, **said: Any) -> None:
    """A front says something, and the member looks at it."""
    it.desk.signals([signal(it.now_ns, **said)], it.now_ns)
    it.wait(2.1)


def sizing(it: Bench) -> Sizing:
    found = it.status("s").sizing
    assert found is not None
    return found


# The path of signals


def test_a_signal_makes_a_service_larger_and_people_hear_why() -> None:
    it = bench()
    say(it, requests_per_s=40.0, latency_ms=120.0)
    it.settle()
    assert len(it.of("s")) >= 5
    told = sizing(it)
    assert (told.serving, told.requests_per_s) == (len(it.of("s")), 40.0)
    assert "40 requests/s need" in told.why


def test_a_node_that_goes_leaves_a_service_as_large_as_it_was_and_people_know_why() -> None:
    it = bench()
    say(it, requests_per_s=40.0)
    it.settle()
    before = sizing(it)
    it.wait(60)  # nothing was said of its load for a while: it is not made larger again by that
    fullest = Counter(seen.node for seen in it.of("s")).most_common(1)[0][0]
    left = tuple(node for node in inventory(4).nodes if node.name != fullest)
    it.cluster.inventory = replace(inventory(3), nodes=left)
    it.desk.see(InventoryChanged(it.cluster.inventory), it.now_ns)
    it.act()
    it.settle()
    assert (sizing(it).serving, sizing(it).why) == (before.serving, before.why)
    assert len([seen for seen in it.of("s") if seen.node != fullest]) == before.serving


def rename_nodes(it: Bench) -> None:
    """All nodes go, and as many others come."""
    before = it.cluster.inventory
    others = tuple(replace(node, name=f"other-{node.name}") for node in before.nodes)
    it.cluster.inventory = replace(before, nodes=others)
    it.desk.see(InventoryChanged(it.cluster.inventory), it.now_ns)
    it.act()
    it.settle()


def test_a_service_that_lost_every_node_comes_back_as_large_as_it_was() -> None:
    it = bench()
    say(it, requests_per_s=40.0)
    it.settle()
    before = sizing(it)
    assert before.serving >= 5
    it.wait(60)  # nobody says anything of its load any more
    rename_nodes(it)
    assert (sizing(it).serving, sizing(it).why) == (before.serving, before.why)
    assert len([seen for seen in it.of("s") if seen.node.startswith("other-")]) == before.serving


def test_a_new_member_keeps_a_service_as_large_as_it_was_though_nodes_went_with_the_old_one() -> (
    None
):
    it = bench()
    say(it, requests_per_s=40.0)
    it.settle()
    before = sizing(it)
    fullest = Counter(seen.node for seen in it.of("s")).most_common(1)[0][0]
    left = tuple(node for node in inventory(4).nodes if node.name != fullest)
    it.cluster.inventory = replace(inventory(3), nodes=left)
    for seen in it.of("s"):
        if seen.node == fullest:
            del it.cluster.objects[seen.instance]
    it.wait(60)  # nobody says anything of its load any more
    it.start()
    it.settle()
    assert (sizing(it).serving, sizing(it).why) == (before.serving, before.why)
    assert len(it.of("s")) == before.serving


def test_it_is_decided_without_the_centre() -> None:
    it = bench()
    before = it.revision
    say(it, requests_per_s=40.0)
    it.settle()
    assert (it.revision, len(it.of("s")) > 1) == (before, True)


def test_parts_of_several_sources_add_up_and_the_worst_latency_counts() -> None:
    book = SignalBook()
    now_ns = seconds(100)
    book.hear(signal(now_ns, source="a", requests_per_s=10.0, latency_ms=80.0), now_ns)
    book.hear(signal(now_ns, source="b", requests_per_s=5.0, queue_length=3.0), now_ns)
    parts = book.parts(CHAT, now_ns)
    assert parts is not None
    assert (parts.requests_per_s, parts.queue_length, parts.latency_ms) == (15.0, 3.0, 80.0)


def test_what_a_source_says_later_takes_the_place_of_what_it_said() -> None:
    book = SignalBook()
    book.hear(signal(seconds(100), requests_per_s=10.0), seconds(100))
    book.hear(signal(seconds(102), requests_per_s=4.0), seconds(102))
    assert not book.hear(signal(seconds(101), requests_per_s=99.0), seconds(102))
    parts = book.parts(CHAT, seconds(103))
    assert parts is not None
    assert parts.requests_per_s == 4.0


def test_a_signal_expires_whatever_it_says() -> None:
    book = SignalBook()
    book.hear(signal(seconds(100), requests_per_s=10.0, valid_s=1e9), seconds(100))
    assert book.parts(CHAT, seconds(100) + LONGEST_NS - 1) is not None
    assert book.parts(CHAT, seconds(100) + LONGEST_NS) is None


@pytest.mark.parametrize("at_s", [0.0, 69.9, 200.0])
def test_stale_signals_and_those_from_the_future_are_not_taken_in(at_s: float) -> None:
    assert not SignalBook().hear(signal(seconds(at_s), requests_per_s=1.0), seconds(100))


def test_sources_are_bounded_and_the_oldest_go() -> None:
    book = SignalBook()
    for number in range(MOST_SOURCES + 10):
        now_ns = seconds(100 + number / 100)
        book.hear(signal(now_ns, source=f"front-{number}", requests_per_s=1.0), now_ns)
    parts = book.parts(CHAT, seconds(101))
    assert parts is not None
    assert parts.requests_per_s == MOST_SOURCES


def test_signals_of_services_that_are_not_here_mean_nothing() -> None:
    it = bench()
    stranger = replace(signal(it.now_ns, requests_per_s=99.0), workload=WorkloadId("other"))
    it.desk.signals([stranger], it.now_ns)
    it.wait(3)
    assert len(it.of("s")) == 1


def test_a_service_keeps_its_size_when_nobody_says_anything_any_more() -> None:
    it = bench()
    say(it, requests_per_s=40.0)
    it.settle()
    large = len(it.of("s"))
    for _ in range(200):
        it.wait(10)
    assert len(it.of("s")) == large


# What instances say themselves


def test_what_instances_say_and_what_is_seen_from_outside_is_not_counted_twice() -> None:
    it = bench()
    (instance,) = it.of("s")
    it.desk.see(Loaded(instance.instance, 20.0, 0.0, 100.0), it.now_ns)
    say(it, requests_per_s=22.0)
    it.settle()
    assert sizing(it).requests_per_s == 22.0


def test_instances_may_speak_seldom_and_at_different_moments() -> None:
    it = bench(2)
    one, other = it.of("s")
    it.desk.see(Loaded(one.instance, 10.0, 0.0, 100.0), it.now_ns)
    it.wait(4)
    it.desk.see(Loaded(other.instance, 10.0, 0.0, 100.0), it.now_ns)
    it.wait(12)
    it.desk.see(Loaded(one.instance, 10.0, 0.0, 100.0), it.now_ns)
    it.wait(3)
    assert sizing(it).requests_per_s == 20.0


def test_without_a_rate_what_its_owner_expects_counts_and_the_queue_on_top() -> None:
    it = bench()
    say(it, queue_length=0.0)
    it.settle()
    assert len(it.of("s")) == 1
    say(it, queue_length=1200.0)
    it.settle()
    assert len(it.of("s")) >= 3
    assert "1200 that wait" in sizing(it).why


# Kept warm


def resting(it: Bench) -> list[int]:
    return [each.index for each in it.status("s").instances if each.standby]


def ready(it: Bench, **more: Any) -> None:
    """All that was started answers at an address."""
    for seen in it.of("s"):
        if seen.life is not Life.ENDING:
            it.become(seen.instance, Life.READY, address=f"h:{seen.instance.index}", **more)


def test_instances_kept_warm_get_no_requests_until_they_are_needed_and_then_at_once() -> None:
    it = bench(1, standby=2)
    ready(it)
    assert resting(it) == [1, 2]
    it.desk.signals([signal(it.now_ns, requests_per_s=12.0)], it.now_ns)
    it.wait(2.1)
    serving = sizing(it).serving
    assert serving == 2
    assert resting(it) == [2], "the first of them serves before anything new is ready"
    assert len(it.of("s")) == 4


def test_one_that_goes_gets_no_requests_first_and_ends_when_it_had_time_to_finish() -> None:
    it = bench(3, shrink_after_s=10.0, forgets_bursts=True)
    ready(it)
    for _ in range(8):
        say(it, requests_per_s=1.0)
        if resting(it):
            break
    (index,) = resting(it)
    assert not [each for each in it.done if isinstance(each, End)]
    it.wait(5.1)
    assert [each.instance.index for each in it.done if isinstance(each, End)] == [index]


def test_a_cancelled_service_does_not_wait_for_requests_to_finish() -> None:
    it = bench(3, shrink_after_s=10.0, forgets_bursts=True)
    ready(it)
    while not resting(it):
        say(it, requests_per_s=1.0)
    it.plan()
    it.wait(0.5)
    assert len([each for each in it.done if isinstance(each, End)]) == 3


def test_a_new_member_goes_on_with_what_serves_and_what_is_kept() -> None:
    it = bench(2, standby=1)
    ready(it)
    it.start()
    ready(it)
    it.plan(chat(2, standby=1))
    it.settle()
    assert len(it.of("s")) == 3
    assert resting(it) == [2]


# Slices in place


def in_place() -> Bench:
    """A service on a device that several share, under an agent that changes limits."""
    shared = NodeGroup(GROUP, 1, "a100", 1, 64_000, 512 * GIB, 1, mode=ShareMode.MPS)
    found = Inventory((shared,), (NodeFact("n0", GROUP),), features=frozenset({f"resize:{GROUP}"}))
    it = Bench(SimulatedCluster(inventory=found))
    _furnish(it, shared)
    small = Demand(memory_bytes=2 * GIB, cpu_milli=1000)
    it.plan(desired(replace(service("s"), demand=small), instances=1))
    it.settle()
    return it


def test_a_warning_is_answered_by_a_larger_slice_of_the_same_instance() -> None:
    it = in_place()
    (before,) = it.status("s").instances
    say(it, requests_per_s=1.0, latency_ms=480.0)
    (resize,) = [each for each in it.done if isinstance(each, Resize)]
    assert resize.placement.compute_milli > before.placement.compute_milli
    assert len(it.of("s")) == 1
    (after,) = it.status("s").instances
    assert (after.index, after.placement) == (before.index, resize.placement)
    assert "its slices grow by a step" in sizing(it).why


def test_a_service_that_lost_every_node_comes_back_on_slices_as_large_as_they_were() -> None:
    it = in_place()
    say(it, requests_per_s=1.0, latency_ms=480.0)
    before = sizing(it)
    (larger,) = it.status("s").instances
    assert before.level > 0
    it.wait(60)
    rename_nodes(it)
    assert (sizing(it).level, sizing(it).why) == (before.level, before.why)
    (after,) = [each for each in it.status("s").instances if each.index != larger.index]
    assert after.placement.compute_milli == larger.placement.compute_milli


def test_a_change_that_the_cluster_does_not_confirm_is_asked_for_again() -> None:
    it = in_place()
    say(it, requests_per_s=1.0, latency_ms=480.0)
    (first,) = [each for each in it.done if isinstance(each, Resize)]
    it.wait(11)
    again = [each for each in it.done if isinstance(each, Resize)]
    assert again == [first, first]
    it.desk.resized(first.instance, first.placement)
    it.wait(30)
    assert [each for each in it.done if isinstance(each, Resize)] == again


def test_who_starts_on_the_devices_of_one_that_shrinks_waits_until_it_did() -> None:
    it = in_place()
    for _ in range(3):
        say(it, requests_per_s=1.0, latency_ms=480.0)
        it.wait(10)
    for each in [each for each in it.done if isinstance(each, Resize)]:
        it.desk.resized(each.instance, each.placement)
    made = len([each for each in it.done if isinstance(each, Resize)])
    fifth = Demand(memory_bytes=10 * GIB, cpu_milli=1000)
    other = desired(replace(service("b"), demand=fifth), instances=3)
    mine = it.desk.books.attempts[key("s")].desired
    assert mine is not None
    it.plan(mine, other)
    assert len(it.of("b")) == 2, "there is room for the third"
    for _ in range(400):
        it.desk.signals([signal(it.now_ns, requests_per_s=1.0, latency_ms=100.0)], it.now_ns)
        it.wait(5)
        if it.desk.books.gate.waiting:
            break
    assert [each for each in it.done if isinstance(each, Resize)][made:]
    assert len(it.of("b")) == 2, "it started before the other had given up its part"
    for each in [each for each in it.done if isinstance(each, Resize)]:
        it.desk.resized(each.instance, each.placement)
    it.wait(1)
    assert len(it.of("b")) == 3


def test_use_is_counted_at_the_share_that_was_held_at_the_time() -> None:
    it = in_place()
    (small,) = it.status("s").instances
    began_ns = it.cluster.alive()[0].started_ns
    assert began_ns is not None
    say(it, requests_per_s=1.0, latency_ms=480.0)
    grown_ns = it.now_ns
    (large,) = it.status("s").instances
    it.wait(100)
    meters = it.desk.books.meters
    (usage,) = list(meters.tell(ended_only=False, again=True))
    until_ns = usage.until_ns
    first = (grown_ns - began_ns) * small.placement.compute_milli
    then = (until_ns - grown_ns) * large.placement.compute_milli
    assert usage.device_us == pytest.approx((first + then) / 1e6, rel=0.01)


# Noise


@pytest.mark.parametrize("seed", [3, 11])
def test_half_an_hour_of_noisy_signals_starts_and_ends_little(seed: int) -> None:
    chance = random.Random(seed)
    it = bench(4, nodes=8)
    ready(it)
    mark = len(it.done)
    for _ in range(30 * 30):
        for source in ("front-a", "front-b"):
            rate = 15.0 * chance.uniform(0.7, 1.3)
            told = signal(
                it.now_ns, source=source, requests_per_s=rate, latency_ms=chance.uniform(90, 430)
            )
            if chance.random() > 0.1:  # some are lost
                it.desk.signals([told], it.now_ns)
        it.wait(2)
        it.finish_endings()
        it.run_all()
    assert len(it.done[mark:]) <= 10


# Moves that tidy up


def test_a_service_makes_room_for_a_blocked_job_new_first_and_it_starts_after_its_end() -> None:
    it = Bench(SimulatedCluster(inventory=inventory(2)))
    fillers = [a_job("f0", devices=3), a_job("f1", devices=3)]
    services = [a_service("a"), a_service("b")]
    it.plan(fillers[0], services[0])
    it.settle()
    it.plan(*fillers, *services)
    it.settle()
    assert {seen.node for seen in it.of("a")} != {seen.node for seen in it.of("b")}
    large = a_job("large", devices=4)
    it.plan(*services, large)
    it.settle()
    assert not it.of("large"), "there is room for it without a move"
    for seen in [*it.of("a"), *it.of("b")]:
        it.become(seen.instance, Life.READY, address="h:1")
    for _ in range(15):
        it.wait(60)
        if len([*it.of("a"), *it.of("b")]) > 2:
            break
    moving = [*it.of("a"), *it.of("b")]
    assert len(moving) == 3, "its old place serves until the new one is ready"
    assert not it.of("large")
    it.run_all()
    assert not it.of("large"), "it started where the old one still runs"
    it.wait(6)
    it.finish_endings()
    it.wait(1)
    it.run_all()
    assert len(it.of("large")) == 1
    assert len([*it.of("a"), *it.of("b")]) == 2


# Whatever happens


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_said_and_happens_no_device_has_two_holders_and_bounds_hold(seed: int) -> None:
    chance = random.Random(seed)
    most = 6
    it = bench(2, nodes=2, standby=1, most_replicas=most, shrink_after_s=20.0, forgets_bursts=True)
    for _ in range(250):
        match chance.randrange(6):
            case 0 | 1:
                told = signal(
                    it.now_ns,
                    source=chance.choice(["a", "b"]),
                    requests_per_s=chance.choice([None, 0.0, 5.0, 25.0, 80.0]),
                    queue_length=chance.choice([None, 0.0, 40.0]),
                    latency_ms=chance.choice([None, 50.0, 480.0, 900.0]),
                )
                it.desk.signals([told], it.now_ns)
            case 2:
                ready(it)
            case 3:
                it.finish_endings()
            case 4 if it.of("s"):
                one = chance.choice(it.of("s")).instance
                it.become(one, chance.choice([Life.FAILED, Life.GONE, Life.RUNNING]))
            case 5 if chance.random() < 0.2:
                it.start()
                it.plan(
                    chat(
                        2,
                        standby=1,
                        most_replicas=most,
                        shrink_after_s=20.0,
                        forgets_bursts=True,
                    )
                )
        it.wait(chance.choice([0.5, 2.1, 7.0]))
        holders = [(seen.node, each) for seen in it.of("s") for each in seen.devices or ()]
        assert len(set(holders)) == len(holders), "a device has two holders"
        held = it.desk.books.attempts.get(key("s"))
        if held is None or held.end is not None:
            return  # it failed too often, as it may
        assert sum(not hand.life.over for hand in held.current()) <= most
        status = held.status()
        active = [each for each in status.instances if each.ready and not each.standby]
        assert status.sizing is None or len(active) <= max(status.sizing.serving, 0)
