"""The packing state of one cluster: choose a place for a shape, take it, give it back."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dure.domain.errors import InvariantError
from dure.fleet.compiled import straight
from dure.fleet.packing.booking import book, judge, judge_all, place_in_turn
from dure.fleet.packing.choosing import choose, evaluate
from dure.fleet.packing.copies import count_copies, node_copies
from dure.fleet.packing.demand import Cache, Demand, Score, Target
from dure.fleet.packing.devices import mask_fits
from dure.fleet.packing.ground import Ground, NodeSpec, lay_out
from dure.fleet.packing.leaving import leaving_opens
from dure.fleet.packing.shapes import WHOLE_MILLI, Asks, Flags, Floats, Ints, Shape, ShapeTable
from dure.fleet.packing.usefulness import fragmentation, free_by_node


@dataclass(frozen=True, slots=True)
class ScoreWeights:
    """How the expected loss of usefulness is weighed; one set for every kind of demand."""

    fits: float = 1.0
    """Weight of free capacity on which at least one more copy of an expected shape fits."""
    copies: float = 1.0
    """Weight of free capacity in the share that CPU and host memory can feed."""
    headroom: float = 0.07
    """Credit, in devices, for each device's fair share of CPU that stays free on the node: the
    CPU of nodes runs down together, and late shapes find many nodes to choose from."""
    opening: float = 0.0
    """Cost, in devices, of waking an empty node."""


EXPECTED_SHARE = 0.99
"""The rarest shapes, up to this share of the capacity asked for, are left out of the expected
demand: they change no choice and cost most of its time."""

FILL = ScoreWeights()
"""Most capacity in use when everything is full."""
CONSOLIDATE = ScoreWeights(headroom=0.0, opening=8.0)
"""Fewest nodes in use: an empty node is opened only where the others would lose a large one."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one instance is or would be."""

    shape: int
    """Number in the shape table."""
    node: int
    devices: tuple[int, ...] = ()
    """Rows of the device matrix; `Packer.ground.first[node]` is the node's first."""
    slots: tuple[int, ...] = ()
    """Slot mask on each device; 0 on a device without slots."""


class _Calls(NamedTuple):
    """Loops that are called often, ready for the types every packer has."""

    book: Callable[[Ground, Demand, Cache, tuple[int, int], Ints, int], None]
    choose: Callable[[Ground, Demand, Cache, int, Flags, Ints], int]
    evaluate: Callable[[Ground, Demand, float, tuple[int, int], Ints], tuple[float, float]]
    node_copies: Callable[[Ground, Demand, int, Ints], None]
    mask_fits: Callable[[Ints, int, Asks, int, int], bool]
    fragmentation: Callable[[Ground, Demand, Cache], float]
    count_copies: Callable[[Ground, Demand, Cache, Ints, Ints], None]
    leaving_opens: Callable[[Ground, Demand, tuple[int, int], Ints, Flags, Flags], None]


