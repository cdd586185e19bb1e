"""Made mixes of tenants: the same for the same seed, from light load to overload.

Two to eight tenants ask together for 0.6 to 1.4 of the device, in kernels of 5 µs to 5 ms.
One third are services with random arrivals and a latency target of 2 to 5 times their p99
alone, never below the longest kernel of the others plus a request; the rest bring finite jobs.
"""

from dataclasses import dataclass, replace

import numpy as np

from dure.domain.accelerator import AcceleratorProfile
from dure.domain.catalogue import accelerator
from dure.domain.ids import TenantId
from dure.domain.tenant import Goal, LatencySlo, Slo, Tenant, TenantClass
from dure.domain.units import NS_PER_MS, NS_PER_S, NS_PER_US
from dure.sim.kernel.load import Arrivals, KernelSpec, Program, TenantLoad, poisson
from dure.sim.kernel.results import measure_alone
from dure.sim.kernel.run import Setting

_SHORTEST_NS, _LONGEST_NS = 5 * NS_PER_US, 5 * NS_PER_MS
_TENANTS = (2, 8)
_DEMAND = (0.6, 1.4)
_TARGET_OVER_ALONE = (2.0, 5.0)
_DURATION_NS = 20 * NS_PER_S
_DRAIN_NS = 60 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Mix:
    """A made setting and what it was made to be."""

    seed: int
    setting: Setting
    demand: float


def make_mix(seed: int, *, gpu: str = "h200", duration_ns: int = _DURATION_NS) -> Mix:
    """The mix of a seed."""
    rng = np.random.default_rng(seed)
    profile = accelerator(gpu)
    count = int(rng.integers(_TENANTS[0], _TENANTS[1] + 1))
    services = max(1, round(count / 3))
    demand = float(rng.uniform(*_DEMAND))
    shares = rng.dirichlet(np.full(count, 3.0)) * demand
    loads = []
    for index in range(count):
        if index < services:
            load = _service(rng, profile, index, float(shares[index]), duration_ns)
        else:
            load = _batch(rng, profile, index, float(shares[index]), duration_ns)
        loads.append(load)
    setting = Setting(profile, tuple(loads), duration_ns, _DRAIN_NS)
    return Mix(seed, _with_targets(rng, setting, services), demand)


def _kernel(
    rng: np.random.Generator, profile: AcceleratorProfile, number: int, scale_ns: float
) -> KernelSpec:
    """A kernel of about a duration: wide or narrow, bound by arithmetic or by memory."""
    solo_ns = float(np.clip(scale_ns * rng.lognormal(0.0, 0.6), _SHORTEST_NS, _LONGEST_NS))
    resident = int(rng.integers(1, 9))
    width = profile.sms * float(rng.choice([rng.uniform(0.05, 0.5), rng.uniform(0.5, 6.0)]))
    memory = rng.random() < 0.5
    return KernelSpec(
        name=f"kernel-{number}",
        blocks=max(1, round(width * resident)),
        threads=256,
        resident=resident,
        solo_ns=solo_ns,
        bandwidth_share=float(rng.uniform(0.6, 0.95) if memory else rng.uniform(0.05, 0.4)),
    )


def make_program(
    rng: np.random.Generator,
    profile: AcceleratorProfile,
    name: str,
    *,
    gpu_ns: float,
    kernel_ns: float,
    graph: bool,
) -> Program:
    """A program of about this much device time an iteration."""
    kinds = tuple(_kernel(rng, profile, number, kernel_ns) for number in range(12))
    sequence: list[int] = []
    total = 0.0
    while total < gpu_ns:
        number = int(rng.integers(len(kinds)))
        sequence.append(number)
        total += kinds[number].solo_ns + kinds[number].gap_ns
    return Program(name, kinds, tuple(sequence), graph=graph)


def _service(
    rng: np.random.Generator,
    profile: AcceleratorProfile,
    index: int,
    share: float,
    duration_ns: int,
) -> TenantLoad:
    gpu_ns = float(np.exp(rng.uniform(np.log(0.5), np.log(10.0)))) * NS_PER_MS
    kernel_ns = float(np.exp(rng.uniform(np.log(5.0), np.log(60.0)))) * NS_PER_US
    program = make_program(
        rng, profile, "service", gpu_ns=gpu_ns, kernel_ns=kernel_ns, graph=rng.random() < 0.5
    )
    at_ns = poisson(
        rng, rate_per_s=share * NS_PER_S / program.gpu_ns, start_ns=0, end_ns=duration_ns
    )
    tenant = Tenant(
        TenantId(f"service-{index}"), tenant_class=TenantClass.GUARANTEED, goal=Goal.SLO
    )
    reports = bool(rng.random() < 0.5)
    work = Arrivals(at_ns, np.ones(len(at_ns), np.int64))
    return TenantLoad(tenant, program, work, reports_latency=reports)


def _batch(
    rng: np.random.Generator,
    profile: AcceleratorProfile,
    index: int,
    share: float,
    duration_ns: int,
) -> TenantLoad:
    kernel_ns = float(np.exp(rng.uniform(np.log(20.0), np.log(1500.0)))) * NS_PER_US
    iteration_ns = kernel_ns * float(rng.uniform(20.0, 60.0))
    program = make_program(
        rng, profile, "batch", gpu_ns=iteration_ns, kernel_ns=kernel_ns, graph=False
    )
    job_ns = float(np.exp(rng.uniform(np.log(100.0), np.log(2000.0)))) * NS_PER_MS
    jobs = max(1, round(share * duration_ns / job_ns))
    at_ns = np.sort(rng.uniform(0.0, 0.8 * duration_ns, jobs)).astype(np.int64)
    sizes = rng.lognormal(0.0, 0.5, jobs)
    sizes *= share * duration_ns / (sizes.sum() * program.gpu_ns)
    work = Arrivals(at_ns, np.maximum(1, np.round(sizes)).astype(np.int64))
    tenant = Tenant(
        TenantId(f"batch-{index}"), tenant_class=TenantClass.BEST_EFFORT, goal=Goal.FINISH
    )
    return TenantLoad(tenant, program, work, reports_progress=bool(rng.random() < 0.5))


def _with_targets(rng: np.random.Generator, setting: Setting, services: int) -> Setting:
    """Set each service's target by how it fares alone and by the others' longest kernel."""
    alone = measure_alone(replace(setting, loads=setting.loads[:services]))
    longest_ms = (
        max(load.program.longest_kernel_ns for load in setting.loads[services:]) / NS_PER_MS
    )
    loads = list(setting.loads)
    for index in range(services):
        load = loads[index]
        factor = float(rng.uniform(*_TARGET_OVER_ALONE))
        request_ms = load.program.gpu_ns / NS_PER_MS
        target_ms = max(factor * alone[index].p99_ms, longest_ms + 2.0 * request_ms)
        slo = Slo(latency=LatencySlo(round(target_ms * NS_PER_MS)))
        loads[index] = replace(load, tenant=replace(load.tenant, slo=slo))
    return replace(setting, loads=tuple(loads))
