import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.domain.errors import InputError, InvariantError
from dure.fleet.packing.ground import DeviceSpec, NodeSpec, Sharing
from dure.fleet.packing.packer import CONSOLIDATE, Packer, Placement
from dure.fleet.packing.shapes import Ask, Shape, ShapeTable, Together, uniform
from tests.fleet.packing.referee import Referee

PROFILES = 3
MIG_1G = tuple(1 << start for start in range(7))
MIG_2G = (0b11, 0b1100, 0b110000)
MIG_3G = (0b1111, 0b11110000)

DEVICES = st.one_of(
    st.builds(
        DeviceSpec,
        profile=st.just(0),
        sharing=st.sampled_from([Sharing.WHOLE, Sharing.FRACTION, Sharing.QUEUE]),
        memory_mib=st.sampled_from([16, 40]),
        limit=st.integers(1, 4),
        domain=st.integers(0, 1),
    ),
    st.builds(
        DeviceSpec,
        profile=st.integers(1, 2),
        sharing=st.just(Sharing.SLOTS),
        memory_mib=st.just(80),
        slots=st.just(8),
        limit=st.sampled_from([3, 7]),
        domain=st.integers(0, 1),
    ),
)
NODES = st.lists(
    st.builds(
        NodeSpec,
        cpu_milli=st.integers(0, 12).map(lambda cores: cores * 1000),
        host_mib=st.integers(0, 64),
        devices=st.lists(DEVICES, max_size=4).map(tuple),
        zone=st.integers(0, 1),
    ),
    min_size=1,
    max_size=4,
)
ASKS = st.one_of(
    st.builds(
        Ask,
        compute_milli=st.sampled_from([0, 120, 300, 500, 1000]),
        memory_mib=st.sampled_from([0, 5, 10, 20]),
        bandwidth_milli=st.sampled_from([0, 200, 600]),
        slots=st.sampled_from([(), MIG_1G, MIG_2G, MIG_3G]),
    )
)


@st.composite
def _shapes(draw: st.DrawFn) -> Shape:
    devices = draw(st.sampled_from([0, 1, 1, 1, 2, 3]))
    asks = st.dictionaries(st.integers(0, PROFILES - 1), ASKS, min_size=1)
    return Shape(
        cpu_milli=draw(st.sampled_from([0, 500, 3000])),
        host_mib=draw(st.sampled_from([0, 4, 20])),
        devices=devices,
        asks=draw(asks) if devices else {},
        together=draw(st.sampled_from(Together)),
    )


SHAPES = st.lists(_shapes(), min_size=1, max_size=4)


@settings(max_examples=150, deadline=None)
@given(NODES, SHAPES, st.data())
def test_choices_obey_every_limit_and_are_missed_only_where_nothing_fits(
    nodes: list[NodeSpec], shapes: list[Shape], data: st.DataObject
) -> None:
    packer, referee = Packer(nodes, PROFILES), Referee(nodes)
    numbers = [packer.number(shape) for shape in shapes]
    packer.expect(dict.fromkeys(numbers, 1.0))
    held: list[Placement] = []
    for step in data.draw(st.lists(st.integers(0, 99), max_size=16)):
        if step < 20 and held:
            place = held.pop(step % len(held))
            packer.give_back(place)
            referee.give_back(packer.table.shapes[place.shape], place)
            continue
        number = numbers[step % len(numbers)]
        shape = packer.table.shapes[number]
        able = [referee.fits(shape, node) for node in range(len(nodes))]
        chosen = packer.choose(number)
        assert (chosen is not None) == any(able)
        assert packer.fits(number) == any(able)
        if chosen is not None:
            referee.take(shape, chosen)
            packer.take(chosen)
            held.append(chosen)


