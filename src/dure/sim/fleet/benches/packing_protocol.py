"""One run of the packing protocol: pods arrive in a drawn order until demand is 130 % of capacity.

The pods of the list, in order of name, are shuffled with the seed; then pods drawn from the list
with replacement are appended until their GPU demand is 130 % of the cluster's. They arrive one by
one and stay; a pod that fits on any node is placed, one that fits on none is dropped.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dure.domain.errors import InputError
from dure.fleet.packing.defrag import Held, MoveLimits, MovePlan, plan_room
from dure.fleet.packing.ground import DeviceSpec, NodeSpec, Sharing
from dure.fleet.packing.packer import Packer, Placement
from dure.fleet.packing.shapes import Ask, Shape
from dure.sim.fleet.benches import packing_rules as rules
from dure.sim.fleet.openb import GPU_MILLI, PodShape, PodTrace

Ints = NDArray[np.int64]

DEMAND_SHARE = 1.3
"""GPU demand that arrives, over the capacity there is."""
ESP = "e-sp"
ESP_DEFRAG = "e-sp+defrag"
POLICIES = (*rules.RULES, ESP)

MOVES_PER_ARRIVALS = 0.1
"""With defragmentation: moves that every arriving pod adds to what may be used."""
_LIMITS = MoveLimits(most_moves=2, most_nodes=4)
_RETRY_AFTER = 200
"""Arrivals until room is sought again for a shape for which there was no plan."""
_WARM_UP_ARRIVALS = 40


@dataclass(frozen=True, slots=True)
class PackingRow:
    """What one policy made of one list and seed."""

    policy: str
    trace: str
    seed: int
    allocated_pct: float
    """GPU milli placed over all there are."""
    seconds: float
    """Wall time of all choices, without reading files and compiling."""
    core_seconds: float
    """Time of one core that they took: the wall time where nobody else uses the machine."""
    placed: int
    arrived: int
    moves: int = 0


@dataclass(frozen=True, slots=True)
class _Took:
    """How long a run took."""

    wall_s: float
    core_s: float


class _Watch:
    """Runs from its making."""

    def __init__(self) -> None:
        self._wall, self._core = time.perf_counter(), time.process_time()

    def read(self) -> _Took:
        """The time since."""
        return _Took(time.perf_counter() - self._wall, time.process_time() - self._core)


@dataclass(frozen=True, slots=True)
class Load:
    """A pod list as numbers: shapes, how often each occurs, and the GPU models there are."""

    trace: PodTrace
    shapes: tuple[PodShape, ...]
    models: tuple[str, ...]
    pods: Ints
    """Shape number of each pod, in order of pod name."""

    @property
    def counts(self) -> Ints:
        """How often each shape occurs in the list."""
        counts: Ints = np.bincount(self.pods, minlength=len(self.shapes)).astype(np.int64)
        return counts

    @property
    def gpu_milli(self) -> Ints:
        """GPU demand of each shape."""
        return np.array([shape.total_gpu_milli for shape in self.shapes], dtype=np.int64)


def as_load(trace: PodTrace) -> Load:
    """Number the shapes of a list in the order they are met."""
    numbers: dict[PodShape, int] = {}
    pods = [numbers.setdefault(pod.shape, len(numbers)) for pod in trace.pods]
    if not trace.capacity_milli:
        raise InputError(f"no node of '{trace.name}' has a GPU", "use another node list")
    if not any(shape.total_gpu_milli for shape in numbers):
        raise InputError(f"no pod of '{trace.name}' asks for a GPU", "use another pod list")
    models = sorted({node.model for node in trace.nodes if node.gpus})
    return Load(trace, tuple(numbers), tuple(models), np.array(pods, dtype=np.int64))


def draw_arrivals(load: Load, rng: np.random.Generator) -> Ints:
    """Shape numbers in order of arrival."""
    milli = load.gpu_milli
    shuffled = rng.permutation(load.pods)
    missing = DEMAND_SHARE * load.trace.capacity_milli - milli[shuffled].sum()
    parts = [shuffled]
    while missing > 0:
        more = load.pods[rng.integers(len(load.pods), size=1024)]
        total = np.cumsum(milli[more])
        more = more[: int(np.searchsorted(total, missing)) + 1]
        parts.append(more)
        missing -= milli[more].sum()
    arrivals: Ints = np.concatenate(parts)
    return arrivals


def run_policy(load: Load, policy: str, seed: int) -> PackingRow:
    """One policy on one drawn order; the same order for every policy."""
    rng = np.random.default_rng(seed)
    arrivals = draw_arrivals(load, rng)
    moves = 0
    if policy in rules.RULES:
        nodes, took = _run_rule(load, policy, arrivals, rng)
    elif policy == ESP_DEFRAG:
        nodes, moves, took = _run_defrag(load, arrivals)
    else:
        nodes, took = _run_esp(load, arrivals)
    placed = nodes >= 0
    allocated = int(load.gpu_milli[arrivals[placed]].sum())
    return PackingRow(
        policy=policy,
        trace=load.trace.name,
        seed=seed,
        allocated_pct=100.0 * allocated / load.trace.capacity_milli,
        seconds=took.wall_s,
        core_seconds=took.core_s,
        placed=int(placed.sum()),
        arrived=len(arrivals),
        moves=moves,
    )


def make_packer(load: Load) -> Packer:
    """The cluster of a list as E-SP sees it, expecting the list's shapes as often as they occur."""
    nodes = [
        NodeSpec(
            node.cpu_milli,
            node.memory_mib,
            (
                DeviceSpec(
                    load.models.index(node.model) if node.gpus else 0,
                    Sharing.FRACTION,
                    limit=GPU_MILLI,
                ),
            )
            * node.gpus,
        )
        for node in load.trace.nodes
    ]
    packer = Packer(nodes, len(load.models))
    numbers = [packer.number(_shape(shape, load.models)) for shape in load.shapes]
    packer.expect(dict(zip(numbers, map(float, load.counts), strict=True)))
    return packer