class Packer:
    """Free capacity of the nodes of one cluster, and the choice of places in it.

    Every amount is an integer, so giving back what was taken restores the state exactly.
    """

    def __init__(
        self, nodes: Sequence[NodeSpec], profiles: int, weights: ScoreWeights = FILL
    ) -> None:
        self.ground: Ground = lay_out(nodes)
        self._blank = self.ground.copy()
        """The state when nothing runs."""
        self.table = ShapeTable(profiles)
        self.weights = weights
        self._everywhere: Flags = np.ones(len(nodes), dtype=np.bool_)
        devices = max(len(self.ground.devices), 1)
        self._cpu_per_device = max(float(self.ground.cpu.sum()) / devices, 1.0)
        self._most_devices = int(np.diff(self.ground.first).max(initial=0)) + 1
        self._expected: dict[int, float] = {}
        self._demand: Demand | None = None
        self._cache = _empty_cache(len(nodes), 16)
        self._journal: list[tuple[Placement, int]] | None = None
        self._calls = _calls()
        self._scratch: Ints = np.empty((2, self._most_devices), dtype=np.int64)
        """Where a loop leaves the devices and masks it found; read at once."""
        self._single: Ints = np.empty((2, 1), dtype=np.int64)
        """The same for one device that is taken or given back."""
        judge_all(self.ground, self.demand, self._cache)

    # demand -----------------------------------------------------------------------------------

    def number(self, shape: Shape) -> int:
        """The number of a shape, by which every other call names it."""
        known = len(self.table)
        number = self.table.number(shape)
        if number == known:
            self._demand = None
            if number >= len(self._cache.seen):
                self._cache = _grown(self._cache)
        return number

    def expect(self, counts: Mapping[int, float]) -> None:
        """From now on judge by this expected demand: shape number to how often it comes."""
        self._expected = _frequent(self.table.shapes, counts)
        self._demand = None
        judge_all(self.ground, self.demand, self._cache)

    # choices ----------------------------------------------------------------------------------

    def choose(self, shape: int, allowed: Flags | None = None) -> Placement | None:
        """The place that costs the expected demand least; None where the shape fits nowhere."""
        where = self._everywhere if allowed is None else _plain(allowed)
        found = self._scratch
        node = self._calls.choose(self.ground, self.demand, self._cache, shape, where, found)
        return None if node < 0 else self._placement(shape, node, found)

    def place_in_turn(self, arrivals: Ints) -> Ints:
        """Choose and take for a run of shapes; the node of each, -1 where it fitted nowhere."""
        return place_in_turn(self.ground, self.demand, self._cache, arrivals, self._scratch)

    def fits(self, shape: int, allowed: Flags | None = None) -> bool:
        """Whether the shape fits on any open and allowed node."""
        return bool(self.copies_by_node(shape, allowed).any())

    def copies(self, shape: int, allowed: Flags | None = None) -> int:
        """How many instances of this one shape could be placed now."""
        return int(self.copies_by_node(shape, allowed).sum())

    def copies_of(self, shapes: Ints) -> list[int]:
        """The same for several shapes, each alone; nodes that have not changed are not counted."""
        totals = np.empty(len(shapes), dtype=np.int64)
        self._calls.count_copies(self.ground, self.demand, self._cache, shapes, totals)
        counts: list[int] = totals.tolist()
        return counts

    def copies_by_node(self, shape: int, allowed: Flags | None = None) -> Ints:
        """The same for each node."""
        copies = np.empty(len(self.ground.cpu), dtype=np.int64)
        self._calls.node_copies(self.ground, self.demand, shape, copies)
        if allowed is not None:
            copies[~allowed] = 0
        return copies

    def cost(self, shape: int, node: int) -> float:
        """What the shape costs at its best place on that node, in devices; inf: does not fit."""
        useful = float(self._cache.useful[node])
        where = (node, shape)
        return self._calls.evaluate(self.ground, self.demand, useful, where, self._scratch)[0]

    def fits_on(self, shape: int, node: int) -> bool:
        """Whether the shape fits on that node now, be it open or not."""
        return self.cost(shape, node) < np.inf

    def opened_by(
        self, shape: int, node: int, holders: Sequence[Placement], allowed: Flags | None = None
    ) -> list[bool]:
        """Of some that hold places on a node, who could make way for a shape there all alone.

        Each then has a home on an open and allowed node, be it another place on the same one.
        """
        table = np.full((len(holders), 2 * self._most_devices), -1, dtype=np.int64)
        for row, each in enumerate(holders):
            table[row, 0], table[row, 1] = each.shape, len(each.devices)
            for slot, device in enumerate(each.devices):
                table[row, 2 + 2 * slot], table[row, 3 + 2 * slot] = device, each.slots[slot]
        opens = np.empty(len(holders), dtype=np.bool_)
        where = self._everywhere if allowed is None else _plain(allowed)
        self._calls.leaving_opens(self.ground, self.demand, (node, shape), table, where, opens)
        flags: list[bool] = opens.tolist()
        return flags

    def could_hold(self, shape: int) -> Flags:
        """For each node, whether it could hold the shape if nothing else ran on it."""
        copies = np.empty(len(self._blank.cpu), dtype=np.int64)
        self._calls.node_copies(self._blank, self.demand, shape, copies)
        able: Flags = copies > 0
        return able

    # changes ----------------------------------------------------------------------------------

    def take(self, placement: Placement) -> None:
        """Occupy a place; refused, with nothing changed, where it is not free."""
        self._refuse_misfit(placement)
        self._book(placement, 1)

    def take_chosen(self, placement: Placement) -> None:
        """Occupy a place that was chosen just now, or is known to be free: it is not looked at."""
        self._book(placement, 1)

    def give_back(self, placement: Placement) -> None:
        """Free a place that was taken."""
        self._book(placement, -1)

    def set_open(self, node: int, is_open: bool) -> None:
        """Close a node to new instances (drained, powered down, reserved), or open it again."""
        self.ground.open[node] = is_open

    def look_again(self, node: int) -> None:
        """What is free on a node was changed by hand (`dure.fleet.packing.withholding`)."""
        judge(self.ground, self.demand, self._cache, node)

    @property
    def wondering(self) -> bool:
        """Whether what is taken and given back now will be undone."""
        return self._journal is not None

    def what_if(self) -> "_WhatIf":
        """Whatever is taken and given back inside is undone at the end."""
        return _WhatIf(self)

    def copy(self) -> "Packer":
        """An independent packer in the same state."""
        twin = object.__new__(Packer)
        twin.__dict__.update(self.__dict__)
        twin.ground = self.ground.copy()
        twin.table = self.table.copy()
        twin._cache = Cache._make(column.copy() for column in self._cache)
        twin._journal = None
        twin._scratch = self._scratch.copy()
        twin._single = self._single.copy()
        return twin

    # figures ----------------------------------------------------------------------------------

    def fragmentation(self) -> float:
        """Share of the free device capacity that the expected demand cannot use (FGD's F)."""
        # A sum of differences: where there is none, rounding may leave less than nothing.
        return max(0.0, float(self._calls.fragmentation(self.ground, self.demand, self._cache)))

    def free_devices(self) -> Floats:
        """Free worth of each node, in devices."""
        free = np.empty(len(self.ground.cpu))
        free_by_node(self.ground, free)
        return free / WHOLE_MILLI

    @property
    def demand(self) -> Demand:
        """All that is asked and how it is judged, for the compiled loops."""
        if self._demand is None:
            self._demand = self._make_demand()
        return self._demand

    # inner ------------------------------------------------------------------------------------

    def _make_demand(self) -> Demand:
        shapes, asks = self.table.columns()
        wanted = [shape for shape in self._expected if shapes.ask[shape] >= 0]
        wanted.sort(key=lambda shape: (int(shapes.ask[shape]), shape))
        weight = np.array([self._expected[shape] for shape in wanted], dtype=np.float64)
        index = np.array(wanted, dtype=np.int64)
        target = Target(
            ask=shapes.ask[index],
            cpu=shapes.cpu[index],
            host=shapes.host[index],
            per_cpu=_per_unit(shapes.cpu[index]),
            per_host=_per_unit(shapes.host[index]),
            weight=weight / weight.sum() if len(weight) else weight,
            least_compute=int(shapes.least_compute[index].min(initial=WHOLE_MILLI)),
        )
        score = Score(
            float(self.weights.fits),
            float(self.weights.copies),
            float(self.weights.headroom),
            float(self.weights.opening),
            self._cpu_per_device,
        )
        return Demand(shapes, asks, target, score)

    def _placement(self, shape: int, node: int, places: Ints) -> Placement:
        count = self.table.shapes[shape].devices
        if count == 1:
            return Placement(shape, node, (places.item(0, 0),), (places.item(1, 0),))
        devices, slots = places[:, :count].tolist()
        return Placement(shape, node, tuple(devices), tuple(slots))

    def _book(self, placement: Placement, sign: int) -> None:
        if len(placement.devices) == 1:
            places = self._single
            places[0, 0], places[1, 0] = placement.devices[0], placement.slots[0]
        else:
            places = np.array((placement.devices, placement.slots), dtype=np.int64)
        where = (placement.node, placement.shape)
        self._calls.book(self.ground, self.demand, self._cache, where, places, sign)
        if self._journal is not None:
            self._journal.append((placement, sign))

    def _refuse_misfit(self, placement: Placement) -> None:
        node, shape = placement.node, placement.shape
        wanted = self.table.shapes[shape]
        first, end = self.ground.first[node], self.ground.first[node + 1]
        ask = int(self.demand.shapes.ask[shape])
        sound = (
            bool(self.ground.open[node])
            and self.ground.cpu[node] >= wanted.cpu_milli
            and self.ground.host[node] >= wanted.host_mib
            and len(placement.devices) == len(placement.slots) == wanted.devices
            and len(set(placement.devices)) == wanted.devices
            and all(first <= device < end for device in placement.devices)
            and all(
                self._calls.mask_fits(self.ground.devices, device, self.demand.asks, ask, mask)
                for device, mask in zip(placement.devices, placement.slots, strict=True)
            )
        )
        if not sound:
            raise InvariantError(f"{placement} is not free", "choose a place again")


