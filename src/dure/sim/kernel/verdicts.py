"""Judging figures: whether a promise was kept, a queue diverged, and what counts for a tenant."""

from dataclasses import dataclass

import numpy as np

from dure.domain.tenant import Goal
from dure.domain.units import NS_PER_MS
from dure.sim.kernel.load import Arrivals, TenantLoad
from dure.sim.kernel.results import Alone, TenantResult
from dure.sim.kernel.run import Outcome

_FEWEST_FOR_TREND = 12
"""Requests below which a growing wait may be chance."""
_GROWTH = 2.0
"""A queue diverges when the last third of requests waits this much longer than the first."""
_ABOVE_ALONE = 5.0
"""And longer than this many times the p99 the tenant has alone: bursts of arrivals do not."""
_OF_RUN = 0.02
"""And longer than this share of the run: without an end, waits grow with the run itself."""
_WINDOWS_KEPT = 0.99
"""Share of windows in which a throughput promise must hold to count as kept."""


def is_diverging(outcome: Outcome, index: int, alone: Alone) -> bool:
    """Whether a tenant's requests wait longer and longer, so that its figures grow with the run."""
    work = outcome.setting.loads[index].work
    if not isinstance(work, Arrivals):
        return False
    done = outcome.finished[outcome.finished["tenant"] == index]
    arrived = int((work.at_ns < outcome.setting.duration_ns).sum())
    if arrived < _FEWEST_FOR_TREND:
        return False
    if len(done) < arrived / 2:
        return True
    thirds = np.array_split(done["finish"] - done["arrival"], 3)
    first, middle, last = (float(np.mean(third)) for third in thirds)
    long_ns = max(_ABOVE_ALONE * alone.p99_ms * NS_PER_MS, _OF_RUN * outcome.setting.duration_ns)
    return last > _GROWTH * first and last > middle and last > long_ns


def promise_kept(load: TenantLoad, result: TenantResult) -> bool | None:
    """Whether everything the tenant was promised was kept; None where nothing was."""
    slo = load.tenant.slo
    if not slo or result.slo_attainment is None:
        return None
    if slo.latency is not None and result.late_share is not None:
        one_request = 1.0 / max(1, result.jobs + result.unfinished)
        if result.late_share > slo.latency.allowed_late_share + one_request:
            return False
    throughput = result.throughput_attainment
    if throughput is not None and throughput < _WINDOWS_KEPT - 1e-9:
        return False
    if slo.availability is not None and result.availability_attainment is not None:
        return result.availability_attainment >= slo.availability.share - 1e-9
    return True


@dataclass(frozen=True, slots=True)
class Headline:
    """The one figure by which a tenant's owner would judge a mode."""

    label: str
    field: str
    """Of `TenantResult`."""
    less_is_better: bool


_COMPLETION = Headline("JCT s", "mean_jct_s", less_is_better=True)
_THROUGHPUT = Headline("it/s", "throughput_per_s", less_is_better=False)


def headline(load: TenantLoad) -> Headline:
    """Completion time for jobs, latency for requests, throughput for a loop."""
    tenant = load.tenant
    if tenant.slo.latency is not None:
        return latency_headline(load)
    if tenant.slo.throughput is not None or not isinstance(load.work, Arrivals):
        return _THROUGHPUT
    return _COMPLETION if tenant.goal is Goal.FINISH else latency_headline(load)


def latency_headline(load: TenantLoad) -> Headline:
    """The percentile that was promised, as far as it is counted; p99 where none was."""
    promise = load.tenant.slo.latency
    wanted = promise.percentile if promise else 99.0
    counted = next((share for share in (50, 95) if wanted <= share), 99)
    return Headline(f"p{counted} ms", f"p{counted}_ms", less_is_better=True)


def figure_of(result: TenantResult, field: str) -> float | None:
    """A figure of a tenant; None where no request finished to take it from."""
    if result.jobs == 0 and field in ("p50_ms", "p95_ms", "p99_ms", "mean_ms"):
        return None
    value = getattr(result, field)
    return None if value is None else float(value)
