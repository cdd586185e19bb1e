import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.fleet.packing.defrag import (
    Held,
    MoveLimits,
    MovePlan,
    plan_emptying,
    plan_room,
)
from dure.fleet.packing.ground import DeviceSpec, NodeSpec, Sharing
from dure.fleet.packing.packer import Packer, Placement
from dure.fleet.packing.shapes import Ask, Shape
from tests.fleet.packing.referee import Referee


def _node(gpus: int, cpu_milli: int = 32_000) -> NodeSpec:
    return NodeSpec(cpu_milli, 0, (DeviceSpec(0, Sharing.FRACTION, limit=8),) * gpus)


def _part(milli: int) -> Shape:
    return Shape(1_000, 0, 1, {0: Ask(milli)})


def _hold(packer: Packer, *places: Placement) -> dict[int, list[Held]]:
    held: dict[int, list[Held]] = {}
    for key, place in enumerate(places):
        packer.take(place)
        held.setdefault(place.node, []).append(Held(key, place))
    return held


def test_an_instance_moves_so_that_a_whole_device_is_free() -> None:
    packer = Packer([_node(1), _node(1)], 1)
    half, whole = packer.number(_part(400)), packer.number(_part(1000))
    held = _hold(packer, Placement(half, 0, (0,), (0,)), Placement(half, 1, (1,), (0,)))
    before = packer.ground.copy()
    plan = plan_room(packer, whole, held)
    assert all(np.array_equal(a, b) for a, b in zip(before, packer.ground, strict=True))
    assert plan is not None
    assert plan.opened is not None
    (move,) = plan.moves
    assert plan.opened.node == move.source.node != move.target.node


def test_the_least_affected_instance_moves() -> None:
    packer = Packer([_node(1), _node(1), _node(1)], 1)
    part, whole = packer.number(_part(300)), packer.number(_part(1000))
    places = [Placement(part, node, (node,), (0,)) for node in range(3)]
    _hold(packer, *places)
    costs = (5.0, 1.0, 3.0)
    held = {node: [Held(node, places[node], costs[node])] for node in range(3)}
    plan = plan_room(packer, whole, held)
    assert plan is not None
    assert [move.key for move in plan.moves] == [1]
    assert plan.disturbance == 1.0


def test_without_a_home_for_every_mover_there_is_no_plan() -> None:
    packer = Packer([_node(1), _node(1)], 1)
    part, whole = packer.number(_part(600)), packer.number(_part(1000))
    held = _hold(packer, Placement(part, 0, (0,), (0,)), Placement(part, 1, (1,), (0,)))
    assert plan_room(packer, whole, held) is None


def test_a_plan_has_no_more_moves_than_allowed() -> None:
    packer = Packer([_node(2), _node(2)], 1)
    part, pair = packer.number(_part(300)), packer.number(Shape(0, 0, 2, {0: Ask()}))
    held = _hold(packer, *(Placement(part, index // 2, (index,), (0,)) for index in range(4)))
    assert plan_room(packer, pair, held, MoveLimits(most_moves=1)) is None
    plan = plan_room(packer, pair, held, MoveLimits(most_moves=2))
    assert plan is not None
    assert len(plan.moves) == 2


def test_a_slice_shifts_on_its_device_to_open_a_large_one() -> None:
    mig = DeviceSpec(0, Sharing.SLOTS, memory_mib=80, slots=8, limit=7)
    packer = Packer([NodeSpec(8_000, 0, (mig,))], 1)
    small = packer.number(Shape(0, 0, 1, {0: Ask(142, 10, slots=(1, 2, 4, 8, 16, 32, 64))}))
    large = packer.number(Shape(0, 0, 1, {0: Ask(571, 40, slots=(0b1111,))}))
    held = _hold(packer, Placement(small, 0, (0,), (1,)))
    plan = plan_room(packer, large, held)
    assert plan is not None
    assert plan.moves[0].target.slots[0] & 0b1111 == 0


def test_a_node_is_emptied_onto_nodes_in_use_only() -> None:
    packer = Packer([_node(2), _node(2), _node(2)], 1)
    part = packer.number(_part(500))
    held = _hold(packer, Placement(part, 0, (0,), (0,)), Placement(part, 1, (2,), (0,)))
    plan = plan_emptying(packer, held[0], most_moves=2)
    assert plan is not None
    assert [move.target.node for move in plan.moves] == [1]
    packer.give_back(held[1][0].placement)
    assert plan_emptying(packer, held[0], most_moves=2) is None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.lists(st.sampled_from([200, 400, 500, 700]), min_size=1, max_size=10),
    st.sampled_from([500, 1000]),
    st.integers(1, 3),
)
def test_every_plan_can_be_carried_out(
    gpus: list[int], parts: list[int], wanted: int, most_moves: int
) -> None:
    nodes = [_node(count) for count in gpus]
    packer, referee = Packer(nodes, 1), Referee(nodes)
    held: dict[int, list[Held]] = {}
    for key, milli in enumerate(parts):
        place = packer.choose(packer.number(_part(milli)))
        if place is not None:
            packer.take(place)
            referee.take(_part(milli), place)
            held.setdefault(place.node, []).append(Held(key, place, 1.0 + key % 3))
    shape = packer.number(_part(wanted))
    before = packer.ground.copy()
    plan = plan_room(packer, shape, held, MoveLimits(most_moves=most_moves))
    assert all(np.array_equal(a, b) for a, b in zip(before, packer.ground, strict=True))
    if plan is not None:
        _carry_out(plan, packer, referee, most_moves)


def _carry_out(plan: MovePlan, packer: Packer, referee: Referee, most_moves: int) -> None:
    assert len(plan.moves) <= most_moves
    shapes = packer.table.shapes
    for move in plan.moves:
        referee.give_back(shapes[move.source.shape], move.source)
    assert plan.opened is not None
    referee.take(shapes[plan.opened.shape], plan.opened)
    for move in plan.moves:
        referee.take(shapes[move.target.shape], move.target)