class _WhatIf:
    """The time between a question and its answer."""

    __slots__ = ("_outer", "_packer")

    def __init__(self, packer: Packer) -> None:
        self._packer = packer

    def __enter__(self) -> None:
        packer = self._packer
        self._outer, packer._journal = packer._journal, []

    def __exit__(self, *_: object) -> None:
        packer = self._packer
        journal, packer._journal = packer._journal, None
        for placement, sign in reversed(journal or []):
            packer._book(placement, -sign)
        packer._journal = self._outer


@functools.cache
def _calls() -> _Calls:
    """The types are those of any packer; made from the smallest there is."""
    ground, table = lay_out(()), ShapeTable(1)
    shapes, asks = table.columns()
    none, nothing = np.zeros(0, dtype=np.int64), np.zeros(0)
    target = Target(none, none, none, nothing, nothing, nothing, 0)
    demand = Demand(shapes, asks, target, Score(0.0, 0.0, 0.0, 0.0, 0.0))
    cache, places = _empty_cache(0, 1), np.zeros((2, 0), dtype=np.int64)
    return _Calls(
        book=straight(book, ground, demand, cache, (0, 0), places, 0),
        choose=straight(choose, ground, demand, cache, 0, ground.open, places),
        evaluate=straight(evaluate, ground, demand, 0.0, (0, 0), places),
        node_copies=straight(node_copies, ground, demand, 0, none),
        mask_fits=straight(mask_fits, ground.devices, 0, asks, 0, 0),
        fragmentation=straight(fragmentation, ground, demand, cache),
        count_copies=straight(count_copies, ground, demand, cache, none, none),
        leaving_opens=straight(
            leaving_opens, ground, demand, (0, 0), places, ground.open, ground.open
        ),
    )


