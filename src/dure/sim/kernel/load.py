"""What tenants run: kernels, the order they are launched in, and when work arrives."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dure.domain.accelerator import AcceleratorProfile
from dure.domain.kernel import KernelSignature
from dure.domain.tenant import Tenant
from dure.domain.units import NS_PER_S


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One kernel as it behaves alone on the whole device."""

    name: str
    blocks: int
    threads: int
    resident: int
    solo_ns: float
    bandwidth_share: float
    """Share of the device's memory bandwidth it uses while it runs alone."""
    gap_ns: int = 1_000
    """From the end of the kernel before it in its stream to its own start."""
    host_ns: int = 5_000
    """Host time to launch it."""

    @property
    def memory_bound(self) -> bool:
        """Whether bandwidth, not arithmetic, sets its pace."""
        return self.bandwidth_share >= 0.6

    def signature(self, function: int) -> KernelSignature:
        """How the shim identifies it."""
        return KernelSignature(
            function, self.blocks, self.threads, self.resident, self.memory_bound
        )


@dataclass(frozen=True, slots=True)
class Program:
    """A loop over kernels: one pass is an iteration."""

    name: str
    kernels: tuple[KernelSpec, ...]
    sequence: tuple[int, ...]
    graph: bool = False
    """Each iteration is launched as one captured graph."""
    graph_host_ns: int = 8_000
    sync_every: int = 1
    """Iterations between two waits of the host for the device."""

    @property
    def gpu_ns(self) -> float:
        """Device time of one iteration alone, gaps between kernels included."""
        return sum(self.kernels[i].solo_ns + self.kernels[i].gap_ns for i in self.sequence)

    @property
    def longest_kernel_ns(self) -> float:
        return max(kernel.solo_ns for kernel in self.kernels)

    def graph_signature(self, function: int, profile: AcceleratorProfile) -> KernelSignature:
        """A captured graph seen as one kernel of its mean width."""
        total = sum(self.kernels[i].solo_ns for i in self.sequence)
        width = sum(
            self.kernels[i].signature(0).width_sms(profile) * self.kernels[i].solo_ns
            for i in self.sequence
        )
        bound = sum(
            self.kernels[i].bandwidth_share * self.kernels[i].solo_ns for i in self.sequence
        )
        blocks = max(1, round(width / total))
        return KernelSignature(function, blocks, 1024, 1, bound / total >= 0.6)


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """The next iterations start when the last are done, after a pause of the host."""

    think_ns: int = 0
    iterations: int = 1


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Work that comes from outside: sorted arrival times, iterations each."""

    at_ns: NDArray[np.int64]
    iterations: NDArray[np.int64]
    think_ns: int = 0
    """Host time between two waits inside one job."""


def poisson(
    rng: np.random.Generator, *, rate_per_s: float, start_ns: int, end_ns: int
) -> NDArray[np.int64]:
    """Arrival times of independent requests at a mean rate."""
    seconds = max(0, end_ns - start_ns) / NS_PER_S
    count = int(rng.poisson(rate_per_s * seconds))
    offsets = np.sort(rng.uniform(0.0, seconds, count))
    return (start_ns + offsets * NS_PER_S).astype(np.int64)


@dataclass(frozen=True, slots=True)
class LoadChange:
    """From a time on the rate moves evenly, over a while or at once, to a multiple of the first."""

    at_ns: int
    over_ns: int
    factor: float


def changing_poisson(
    rng: np.random.Generator,
    *,
    rate_per_s: float,
    changes: Sequence[LoadChange],
    start_ns: int,
    end_ns: int,
) -> NDArray[np.int64]:
    """Arrival times of independent requests at a mean rate that ramps and steps, in order."""
    times, factors = [float(start_ns)], [1.0]
    for change in changes:
        times += [float(change.at_ns), float(change.at_ns + max(1, change.over_ns))]
        factors += [factors[-1], change.factor]
    times.append(max(times[-1], float(end_ns)))
    factors.append(factors[-1])
    at, rate = np.array(times), np.array(factors) * rate_per_s / NS_PER_S
    expected = np.concatenate([[0.0], np.cumsum(0.5 * (rate[1:] + rate[:-1]) * np.diff(at))])
    count = int(rng.poisson(expected[-1]))
    wanted = np.sort(rng.uniform(0.0, expected[-1], count))
    piece = np.clip(np.searchsorted(expected, wanted, side="right") - 1, 0, len(at) - 2)
    into = wanted - expected[piece]
    slope = (rate[piece + 1] - rate[piece]) / np.maximum(at[piece + 1] - at[piece], 1.0)
    root = np.sqrt(np.maximum(rate[piece] ** 2 + 2.0 * slope * into, 0.0))
    found: NDArray[np.int64] = (
        at[piece] + 2.0 * into / np.maximum(rate[piece] + root, 1e-30)
    ).astype(np.int64)
    return found[found < end_ns]


def periodic(*, period_ns: int, start_ns: int, end_ns: int) -> NDArray[np.int64]:
    """Arrival times at a fixed interval."""
    return np.arange(start_ns, end_ns, period_ns, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class TenantLoad:
    """A tenant and the work it brings."""

    tenant: Tenant
    program: Program
    work: ClosedLoop | Arrivals
    joins_ns: int = 0
    leaves_ns: int | None = None
    reports_latency: bool = False
    """It tells its request latency from arrival; else only bursts are seen."""
    reports_progress: bool = False
    """It tells how far its current job is."""
    memory_bytes: int = 0
    """Device memory it allocates when it joins."""
