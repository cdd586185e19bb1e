import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.fleet.packing.gangs import choose_gang
from dure.fleet.packing.ground import DeviceSpec, NodeSpec, Sharing
from dure.fleet.packing.packer import Packer
from dure.fleet.packing.shapes import Ask, Shape, Together
from tests.fleet.packing.referee import Referee


def _node(gpus: int, zone: int = 0) -> NodeSpec:
    return NodeSpec(8_000 * gpus, 0, (DeviceSpec(0, Sharing.FRACTION, limit=8),) * gpus, zone)


GANG_MEMBER = Shape(1_000, 0, 1, {0: Ask(1000)})


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.builds(_node, st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=5),
    st.integers(1, 10),
    st.sampled_from([300, 500, 1000]),
)
def test_a_gang_is_placed_whole_where_it_fits_and_not_at_all_elsewhere(
    nodes: list[NodeSpec], count: int, milli: int
) -> None:
    packer, referee = Packer(nodes, 1), Referee(nodes)
    shape = Shape(1_000, 0, 1, {0: Ask(milli)})
    number = packer.number(shape)
    room = sorted((referee.copies(shape, node) for node in range(len(nodes))), reverse=True)
    before = packer.ground.copy()
    places = choose_gang(packer, number, count)
    assert all(np.array_equal(a, b) for a, b in zip(before, packer.ground, strict=True))
    assert (places is not None) == (sum(room) >= count)
    if places is None:
        return
    assert len(places) == count
    for place in places:
        referee.take(shape, place)
    zones = {node.zone for node in nodes}
    in_zone = {
        zone: sorted(
            (r for r, node in zip(packer.copies_by_node(number), nodes, strict=True)
             if node.zone == zone),
            reverse=True,
        )
        for zone in zones
    }  # fmt: skip
    fewest = [_nodes_needed(found, count) for found in in_zone.values() if sum(found) >= count]
    used = {place.node for place in places}
    assert len(used) == (min(fewest) if fewest else _nodes_needed(room, count))
    if fewest:
        assert len({nodes[node].zone for node in used}) == 1


def _nodes_needed(room: list[int], count: int) -> int:
    total = 0
    for needed, each in enumerate(room, 1):
        total += each
        if total >= count:
            return needed
    raise AssertionError("does not fit")


def test_a_gang_takes_the_tightest_node_that_holds_all_of_it() -> None:
    packer = Packer([_node(8), _node(4), _node(2)], 1)
    places = choose_gang(packer, packer.number(GANG_MEMBER), 3)
    assert places is not None
    assert {place.node for place in places} == {1}


def test_stages_of_linked_devices_may_lie_on_several_nodes() -> None:
    linked = tuple(DeviceSpec(0, domain=index // 4) for index in range(8))
    packer = Packer([NodeSpec(64_000, 0, linked)] * 2, 1)
    stage = packer.number(Shape(1_000, 0, 4, {0: Ask()}, Together.LINKED))
    places = choose_gang(packer, stage, 4)
    assert places is not None
    assert sorted(place.node for place in places) == [0, 0, 1, 1]
    assert choose_gang(packer, stage, 5) is None


def test_a_gang_stays_on_the_allowed_nodes() -> None:
    packer = Packer([_node(4), _node(4)], 1)
    number = packer.number(GANG_MEMBER)
    allowed = np.array([False, True])
    places = choose_gang(packer, number, 4, allowed)
    assert places is not None
    assert {place.node for place in places} == {1}
    assert choose_gang(packer, number, 5, allowed) is None
