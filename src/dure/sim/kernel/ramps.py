"""Made runs of a service whose load ramps, steps, wanders or stays, beside a job on a GPU.

All of it is drawn from the seed: length and kernels of a request, its usual load and its target,
the neighbour's kernels, when the change begins, and whether the service reports its latencies or
only its bursts are seen. The usual load is one that is served in time; three times as much is
not, unless others make room.
"""

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from dure.domain.catalogue import accelerator
from dure.domain.ids import TenantId
from dure.domain.risks import WeightsBy
from dure.domain.tenant import Goal, LatencySlo, Slo, Tenant, TenantClass
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.sim.kernel.load import (
    Arrivals,
    ClosedLoop,
    KernelSpec,
    LoadChange,
    Program,
    TenantLoad,
    changing_poisson,
)
from dure.sim.kernel.modes import Mode
from dure.sim.kernel.physics import Physics
from dure.sim.kernel.run import Outcome, Setting
from dure.sim.kernel.solo import solo_request_ns

SERVICE = TenantId("service")
FACTOR = 3.0
RAMP_NS = 30 * NS_PER_S
AFTER_NS = 40 * NS_PER_S
"""How long the load stays where it came to."""
WINDOW_NS = 10 * NS_PER_S
"""Attainment is judged over this long."""
LOOK_NS = NS_PER_S // 2
"""And this often."""
_QUIET_NS = (20 * NS_PER_S, 30 * NS_PER_S)
_STEADY_NS = 120 * NS_PER_S
_REQUEST_MS = (2.0, 4.0)
_REQUEST_KERNELS = (8, 17)
_USUAL_LOAD = (0.17, 0.2)
_TARGET_OF_REQUEST = (8.0, 9.5)
_JOB_KERNEL_OF_REQUEST = (0.08, 0.15)
_JOB_KERNELS = (20, 60)
_WANDER = 0.25
_WANDER_STEP_NS = 4 * NS_PER_S


class Shape(Enum):
    """How the load goes."""

    RAMP = "ramp"
    STEP = "step"
    STEADY = "steady"
    WANDERING = "wandering"
    """Up and down by a quarter within seconds, to nowhere."""


@dataclass(frozen=True, slots=True)
class Ramp:
    """A made run and when its load begins to change."""

    seed: int
    shape: Shape
    setting: Setting
    start_ns: int
    target_ns: int
    reports: bool


def make_ramp(seed: int, shape: Shape) -> Ramp:
    """The run of a seed."""
    rng = np.random.default_rng(seed)
    request_ms = float(rng.uniform(*_REQUEST_MS))
    service = _program(rng, "service", int(rng.integers(*_REQUEST_KERNELS)), request_ms, graph=True)
    kernel_ms = request_ms * float(rng.uniform(*_JOB_KERNEL_OF_REQUEST))
    kernels = int(rng.integers(*_JOB_KERNELS))
    job = _program(rng, "job", kernels, kernels * kernel_ms, graph=False)
    alone_ns = solo_request_ns(service, 1, Physics())
    rate = float(rng.uniform(*_USUAL_LOAD)) * NS_PER_S / alone_ns
    target_ns = round(float(rng.uniform(*_TARGET_OF_REQUEST)) * alone_ns)
    reports = bool(rng.random() < 0.5)
    start_ns = int(rng.integers(*_QUIET_NS))
    changes, end_ns = _changes(rng, shape, start_ns)
    at_ns = changing_poisson(rng, rate_per_s=rate, changes=changes, start_ns=0, end_ns=end_ns)
    tenant = Tenant(
        SERVICE,
        tenant_class=TenantClass.GUARANTEED,
        goal=Goal.SLO,
        slo=Slo(latency=LatencySlo(target_ns)),
    )
    work = Arrivals(at_ns, np.ones(len(at_ns), np.int64))
    loads = (
        TenantLoad(tenant, service, work, reports_latency=reports),
        TenantLoad(
            Tenant(TenantId("job"), tenant_class=TenantClass.BEST_EFFORT), job, ClosedLoop(0, 4)
        ),
    )
    setting = Setting(accelerator("h200"), loads, end_ns)
    return Ramp(seed, shape, setting, start_ns, target_ns, reports)


def _changes(
    rng: np.random.Generator, shape: Shape, start_ns: int
) -> tuple[tuple[LoadChange, ...], int]:
    """How the rate moves, and when the run ends."""
    if shape is Shape.STEADY:
        return (), _STEADY_NS
    if shape is Shape.WANDERING:
        factors = rng.uniform(1.0 - _WANDER, 1.0 + _WANDER, _STEADY_NS // _WANDER_STEP_NS)
        return (
            tuple(
                LoadChange(number * _WANDER_STEP_NS, _WANDER_STEP_NS - 1, float(factor))
                for number, factor in enumerate(factors)
            ),
            _STEADY_NS,
        )
    over_ns = RAMP_NS if shape is Shape.RAMP else 0
    return (LoadChange(start_ns, over_ns, FACTOR),), start_ns + over_ns + AFTER_NS


def _program(
    rng: np.random.Generator, name: str, kernels: int, gpu_ms: float, *, graph: bool
) -> Program:
    """Kernels of three lengths that fill the device, bound by arithmetic or in part by memory."""
    width = float(rng.uniform(0.8, 2.0))
    bandwidth = float(rng.uniform(0.3, 0.8))
    mean_ns = gpu_ms * NS_PER_MS / kernels
    kinds = tuple(
        KernelSpec(f"kernel-{number}", round(132 * width * 2), 256, 2, mean_ns * part, bandwidth)
        for number, part in enumerate((0.6, 1.0, 1.4))
    )
    sequence = tuple(number % len(kinds) for number in range(kernels))
    return Program(name, kinds, sequence, graph=graph)


def under(policy: str, weights: WeightsBy) -> Mode:
    """A policy whose weights move by this."""
    return replace(Mode(weights.value, policy), weights=weights)


def violations_ns(outcome: Outcome, allowed_late_share: float) -> NDArray[np.int64]:
    """When attainment of the service over the window before was below its target."""
    promise = outcome.setting.loads[0].tenant.slo.latency
    assert promise is not None
    own = outcome.finished[outcome.finished["tenant"] == 0]
    finish = np.sort(own["finish"].astype(np.int64))
    late = own["finish"].astype(np.int64) - own["arrival"].astype(np.int64) > promise.target_ns
    late_finish = np.sort(own["finish"].astype(np.int64)[late])
    looks = np.arange(WINDOW_NS, outcome.end_ns + 1, LOOK_NS)
    done = _within(finish, looks)
    return looks[_within(late_finish, looks) > allowed_late_share * np.maximum(done, 1)]


def _within(sorted_ns: NDArray[np.int64], looks: NDArray[np.int64]) -> NDArray[np.int64]:
    before = np.searchsorted(sorted_ns, looks - WINDOW_NS, side="right")
    counted: NDArray[np.int64] = np.searchsorted(sorted_ns, looks, side="right") - before
    return counted