@settings(max_examples=60, deadline=None)
@given(NODES, SHAPES, st.lists(st.integers(0, 9), max_size=10))
def test_giving_everything_back_restores_the_state_exactly(
    nodes: list[NodeSpec], shapes: list[Shape], order: list[int]
) -> None:
    packer = Packer(nodes, PROFILES)
    numbers = [packer.number(shape) for shape in shapes]
    empty = packer.ground.copy()
    held = []
    for step in order:
        place = packer.choose(numbers[step % len(numbers)])
        if place is not None:
            packer.take(place)
            held.append(place)
    for place in reversed(held):
        packer.give_back(place)
    for before, after in zip(empty, packer.ground, strict=True):
        assert np.array_equal(before, after)


@settings(max_examples=60, deadline=None)
@given(NODES, SHAPES, st.lists(st.integers(0, 9), min_size=1, max_size=6))
def test_what_if_leaves_no_trace_and_judges_as_a_fresh_packer_would(
    nodes: list[NodeSpec], shapes: list[Shape], order: list[int]
) -> None:
    packer, fresh = Packer(nodes, PROFILES), Packer(nodes, PROFILES)
    numbers = [packer.number(shape) for shape in shapes]
    assert numbers == [fresh.number(shape) for shape in shapes]
    for each in (packer, fresh):
        each.expect(dict.fromkeys(numbers, 1.0))
    with packer.what_if():
        for step in order:
            place = packer.choose(numbers[step % len(numbers)])
            if place is not None:
                packer.take(place)
    for number in numbers:
        assert packer.choose(number) == fresh.choose(number)
    assert packer.fragmentation() == pytest.approx(fresh.fragmentation())


@settings(max_examples=60, deadline=None)
@given(NODES, _shapes())
def test_copies_of_a_shape_with_one_device_are_those_that_can_be_placed(
    nodes: list[NodeSpec], shape: Shape
) -> None:
    if shape.devices > 1 or not (shape.cpu_milli or shape.host_mib or shape.devices):
        return
    packer, referee = Packer(nodes, PROFILES), Referee(nodes)
    number = packer.number(shape)
    promised = packer.copies_by_node(number).tolist()
    assert promised == [referee.copies(shape, node) for node in range(len(nodes))]
    for _ in range(packer.copies(number)):
        place = packer.choose(number)
        assert place is not None
        packer.take(place)
    assert packer.choose(number) is None