def shape_numbers(load: Load, packer: Packer) -> Ints:
    """The packer's number of each shape; those that accept every model by name are one."""
    return np.array(
        [packer.number(_shape(shape, load.models)) for shape in load.shapes], dtype=np.int64
    )


def _shape(shape: PodShape, models: Sequence[str]) -> Shape:
    accepted = shape.models or models
    ask = Ask(compute_milli=shape.gpu_milli)
    return Shape(
        cpu_milli=shape.cpu_milli,
        host_mib=shape.memory_mib,
        devices=shape.gpus,
        asks={models.index(name): ask for name in accepted} if shape.gpus else {},
    )


def _run_esp(load: Load, arrivals: Ints) -> tuple[Ints, _Took]:
    warm = make_packer(load)
    warm.place_in_turn(shape_numbers(load, warm)[arrivals[:_WARM_UP_ARRIVALS]])
    watch = _Watch()
    packer = make_packer(load)
    nodes = packer.place_in_turn(shape_numbers(load, packer)[arrivals])
    return nodes, watch.read()


def _run_rule(
    load: Load, policy: str, arrivals: Ints, rng: np.random.Generator
) -> tuple[Ints, _Took]:
    draws = rng.random((len(arrivals), 2))
    pods = rules.pod_columns(load.shapes, load.models)
    typical = rules.typical_pods(pods, load.counts)

    def run(some: Ints) -> Ints:
        cluster = rules.cluster_columns(load.trace.nodes, load.models)
        return rules.place_all(cluster, pods, some, rules.RULES[policy], typical, draws)

    run(arrivals[:_WARM_UP_ARRIVALS])
    watch = _Watch()
    nodes = run(arrivals)
    return nodes, watch.read()


@dataclass(slots=True)
class _Tidying:
    """A packer that moves a few pods where one would not fit."""

    packer: Packer
    held: dict[int, list[Held]] = field(default_factory=dict)
    """By node."""
    moves: int = 0
    hopeless_until: dict[int, int] = field(default_factory=dict)
    """By shape: the arrival before which no plan is sought again."""

    def arrive(self, pod: int, shape: int) -> int:
        """Place a pod, with moves where they are needed and allowed; its node or -1."""
        place = self.packer.choose(shape)
        if place is None:
            plan = self._plan(pod, shape)
            if plan is None or plan.opened is None:
                return -1
            self._move(plan)
            place = plan.opened
        self._put(pod, place)
        return place.node

    def _plan(self, pod: int, shape: int) -> MovePlan | None:
        left = int(MOVES_PER_ARRIVALS * pod) - self.moves
        if left < _LIMITS.most_moves or pod < self.hopeless_until.get(shape, 0):
            return None
        plan = plan_room(self.packer, shape, self.held, _LIMITS)
        if plan is None:
            self.hopeless_until[shape] = pod + _RETRY_AFTER
        return plan

    def _move(self, plan: MovePlan) -> None:
        for move in plan.moves:
            self.packer.give_back(move.source)
            stay = [each for each in self.held[move.source.node] if each.key != move.key]
            self.held[move.source.node] = stay
        if plan.opened is not None:
            self.packer.take(plan.opened)
        for move in plan.moves:
            self._put(move.key, move.target)
        if plan.opened is not None:
            self.packer.give_back(plan.opened)
        self.moves += len(plan.moves)

    def _put(self, pod: int, place: Placement) -> None:
        self.packer.take(place)
        shape = self.packer.table.shapes[place.shape]
        gpu = sum(ask.compute_milli for ask in list(shape.asks.values())[:1]) * shape.devices
        held = Held(pod, place, 1.0 + gpu / GPU_MILLI)
        self.held.setdefault(place.node, []).append(held)


def _run_defrag(load: Load, arrivals: Ints) -> tuple[Ints, int, _Took]:
    tidying = _Tidying(make_packer(load))
    numbers = shape_numbers(load, tidying.packer)
    _run_esp(load, arrivals[:_WARM_UP_ARRIVALS])
    watch = _Watch()
    nodes = [
        tidying.arrive(pod, int(numbers[arrival])) for pod, arrival in enumerate(arrivals.tolist())
    ]
    took = watch.read()
    return np.array(nodes, dtype=np.int64), tidying.moves, took
