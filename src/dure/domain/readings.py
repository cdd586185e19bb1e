"""What a shim can measure of its tenant, as taken from its counters between two reads."""

from typing import NamedTuple

from dure.domain.ids import TenantId
from dure.domain.kernel import KernelClass, KernelSignature


class TenantReading(NamedTuple):
    """One tenant, since the reading before."""

    tenant: TenantId
    busy: bool
    """Whether it has work now."""
    launches: int
    gpu_ns: int
    """Device time of its finished kernels, by prediction corrected by samples."""
    busy_ns: int
    """Time in which it had work: its bursts, held or not."""
    gated_ns: int
    """Time its threads were held at the gate."""
    longest_hold_ns: int
    bursts: int
    """Bursts that ended."""
    late: int
    """Of those (or of the reported requests), how many missed the latency target."""
    latencies: tuple[tuple[int, int], ...]
    """Latency of bursts (or reported requests): (bucket, count)."""
    reported: bool
    """Whether latencies are the tenant's own, from a request's arrival."""
    burst_gpu_ns: int
    """Device time of the bursts that ended."""
    gap_ns: int
    """Shortest idle gap between two bursts, 0 if there was none."""
    longest_kernel_ns: int
    memory_bytes: int
    memory_peak_bytes: int
    running: KernelClass
    burst_alone_ns: int = 0
    """What those bursts would have taken without company, 0 if unknown."""
    losses: tuple[tuple[int, int], ...] = ()
    """For each burst that ended, the time lost by company in the work without a pause up to there:
    (bucket, count). By no more than that was any request in it later than alone."""


class KernelSample(NamedTuple):
    """Kernels of one tenant that were timed, summed over like conditions."""

    tenant: TenantId
    signature: KernelSignature
    launches: int
    total_ns: int
    sms: int
    """Compute units it was allowed to use."""
    company: tuple[TenantId, ...]
    """Tenants whose kernels were on the device meanwhile."""