def _gpu_node(gpus: int = 2, cpu_milli: int = 16_000, domains: int = 1) -> NodeSpec:
    size = max(gpus // domains, 1)
    return NodeSpec(
        cpu_milli,
        65_536,
        tuple(
            DeviceSpec(0, Sharing.FRACTION, limit=48, domain=index // size) for index in range(gpus)
        ),
    )


def _part(milli: int, cpu_milli: int = 1000) -> Shape:
    return Shape(cpu_milli, 0, 1, {0: Ask(milli)})


def test_a_share_goes_where_it_completes_a_device_that_is_open_already() -> None:
    packer = Packer([_gpu_node(), _gpu_node()], 1, CONSOLIDATE)
    half, whole = packer.number(_part(500)), packer.number(_part(1000))
    packer.expect({half: 1.0, whole: 1.0})
    packer.take(Placement(half, 1, (2,), (0,)))
    place = packer.choose(half)
    assert place is not None
    assert place.devices == (2,)


def test_a_shape_without_devices_goes_to_a_node_without_devices() -> None:
    packer = Packer([_gpu_node(), NodeSpec(8_000, 8_192), _gpu_node()], 1)
    packer.expect({packer.number(_part(1000)): 1.0})
    place = packer.choose(packer.number(Shape(4_000, 1_024)))
    assert place is not None
    assert place.node == 1


def test_cpu_is_taken_where_it_feeds_fewest_devices() -> None:
    rich_in_cpu, rich_in_gpus = _gpu_node(2, 64_000), _gpu_node(8, 64_000)
    packer = Packer([rich_in_gpus, rich_in_cpu], 1)
    packer.expect({packer.number(_part(1000, 8_000)): 1.0})
    place = packer.choose(packer.number(Shape(8_000, 0)))
    assert place is not None
    assert place.node == 1


def test_slots_are_placed_so_that_large_slices_still_fit() -> None:
    mig = DeviceSpec(0, Sharing.SLOTS, memory_mib=80, slots=8, limit=7)
    packer = Packer([NodeSpec(64_000, 64_000, (mig,))], 1)
    small = packer.number(Shape(0, 0, 1, {0: Ask(142, 10, slots=MIG_1G)}))
    large = packer.number(Shape(0, 0, 1, {0: Ask(571, 40, slots=(0b1111,))}))
    packer.expect({small: 1.0, large: 5.0})
    place = packer.choose(small)
    assert place is not None
    assert place.slots[0] & 0b1111 == 0
    packer.take(place)
    assert packer.fits(large)


def test_linked_devices_come_from_one_domain_and_leave_the_larger_one_whole() -> None:
    node = NodeSpec(
        64_000, 0, tuple(DeviceSpec(0, domain=0 if index < 2 else 1) for index in range(6))
    )
    packer = Packer([node], 1)
    pair = packer.number(Shape(0, 0, 2, {0: Ask()}, Together.LINKED))
    place = packer.choose(pair)
    assert place is not None
    assert place.devices == (0, 1)


def test_contiguous_devices_come_from_the_shortest_run() -> None:
    packer = Packer([_gpu_node(8)], 1)
    single = packer.number(_part(1000, 0))
    pair = packer.number(Shape(0, 0, 2, {0: Ask()}, Together.CONTIGUOUS))
    packer.take(Placement(single, 0, (4,), (0,)))
    packer.take(Placement(single, 0, (7,), (0,)))
    place = packer.choose(pair)
    assert place is not None
    assert place.devices == (5, 6)


def test_a_contiguous_run_does_not_cross_domains() -> None:
    packer = Packer([_gpu_node(8, domains=2)], 1)
    single = packer.number(_part(1000, 0))
    three = packer.number(Shape(0, 0, 3, {0: Ask()}, Together.CONTIGUOUS))
    packer.take(Placement(single, 0, (0,), (0,)))
    packer.take(Placement(single, 0, (1,), (0,)))
    packer.take(Placement(single, 0, (7,), (0,)))
    place = packer.choose(three)
    assert place is not None
    assert place.devices == (4, 5, 6)
    packer.take(Placement(single, 0, (6,), (0,)))
    assert packer.choose(three) is None


def test_devices_with_equal_room_but_other_limits_are_told_apart() -> None:
    busy, empty = (DeviceSpec(0, Sharing.QUEUE, limit=limit) for limit in (2, 1))
    packer = Packer([NodeSpec(1_000, 0, (busy, empty))], 1)
    turn, whole = packer.number(_part(0, 0)), packer.number(_part(1000, 0))
    packer.expect({whole: 1.0})
    packer.take(Placement(turn, 0, (0,), (0,)))
    place = packer.choose(whole)
    assert place is not None
    assert place.devices == (1,)


def test_closed_and_masked_nodes_take_nothing() -> None:
    packer = Packer([_gpu_node(), _gpu_node()], 1)
    shape = packer.number(_part(1000))
    packer.set_open(0, False)
    place = packer.choose(shape)
    assert place is not None
    assert place.node == 1
    assert packer.choose(shape, np.array([True, False])) is None
    assert packer.copies(shape) == 2


def test_a_mask_is_read_the_same_however_it_lies_in_memory() -> None:
    packer = Packer([_gpu_node()] * 4, 1)
    part = packer.number(_part(500))
    wide = np.array([[False, True], [True, True], [False, True], [True, True]])
    for mask, nodes in ((wide[:, 0], {1, 3}), (wide[::-1, 0], {0, 2})):
        place = packer.choose(part, mask)
        assert place is not None
        assert place.node in nodes
        assert place == packer.choose(part, mask.copy())
        assert place == packer.choose(part, mask.astype(np.int64))


def test_consolidation_keeps_empty_nodes_empty() -> None:
    packer = Packer([_gpu_node(4), _gpu_node(4)], 1, CONSOLIDATE)
    shape = packer.number(_part(1000))
    packer.expect({shape: 1.0})
    for _ in range(4):
        place = packer.choose(shape)
        assert place is not None
        packer.take(place)
    assert sorted(packer.ground.used.tolist()) == [0, 4]


def test_fragmentation_is_the_share_of_free_capacity_nobody_can_use() -> None:
    packer = Packer([_gpu_node(2)], 1)
    whole, part = packer.number(_part(1000)), packer.number(_part(400))
    packer.expect({whole: 1.0, part: 3.0})
    assert packer.fragmentation() == 0.0
    packer.take(Placement(part, 0, (0,), (0,)))
    # 1600 milli are free; whole devices, a quarter of the demand, cannot use 600 of them.
    assert packer.fragmentation() == pytest.approx(0.25 * 600 / 1600)


def test_fragmentation_is_never_less_than_none_whatever_the_weights_round_to() -> None:
    packer = Packer([_gpu_node(8)], 1)
    weights = (0.8444218515250481, 0.7579544029403025, 0.420571580830845)
    packer.expect({packer.number(_part(100 * (n + 1))): w for n, w in enumerate(weights)})
    assert 0.0 <= packer.fragmentation() < 1e-9


def test_a_place_that_is_not_free_is_refused_and_nothing_changes() -> None:
    packer = Packer([_gpu_node(1)], 1)
    shape = packer.number(_part(600))
    place = Placement(shape, 0, (0,), (0,))
    packer.take(place)
    before = packer.ground.copy()
    with pytest.raises(InvariantError, match="not free"):
        packer.take(place)
    assert all(np.array_equal(a, b) for a, b in zip(before, packer.ground, strict=True))


def test_a_copy_goes_its_own_way() -> None:
    packer = Packer([_gpu_node(1)], 1)
    shape = packer.number(_part(1000))
    twin = packer.copy()
    place = twin.choose(shape)
    assert place is not None
    twin.take(place)
    assert twin.choose(shape) is None
    assert packer.choose(shape) == place
    assert twin.number(_part(10)) == 1
    assert len(packer.table) == 1


def test_arrivals_in_turn_are_placed_as_one_by_one() -> None:
    nodes = [_gpu_node(2, 4_000), _gpu_node(1)]
    by_hand, in_turn = Packer(nodes, 1), Packer(nodes, 1)
    for packer in (by_hand, in_turn):
        for milli in (400, 700, 1000):
            packer.number(_part(milli))
        packer.expect({0: 1.0, 1: 1.0, 2: 1.0})
    arrivals = np.array([0, 1, 2, 0, 1, 2, 0, 0, 0], dtype=np.int64)
    expected = []
    for shape in arrivals.tolist():
        place = by_hand.choose(shape)
        expected.append(-1 if place is None else place.node)
        if place is not None:
            by_hand.take(place)
    assert in_turn.place_in_turn(arrivals).tolist() == expected
    assert -1 in expected


def test_equal_shapes_have_one_number() -> None:
    table = ShapeTable(2)
    shape = Shape(1, 2, 1, uniform(0b11, Ask(300)))
    assert table.number(shape) == table.number(Shape(1, 2, 1, {1: Ask(300), 0: Ask(300)})) == 0
    assert table.number(Shape(2, 2, 1, uniform(0b11, Ask(300)))) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Ask(1001),
        lambda: Ask(10, memory_mib=-1),
        lambda: Ask(10, slots=(0,)),
        lambda: Shape(-1),
        lambda: Shape(devices=1),
        lambda: DeviceSpec(0, slots=2),
        lambda: DeviceSpec(0, Sharing.FRACTION, limit=0),
        lambda: NodeSpec(-1, 0),
        lambda: ShapeTable(1).number(Shape(0, 0, 1, {1: Ask()})),
    ],
)
def test_impossible_descriptions_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(InputError):
        make()
