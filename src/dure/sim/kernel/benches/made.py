"""Made tenants that are all busy, and what their shims would tell: states for timing and search.

Every tick the ring of each tenant's shim is full, its launches timed in two different companies
of up to four others. That is as varied as the worst tick, and more than twice as much as the
mean one, of the made mixes under a policy (at most 17 samples in 8 companies for 4 tenants).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dure.domain.accelerator import AcceleratorProfile
from dure.domain.events import ReadingsTaken, TenantJoined
from dure.domain.ids import TenantId
from dure.domain.kernel import KernelClass, KernelSignature
from dure.domain.latency import bucket_of
from dure.domain.readings import KernelSample, TenantReading
from dure.domain.tenant import Goal, LatencySlo, Slo, Tenant, TenantClass
from dure.domain.units import NS_PER_MS, NS_PER_US
from dure.kernel.machine import KernelMachine, MachineSettings
from dure.sim.kernel.state import SAMPLES_PER_TENANT
from dure.sim.kernel.world import TICK_NS

_KERNELS = 24
"""Different kernels a made tenant launches."""
_COMPANIES = 2
"""Different companies a tenant's launches of one tick ran in."""
_MOST_COMPANY = 4
_ALONE = 1 / 8
"""Chance that such a company is nobody."""
_SERVICES = 1 / 3


@dataclass(frozen=True, slots=True)
class _Made:
    """One tenant, and how it behaves."""

    tenant: Tenant
    signatures: tuple[KernelSignature, ...]
    solo_ns: tuple[float, ...]
    presence: float
    """Share of time with work."""


class MadeTenants:
    """A population that joins a machine and keeps it busy."""

    def __init__(self, rng: np.random.Generator, profile: AcceleratorProfile, count: int) -> None:
        self._rng = rng
        self._profile = profile
        services = max(1, round(count * _SERVICES))
        self._made = tuple(self._tenant(index, service=index < services) for index in range(count))
        self._ids = tuple(made.tenant.id for made in self._made)
        self._slowdown = 1.0 + rng.lognormal(-0.5, 1.0, (count, count))
        """By how much the column's tenant slows the row's."""

    def machine(self, policy: str) -> KernelMachine:
        """A machine they have all joined."""
        settings = MachineSettings(self._profile, policy, side_by_side=True)
        machine = KernelMachine(settings)
        for made in self._made:
            machine.handle(TenantJoined(0, made.tenant))
        return machine

    def ticks(self, count: int) -> Iterator[ReadingsTaken]:
        """What their shims tell, tick by tick."""
        for number in range(1, count + 1):
            readings = tuple(self._reading(made) for made in self._made)
            samples = [
                sample for index in range(len(self._made)) for sample in self._samples(index)
            ]
            yield ReadingsTaken(number * TICK_NS, readings, tuple(samples))

    def _tenant(self, index: int, *, service: bool) -> _Made:
        rng = self._rng
        typical_ns = float(np.exp(rng.uniform(np.log(10.0), np.log(800.0)))) * NS_PER_US
        target_ns = round(rng.uniform(8.0, 60.0) * NS_PER_MS)
        tenant = Tenant(
            TenantId(f"{'service' if service else 'batch'}-{index}"),
            weight=float(rng.uniform(0.5, 2.0)),
            tenant_class=TenantClass.GUARANTEED if service else TenantClass.BEST_EFFORT,
            goal=Goal.SLO if service else Goal.FINISH,
            slo=Slo(latency=LatencySlo(target_ns)) if service else Slo(),
        )
        return _Made(
            tenant,
            tuple(self._signature(function) for function in range(_KERNELS)),
            tuple(float(ns) for ns in typical_ns * rng.lognormal(0.0, 0.6, _KERNELS)),
            presence=float(rng.uniform(0.2, 0.6)) if service else float(rng.uniform(0.5, 1.0)),
        )

    def _signature(self, function: int) -> KernelSignature:
        rng = self._rng
        resident = int(rng.integers(1, 9))
        wide = rng.random() < 0.5
        width = self._profile.sms * float(rng.uniform(0.5, 6.0) if wide else rng.uniform(0.05, 0.5))
        blocks = max(1, round(width * resident))
        return KernelSignature(function, blocks, 256, resident, bool(rng.random() < 0.5))

    def _reading(self, made: _Made) -> TenantReading:
        rng = self._rng
        busy_ns = int(TICK_NS * min(1.0, made.presence * rng.uniform(0.8, 1.2)))
        gpu_ns = int(busy_ns * rng.uniform(0.1, 0.6))
        bursts = int(rng.integers(1, 8))
        latency_ns = busy_ns / bursts
        return TenantReading(
            tenant=made.tenant.id,
            busy=True,
            launches=int(rng.integers(20, 400)),
            gpu_ns=gpu_ns,
            busy_ns=busy_ns,
            gated_ns=int(busy_ns * rng.uniform(0.0, 0.4)),
            longest_hold_ns=int(rng.uniform(0.0, 3.0) * NS_PER_MS),
            bursts=bursts,
            late=int(rng.random() < 0.02),
            latencies=tuple(
                sorted({bucket_of(latency_ns * factor): 1 for factor in (0.5, 1.0, 1.6)}.items())
            ),
            reported=False,
            burst_gpu_ns=gpu_ns,
            gap_ns=int(rng.uniform(10.0, 400.0) * NS_PER_US),
            longest_kernel_ns=int(max(made.solo_ns)),
            memory_bytes=0,
            memory_peak_bytes=0,
            running=KernelClass(int(rng.integers(len(KernelClass)))),
        )

    def _samples(self, index: int) -> list[KernelSample]:
        """A full ring of timed launches, summed over like conditions as the shim's reader does."""
        rng, made = self._rng, self._made[index]
        companies = [self._company(index) for _ in range(_COMPANIES)]
        found: dict[tuple[int, tuple[int, ...]], list[float]] = {}
        for launch in range(SAMPLES_PER_TENANT):
            company = companies[launch * _COMPANIES // SAMPLES_PER_TENANT]
            kernel = int(rng.integers(_KERNELS))
            slowdown = 1.0 + sum(self._slowdown[index, other] - 1.0 for other in company)
            took_ns = made.solo_ns[kernel] * slowdown * float(rng.lognormal(0.0, 0.1))
            found.setdefault((kernel, company), []).append(took_ns)
        return [
            KernelSample(
                tenant=made.tenant.id,
                signature=made.signatures[kernel],
                launches=len(took),
                total_ns=max(1, int(sum(took))),
                sms=self._profile.sms,
                company=tuple(self._ids[other] for other in company),
            )
            for (kernel, company), took in found.items()
        ]

    def _company(self, index: int) -> tuple[int, ...]:
        rng = self._rng
        others = [other for other in range(len(self._made)) if other != index]
        if not others or rng.random() < _ALONE:
            return ()
        size = int(rng.integers(1, min(_MOST_COMPANY, len(others)) + 1))
        return tuple(sorted(int(other) for other in rng.permutation(others)[:size]))
