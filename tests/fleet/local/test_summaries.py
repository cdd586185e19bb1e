"""What the centre is told is exact."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.events import NodeLost
from dure.domain.fleet.slices import ShareMode
from tests.fleet.local.factories import (
    CPU_MILLI,
    HOST_BYTES,
    batch,
    group,
    order,
    rig,
    training,
)

A100 = device_profile("a100")


@settings(max_examples=30, deadline=None)
@given(
    memories=st.lists(st.sampled_from([4, 15, 30, 60]), max_size=12),
    ended=st.sets(st.integers(0, 11)),
    lost=st.none() | st.integers(0, 2),
)
def test_every_figure_follows_from_what_runs(
    memories: list[int], ended: set[int], lost: int | None
) -> None:
    it = rig(group(count=3, devices=2, mode=ShareMode.MIG), power_down=False)
    it.round()
    for index, memory in enumerate(memories):
        it.give(order(batch(f"b{index}", memory)))
    for index in sorted(ended):
        it.end(f"b{index}")
    if lost is not None:
        it.tell(NodeLost(it.now_ns, lost))
        it.round()
    told = it.summary["gpus"]
    up = [node for node in range(3) if node != lost]
    guests: Counter[int] = Counter()
    for place in it.running.values():
        guests.update(place.devices)
    free = [sum(not guests[2 * node + at] for at in range(2)) for node in up]
    slices = [A100.slice(place.template) for place in it.running.values()]
    used = {place.node for place in it.running.values()}
    assert told.nodes == len(up)
    assert told.nodes_in_use == len(used)
    assert told.devices == 2 * len(up)
    assert told.free_devices == sum(free)
    assert told.largest_node_free == max(free)
    assert told.nodes_by_free == tuple(free.count(number) for number in range(3))
    assert told.free_on_used_nodes == sum(
        count for node, count in zip(up, free, strict=True) if node in used
    )
    assert told.free_compute_milli == 2000 * len(up) - sum(each.compute_milli for each in slices)
    assert told.free_bandwidth_milli == 2000 * len(up) - sum(
        each.bandwidth_milli for each in slices
    )
    assert told.free_memory_bytes == 2 * len(up) * A100.memory_bytes - sum(
        each.memory_bytes for each in slices
    )
    assert told.free_cpu_milli == CPU_MILLI * len(up) - 500 * len(slices)
    assert told.free_host_memory_bytes == HOST_BYTES * len(up)
    whole = dict(told.free_slices)["7g.80gb"]
    assert whole == sum(free)


def test_free_slices_are_as_many_as_can_really_be_placed() -> None:
    it = rig(group(count=1, devices=2, mode=ShareMode.MIG))
    it.give(order(batch("a", 30)), order(batch("b", 4)))
    told = dict(it.summary["gpus"].free_slices)["1g.10gb"]
    it.give(*(order(batch(f"x{index}")) for index in range(told + 3)))
    assert sum(name.startswith("x") for name in it.names()) == told


def test_waiting_orders_are_counted_in_devices() -> None:
    it = rig(group(count=1))
    it.give(order(training("a", 4)))
    it.give(order(training("b", 2, devices=2)))
    assert it.summary["gpus"].waiting_devices == 4
    it.withdraw("b")
    assert it.summary["gpus"].waiting_devices == 0


def test_fragmentation_grows_when_what_is_asked_for_no_longer_fits() -> None:
    it = rig(group(count=1, devices=1, mode=ShareMode.MIG))
    it.give(order(batch("a", 4)))
    assert it.summary["gpus"].fragmentation > 0.0
    it.end("a")
    assert it.summary["gpus"].fragmentation == pytest.approx(0.0)