def _plain(flags: Flags) -> Flags:
    """The same as the loops need it: contiguous, and really flags."""
    return np.ascontiguousarray(flags, dtype=np.bool_)


def _frequent(shapes: Sequence[Shape], counts: Mapping[int, float]) -> dict[int, float]:
    """The shapes that make up nearly all of the device capacity asked for, the largest first."""
    asked = {shape: count * _devices(shapes[shape]) for shape, count in counts.items() if count > 0}
    enough = EXPECTED_SHARE * sum(asked.values())
    kept: dict[int, float] = {}
    for shape in sorted(asked, key=lambda shape: (-asked[shape], shape)):
        if enough <= 0.0:
            break
        kept[shape] = counts[shape]
        enough -= asked[shape]
    return kept


def _devices(shape: Shape) -> float:
    """Device capacity a shape asks for, where it asks for least."""
    compute = min((max(ask.compute_milli, 1) for ask in shape.asks.values()), default=0)
    return shape.devices * compute / WHOLE_MILLI


def _per_unit(asked: Ints) -> Floats:
    return np.where(asked > 0, 1.0 / np.maximum(asked, 1), np.inf)


def _empty_cache(nodes: int, shapes: int) -> Cache:
    return Cache(
        useful=np.zeros(nodes),
        largest=np.zeros(nodes, dtype=np.int64),
        version=np.zeros(nodes, dtype=np.int64),
        seen=np.full((shapes, nodes), -1, dtype=np.int64),
        score=np.zeros((shapes, nodes)),
        fit=np.zeros((shapes, nodes)),
        counted=np.full((shapes, nodes), -1, dtype=np.int64),
        copies=np.zeros((shapes, nodes), dtype=np.int64),
        weighed=np.full(nodes, -1, dtype=np.int64),
        free=np.zeros(nodes),
        stranded=np.zeros(nodes),
    )


def _grown(cache: Cache) -> Cache:
    more = _empty_cache(len(cache.version), len(cache.seen))
    return cache._replace(
        seen=np.concatenate([cache.seen, more.seen]),
        score=np.concatenate([cache.score, more.score]),
        fit=np.concatenate([cache.fit, more.fit]),
        counted=np.concatenate([cache.counted, more.counted]),
        copies=np.concatenate([cache.copies, more.copies]),
    )
