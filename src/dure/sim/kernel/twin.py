"""The dry run: what a choice of policy would give from here on, on a model of the present tenants.

From a snapshot every tenant gets a program of its own kernels and a load like that of the last
seconds, and the very machine of the agent decides, with all it has learned. All choices see the
same arrivals. It is a model: what counts is the difference between choices, not the figure.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dure.domain.adaptation import Choice, Foretold
from dure.domain.events import ReadingsTaken
from dure.domain.instructions import PublishPlan
from dure.domain.kernel import KernelProfile
from dure.domain.units import NS_PER_MS, NS_PER_S, NS_PER_US
from dure.kernel.objective import Deeds, score
from dure.kernel.snapshot import Snapshot, TenantSketch, revive
from dure.sim.kernel.availability import WINDOW_NS, windows_kept
from dure.sim.kernel.load import Arrivals, ClosedLoop, KernelSpec, Program, TenantLoad, poisson
from dure.sim.kernel.modes import managed, sharing_of
from dure.sim.kernel.physics import Physics
from dure.sim.kernel.world import TICK_NS, World

HORIZON_NS = 4 * NS_PER_S
_SETTLE_NS = 1_500 * NS_PER_MS
"""What comes first is not counted: patience and company take about so long to follow a switch,
which is little of what follows."""
_ALWAYS_BUSY = 0.95
_MEMORY_BOUND_SHARE = 0.75
_COMPUTE_BOUND_SHARE = 0.25
"""Of bandwidth: the middle of what kernels of either kind use."""
_GRAPH_KERNEL_NS = 100 * NS_PER_US
"""A launch that is a whole request is taken for a graph of kernels about this long."""
_GRAPH_LAUNCHES = 1.5
_FEWEST_RUN_NS = 20 * NS_PER_MS
_UNKNOWN_RUN_NS = 1 * NS_PER_S
_MOST_LAUNCHES = 400
_UNKNOWN = KernelSpec("unknown", 264, 256, 2, 50_000.0, 0.5)


def dry_run(
    snapshot: Snapshot,
    choices: Iterable[Choice],
    *,
    seed: int,
    horizon_ns: int = HORIZON_NS,
) -> tuple[Foretold, ...]:
    """Score each choice on the same load; nothing where nobody asked for anything.

    `horizon_ns` is longer than what is not counted at its begin.
    """
    found = []
    for choice in choices:
        scored = _foretell(snapshot, choice, seed, horizon_ns)
        if scored is not None:
            found.append(Foretold(choice, scored))
    return tuple(found)


def _foretell(snapshot: Snapshot, choice: Choice, seed: int, horizon_ns: int) -> float | None:
    profile = snapshot.settings.accelerator
    rng = np.random.default_rng((seed, 4))
    loads = tuple(twin_load(rng, each, horizon_ns) for each in snapshot.tenants)
    if not loads:
        return None
    mode = managed(choice.policy, side_by_side=snapshot.settings.side_by_side)
    world = World(profile, Physics(), loads, sharing_of(mode, profile, loads))
    machine = revive(snapshot, choice)
    looks: list[NDArray[np.float64]] = []
    for now_ns in range(0, horizon_ns + 1, TICK_NS):
        world.advance(now_ns)
        readings, samples = world.read()
        event = ReadingsTaken(snapshot.now_ns + now_ns, readings, samples)
        for instruction in machine.handle(event):
            if isinstance(instruction, PublishPlan):
                world.publish(instruction.plan)
        if now_ns >= _SETTLE_NS + len(looks) * WINDOW_NS:
            looks.append(world.look())
    looks.append(world.look())
    return score(_deeds(world, loads, np.stack(looks), horizon_ns))


def _deeds(
    world: World, loads: tuple[TenantLoad, ...], looks: NDArray[Any], horizon_ns: int
) -> list[Deeds]:
    """What each tenant wanted and got after the first plans; `looks` at the ends of seconds."""
    done = looks[-1, :, :2] - looks[0, :, :2]
    finished = np.concatenate(world.finished)
    finished = finished[finished["finish"] >= _SETTLE_NS]
    found = []
    for index, load in enumerate(loads):
        own = finished[finished["tenant"] == index]
        requests, late = len(own), 0
        promise = load.tenant.slo.latency
        if promise is not None and isinstance(load.work, Arrivals):
            late = int((own["finish"] - own["arrival"] > promise.target_ns).sum())
            answered = sum(int((part["tenant"] == index).sum()) for part in world.finished)
            waiting = int((horizon_ns - load.work.at_ns[answered:] > promise.target_ns).sum())
            requests, late = requests + waiting, late + waiting
        windows, available = windows_kept(load.tenant, looks[:, index], WINDOW_NS)
        found.append(
            Deeds(
                load.tenant,
                float(horizon_ns - _SETTLE_NS),
                requests=requests,
                late=late,
                bursts=requests,
                work_ns=float(done[index, 0]),
                busy_ns=float(done[index, 1]),
                windows=windows,
                available=available,
            )
        )
    return found


# Tenants like those that were seen


def twin_load(rng: np.random.Generator, sketch: TenantSketch, horizon_ns: int) -> TenantLoad:
    """A tenant like the one that was seen: kernels like its own, a load like that of lately."""
    program = _program(rng, sketch)
    return TenantLoad(
        sketch.track.tenant,
        program,
        _work(rng, sketch, program, horizon_ns),
        reports_latency=sketch.lately.reported,
    )


def _program(rng: np.random.Generator, sketch: TenantSketch) -> Program:
    """An iteration as long as one of its bursts, of kernels as often as they were seen."""
    lately, kernels = sketch.lately, sketch.kernels
    burst_ns = lately.useful_ns / lately.bursts if lately.bursts else sketch.track.burst_ns
    if not kernels:
        count = max(1, min(_MOST_LAUNCHES, round(burst_ns / _UNKNOWN.solo_ns)))
        return Program("unknown", (_UNKNOWN,), (0,) * count)
    launches = lately.launches / lately.bursts if lately.bursts else _GRAPH_LAUNCHES + 1.0
    if launches <= _GRAPH_LAUNCHES and burst_ns > 2 * _GRAPH_KERNEL_NS:
        return _graph(kernels[0], burst_ns)
    specs = tuple(_spec(number, each, lately.pace) for number, each in enumerate(kernels))
    seen = np.array([each.samples for each in kernels], dtype=float)
    mean_ns = float((seen * [spec.solo_ns + spec.gap_ns for spec in specs]).sum() / seen.sum())
    count = max(1, min(_MOST_LAUNCHES, round(burst_ns / mean_ns)))
    order = rng.permutation(_in_proportion(seen, count))
    return Program("seen", specs, tuple(int(number) for number in order))


def _in_proportion(seen: NDArray[Any], count: int) -> NDArray[Any]:
    """So many kernels, each kind as often as it was seen."""
    reached = (np.arange(count) + 0.5) / count
    return np.minimum(np.searchsorted(np.cumsum(seen) / seen.sum(), reached), len(seen) - 1)


def _spec(number: int, seen: KernelProfile, pace: float) -> KernelSpec:
    shape = seen.signature
    return KernelSpec(
        f"kernel-{number}",
        max(1, shape.blocks),
        max(1, shape.threads),
        max(1, shape.resident),
        max(seen.solo_ns * pace, 1_000.0),
        _MEMORY_BOUND_SHARE if shape.memory_bound else _COMPUTE_BOUND_SHARE,
    )


def _graph(seen: KernelProfile, burst_ns: float) -> Program:
    """A captured graph is seen as one launch of its mean width."""
    count = max(1, min(_MOST_LAUNCHES, round(burst_ns / _GRAPH_KERNEL_NS)))
    whole = _spec(0, seen, 1.0)
    part = KernelSpec(
        "part",
        whole.blocks,
        whole.threads,
        whole.resident,
        max(burst_ns / count - whole.gap_ns, 1_000.0),
        whole.bandwidth_share,
    )
    return Program("graph", (part,), (0,) * count, graph=True)


def _work(
    rng: np.random.Generator, sketch: TenantSketch, program: Program, horizon_ns: int
) -> ClosedLoop | Arrivals:
    lately, window_ns = sketch.lately, max(sketch.window_ns, 1.0)
    if sketch.track.serves_requests:
        rate = lately.requests * NS_PER_S / window_ns
        at_ns = poisson(rng, rate_per_s=rate, start_ns=0, end_ns=horizon_ns)
        return Arrivals(at_ns, np.ones(len(at_ns), np.int64))
    if lately.busy_ns >= _ALWAYS_BUSY * window_ns:
        return ClosedLoop(0, 4)
    run_ns = max(sketch.run_ns or _UNKNOWN_RUN_NS, _FEWEST_RUN_NS, program.gpu_ns)
    rate = lately.useful_ns / window_ns * NS_PER_S / run_ns
    at_ns = poisson(rng, rate_per_s=rate, start_ns=0, end_ns=horizon_ns)
    sizes = np.full(len(at_ns), max(1, round(run_ns / program.gpu_ns)), np.int64)
    if sketch.track.busy:
        left = max(1, round(min(sketch.left_ns, horizon_ns) / program.gpu_ns))
        at_ns, sizes = np.append(0, at_ns), np.append(left, sizes)
    return Arrivals(at_ns.astype(np.int64), sizes.astype(np.int64))
