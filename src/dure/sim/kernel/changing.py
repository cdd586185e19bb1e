"""Made runs whose mix changes: tenants come and go, loads move, and so does what is best.

Everything is drawn from the seed: whether kernels of different tenants may overlap, when the mix
changes, and for each stretch between two changes which of the tenants are there and what they
ask for. Services have a latency target of 2 to 6 times their p99 alone at their highest load,
jobs come one after another or without end. Half of the services report their latencies, of the
others only bursts are seen.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dure.domain.accelerator import AcceleratorProfile
from dure.domain.catalogue import accelerator
from dure.domain.ids import TenantId
from dure.domain.tenant import Goal, LatencySlo, Slo, Tenant, TenantClass
from dure.domain.units import NS_PER_MS, NS_PER_S, NS_PER_US
from dure.sim.kernel.load import (
    Arrivals,
    ClosedLoop,
    Program,
    TenantLoad,
    poisson,
)
from dure.sim.kernel.mixes import make_program
from dure.sim.kernel.results import measure_alone
from dure.sim.kernel.run import Setting

DURATION_NS = 40 * NS_PER_S
_STRETCHES = (2, 3)
_SHORTEST_NS = 10 * NS_PER_S
_SERVICES = (1, 3)
_JOBS = (1, 5)
_SIDE_BY_SIDE = 0.6
"""Share of runs in which kernels of different tenants may overlap."""
_THERE = 0.6
"""How likely a tenant is there in a stretch."""
_SERVICE_LOAD = (0.05, 0.4)
_MOST_SERVICE_LOAD = 0.7
"""Services together never ask for more of the device."""
_REQUEST_MS = (1.0, 8.0)
_REQUEST_KERNEL_US = (60.0, 200.0)
_JOB_KERNEL_US = (150.0, 1500.0)
_JOB_KERNELS = (20.0, 60.0)
_ENDLESS = 0.35
"""Share of job tenants that always have work; the others bring jobs now and then."""
_JOB_LOAD = (0.1, 0.8)
_JOB_MS = (200.0, 3000.0)
_TARGET_OVER_ALONE = (2.0, 6.0)
_WEIGHTS = (1.0, 1.0, 1.0, 2.0)


@dataclass(frozen=True, slots=True)
class Changing:
    """A made run, and when its mix changes."""

    seed: int
    setting: Setting
    side_by_side: bool
    changes_ns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Drawing:
    """What all tenants of a run are drawn with."""

    rng: np.random.Generator
    profile: AcceleratorProfile
    edges_ns: tuple[int, ...]
    """Where stretches begin and end."""

    @property
    def stretches(self) -> int:
        return len(self.edges_ns) - 1

    def span_ns(self, number: int) -> tuple[int, int]:
        return self.edges_ns[number], self.edges_ns[number + 1]


def make_changing(seed: int, *, duration_ns: int = DURATION_NS) -> Changing:
    """The run of a seed."""
    rng = np.random.default_rng((seed, 8))
    side_by_side = bool(rng.random() < _SIDE_BY_SIDE)
    drawing = _Drawing(rng, accelerator("h200"), _edges(rng, duration_ns))
    services = int(rng.integers(_SERVICES[0], _SERVICES[1] + 1))
    jobs = int(rng.integers(_JOBS[0], _JOBS[1] + 1))
    asked = _service_loads(drawing, services)
    loads = [_service(drawing, index, asked[index]) for index in range(services)]
    loads += [_job(drawing, index) for index in range(jobs)]
    setting = Setting(drawing.profile, tuple(loads), duration_ns)
    return Changing(seed, _with_targets(drawing, setting, services), side_by_side, drawing.edges_ns)


def _edges(rng: np.random.Generator, duration_ns: int) -> tuple[int, ...]:
    """Where the mix changes; no stretch is shorter than the shortest."""
    count = int(rng.integers(_STRETCHES[0], _STRETCHES[1] + 1))
    spare = max(0, duration_ns - count * _SHORTEST_NS)
    parts = rng.dirichlet(np.ones(count)) * spare + min(_SHORTEST_NS, duration_ns / count)
    inner = np.cumsum(parts)[:-1].astype(np.int64)
    return (0, *(int(at) for at in inner), duration_ns)


def _service_loads(drawing: _Drawing, services: int) -> NDArray[np.float64]:
    """[service, stretch]: what each asks for of the device; 0: it is not there."""
    rng = drawing.rng
    shape = (services, drawing.stretches)
    asked = rng.uniform(*_SERVICE_LOAD, shape) * (rng.random(shape) < _THERE)
    together = np.maximum(asked.sum(axis=0), 1e-9)
    return np.asarray(asked * np.minimum(1.0, _MOST_SERVICE_LOAD / together))


def _log_uniform(rng: np.random.Generator, least: float, most: float) -> float:
    return float(np.exp(rng.uniform(np.log(least), np.log(most))))


def _service(drawing: _Drawing, index: int, asked: NDArray[np.float64]) -> TenantLoad:
    rng = drawing.rng
    program = make_program(
        rng,
        drawing.profile,
        "service",
        gpu_ns=_log_uniform(rng, *_REQUEST_MS) * NS_PER_MS,
        kernel_ns=_log_uniform(rng, *_REQUEST_KERNEL_US) * NS_PER_US,
        graph=rng.random() < 0.5,
    )
    arrivals = [
        poisson(
            rng,
            rate_per_s=float(asked[number]) * NS_PER_S / program.gpu_ns,
            start_ns=drawing.span_ns(number)[0],
            end_ns=drawing.span_ns(number)[1],
        )
        for number in range(drawing.stretches)
    ]
    at_ns = np.concatenate(arrivals)
    tenant = Tenant(
        TenantId(f"service-{index}"),
        weight=float(rng.choice(_WEIGHTS)),
        tenant_class=TenantClass.GUARANTEED,
        goal=Goal.SLO,
    )
    work = Arrivals(at_ns, np.ones(len(at_ns), np.int64))
    return TenantLoad(tenant, program, work, reports_latency=bool(rng.random() < 0.5))


def _job(drawing: _Drawing, index: int) -> TenantLoad:
    """A tenant that joins at the begin of a stretch and leaves at the end of a later one."""
    rng = drawing.rng
    kernel_ns = _log_uniform(rng, *_JOB_KERNEL_US) * NS_PER_US
    iteration_ns = kernel_ns * float(rng.uniform(*_JOB_KERNELS))
    program = make_program(
        rng, drawing.profile, "job", gpu_ns=iteration_ns, kernel_ns=kernel_ns, graph=False
    )
    first = int(rng.integers(0, drawing.stretches)) if index else 0
    last = int(rng.integers(first, drawing.stretches))
    joins_ns, leaves_ns = drawing.edges_ns[first], drawing.edges_ns[last + 1]
    tenant = Tenant(
        TenantId(f"job-{index}"),
        weight=float(rng.choice(_WEIGHTS)),
        tenant_class=TenantClass.BEST_EFFORT,
        goal=Goal.FINISH,
    )
    endless = rng.random() < _ENDLESS
    work = ClosedLoop(0, 4) if endless else _now_and_then(rng, program, joins_ns, leaves_ns)
    return TenantLoad(
        tenant,
        program,
        work,
        joins_ns=joins_ns,
        leaves_ns=leaves_ns if leaves_ns < drawing.edges_ns[-1] else None,
        reports_progress=bool(rng.random() < 0.5) and not endless,
    )


def _now_and_then(
    rng: np.random.Generator, program: Program, joins_ns: int, leaves_ns: int
) -> Arrivals:
    """Jobs of unlike sizes that together ask for a part of the device."""
    span_ns = leaves_ns - joins_ns
    share = float(rng.uniform(*_JOB_LOAD))
    count = max(1, round(share * span_ns / (_log_uniform(rng, *_JOB_MS) * NS_PER_MS)))
    at_ns = np.sort(joins_ns + rng.uniform(0.0, 0.85 * span_ns, count)).astype(np.int64)
    sizes = rng.lognormal(0.0, 0.5, count)
    sizes *= share * span_ns / (sizes.sum() * program.gpu_ns)
    return Arrivals(at_ns, np.maximum(1, np.round(sizes)).astype(np.int64))


def _with_targets(drawing: _Drawing, setting: Setting, services: int) -> Setting:
    """Set each service's target by how it fares alone and by the others' longest kernel."""
    alone = measure_alone(replace(setting, loads=setting.loads[:services]))
    longest_ms = (
        max(load.program.longest_kernel_ns for load in setting.loads[services:]) / NS_PER_MS
    )
    loads = list(setting.loads)
    for index in range(services):
        load = loads[index]
        factor = float(drawing.rng.uniform(*_TARGET_OVER_ALONE))
        request_ms = load.program.gpu_ns / NS_PER_MS
        target_ms = max(factor * alone[index].p99_ms, longest_ms + 2.0 * request_ms)
        slo = Slo(latency=LatencySlo(round(target_ms * NS_PER_MS)))
        loads[index] = replace(load, tenant=replace(load.tenant, slo=slo))
    return replace(setting, loads=tuple(loads))
