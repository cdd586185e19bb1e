"""Summing up: what a run meant for each tenant and for the device, ready to print or save."""

import statistics
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.sim.kernel.availability import WINDOW_NS, windows_kept
from dure.sim.kernel.load import ClosedLoop, TenantLoad
from dure.sim.kernel.modes import Mode
from dure.sim.kernel.run import Outcome, Setting, run


@dataclass(frozen=True, slots=True)
class Alone:
    """How a tenant fares with the device to itself: what sharing is measured against."""

    on_time_share: float
    iterations_per_active_s: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class TenantResult:
    """One tenant in one run. Latency and JCT count from arrival."""

    name: str
    jobs: int
    unfinished: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    mean_ms: float
    throughput_per_s: float
    """Iterations per second over the run."""
    mean_jct_s: float
    """Unfinished jobs count as long as they have waited."""
    slo_attainment: float | None
    """Of all stated promises the worst; None where nothing was promised."""
    throughput_attainment: float | None
    """Share of windows with the promised rate."""
    availability_attainment: float | None
    """Share of windows with demand in which it was available."""
    late_share: float | None
    """Share of requests later than the latency target, unfinished ones included."""
    goodput: float | None
    """Relative to being alone: on-time requests, or iterations per second with work to do."""
    gated_share: float
    longest_hold_ms: float


@dataclass(frozen=True, slots=True)
class ModeResult:
    """One mode: a row of the table."""

    mode: str
    tenants: tuple[TenantResult, ...]
    mean_jct_s: float
    """Over all jobs and requests of all tenants."""
    weighted_goodput: float | None
    jain_index: float | None
    utilisation: float
    bubble_share: float
    protected_idle_share: float
    squads: int
    plans: int
    decision_us_median: float | None
    decision_us_p99: float | None
    prediction_error: float | None
    signals: int
    kernels: int
    kernels_per_wall_s: float
    wall_s: float
    simulated_s: float


def measure_alone(setting: Setting) -> tuple[Alone, ...]:
    """Run every tenant by itself on the same device with the same arrivals."""
    found = []
    for load in setting.loads:
        single = Setting(
            setting.accelerator,
            (load,),
            setting.duration_ns,
            setting.drain_ns,
            setting.physics,
        )
        outcome = run(Mode("alone", side_by_side=False), single)
        jobs = _jobs(outcome, 0)
        found.append(
            Alone(
                on_time_share=1.0 - (_late_share(load, jobs, outcome) or 0.0),
                iterations_per_active_s=_iterations_per_active_s(load, jobs, outcome, 0),
                p99_ms=_percentile(jobs.latency_ns, 99),
            )
        )
    return tuple(found)


def summarise(outcome: Outcome, alone: tuple[Alone, ...] | None = None) -> ModeResult:
    """The figures of one run."""
    loads = outcome.setting.loads
    jobs = [_jobs(outcome, index) for index in range(len(loads))]
    tenants = tuple(
        _tenant(load, jobs[index], outcome, index, alone[index] if alone else None)
        for index, load in enumerate(loads)
    )
    device = outcome.device[0]
    busy = max(float(device["busy_ns"]) * float(device["sms"]), 1.0)
    decisions = [1e6 * seconds for seconds in outcome.decisions_s]
    managed = outcome.mode.policy is not None
    everything = np.concatenate([job.age_ns for job in jobs])
    goodputs = [t.goodput for t in tenants if t.goodput is not None]
    weights = [load.tenant.weight for load in loads]
    return ModeResult(
        mode=outcome.mode.name,
        tenants=tenants,
        mean_jct_s=_mean(everything) / NS_PER_S,
        weighted_goodput=(
            sum(w * g for w, g in zip(weights, goodputs, strict=True)) / sum(weights)
            if alone
            else None
        ),
        jain_index=_jain(goodputs, weights) if alone else None,
        utilisation=float(device["used_sm_ns"]) / (float(device["sms"]) * outcome.end_ns),
        bubble_share=float(device["bubble_sm_ns"]) / busy,
        protected_idle_share=float(device["protected_sm_ns"]) / busy,
        squads=int(device["edges"]),
        plans=len(outcome.plans),
        decision_us_median=statistics.median(decisions) if decisions else None,
        decision_us_p99=float(np.percentile(decisions, 99)) if decisions else None,
        prediction_error=outcome.prediction_error if managed else None,
        signals=len(outcome.signals),
        kernels=int(device["kernels_done"]),
        kernels_per_wall_s=int(device["kernels_done"]) / outcome.wall_s,
        wall_s=outcome.wall_s,
        simulated_s=outcome.end_ns / NS_PER_S,
    )


@dataclass(frozen=True, slots=True)
class _Jobs:
    """A tenant's jobs: those that finished, and how long all of them have been around."""

    arrival_ns: NDArray[np.int64]
    finish_ns: NDArray[np.int64]
    iterations: NDArray[np.int64]
    waiting_since_ns: NDArray[np.int64]
    end_ns: int

    @property
    def latency_ns(self) -> NDArray[np.int64]:
        return self.finish_ns - self.arrival_ns

    @property
    def age_ns(self) -> NDArray[np.int64]:
        return np.concatenate([self.latency_ns, self.end_ns - self.waiting_since_ns])


def _jobs(outcome: Outcome, index: int) -> _Jobs:
    done = outcome.finished[outcome.finished["tenant"] == index]
    work = outcome.setting.loads[index].work
    waiting = np.zeros(0, np.int64)
    if not isinstance(work, ClosedLoop):
        waiting = work.at_ns[len(done) :]
        waiting = waiting[waiting < outcome.end_ns]
    return _Jobs(
        done["arrival"].astype(np.int64),
        done["finish"].astype(np.int64),
        done["iterations"].astype(np.int64),
        waiting,
        outcome.end_ns,
    )


def _tenant(
    load: TenantLoad, jobs: _Jobs, outcome: Outcome, index: int, alone: Alone | None
) -> TenantResult:
    latency = jobs.latency_ns
    record = outcome.tenants[index]
    late = _late_share(load, jobs, outcome)
    present_ns = max(1, min(load.leaves_ns or outcome.end_ns, outcome.end_ns) - load.joins_ns)
    rate = _iterations_per_active_s(load, jobs, outcome, index)
    throughput = _throughput_attainment(load, jobs, present_ns)
    availability = _availability_attainment(load, outcome, index)
    kept = (None if late is None else 1.0 - late, throughput, availability)
    goodput = None
    if alone is not None:
        if late is not None:
            goodput = (1.0 - late) / max(alone.on_time_share, 1e-9)
        else:
            goodput = rate / max(alone.iterations_per_active_s, 1e-9)
    return TenantResult(
        name=load.tenant.id,
        jobs=len(latency),
        unfinished=len(jobs.waiting_since_ns),
        p50_ms=_percentile(latency, 50),
        p95_ms=_percentile(latency, 95),
        p99_ms=_percentile(latency, 99),
        mean_ms=_mean(latency) / NS_PER_MS,
        throughput_per_s=_iterations(record, jobs) * NS_PER_S / present_ns,
        mean_jct_s=_mean(jobs.age_ns) / NS_PER_S,
        slo_attainment=min((part for part in kept if part is not None), default=None),
        throughput_attainment=throughput,
        availability_attainment=availability,
        late_share=late,
        goodput=goodput,
        gated_share=float(record["gated_ns"]) / present_ns,
        longest_hold_ms=int(record["longest_hold_ns"]) / NS_PER_MS,
    )


def _iterations(record: NDArray[np.void], jobs: _Jobs) -> int:
    """Iterations completed, those of the job under way included."""
    under_way = max(0, int(record["iteration"]) - int(record["since_sync"]))
    return int(jobs.iterations.sum()) + (under_way if int(record["iterations"]) else 0)


def _late_share(load: TenantLoad, jobs: _Jobs, outcome: Outcome) -> float | None:
    """Share of requests over the target; one still waiting is late once it waited that long.

    None without a promise, and where no request says anything yet.
    """
    promise = load.tenant.slo.latency
    if promise is None:
        return None
    late = int((jobs.latency_ns > promise.target_ns).sum())
    waiting_late = int((outcome.end_ns - jobs.waiting_since_ns > promise.target_ns).sum())
    total = len(jobs.latency_ns) + waiting_late
    return (late + waiting_late) / total if total else None


def _throughput_attainment(load: TenantLoad, jobs: _Jobs, present_ns: int) -> float | None:
    """Share of windows with the promised rate, a request more or less."""
    promise = load.tenant.slo.throughput
    if promise is None:
        return None
    windows = max(1, present_ns // promise.window_ns)
    number = (jobs.finish_ns - load.joins_ns) // promise.window_ns
    counts = np.bincount(number[number < windows], minlength=windows)
    wanted = promise.items_per_s * promise.window_ns / NS_PER_S
    return float((counts >= wanted - 1.0).mean())


def _availability_attainment(load: TenantLoad, outcome: Outcome, index: int) -> float | None:
    """Share of one-second windows with demand in which it got its floor and was not held long."""
    if load.tenant.slo.availability is None:
        return None
    asked, kept = windows_kept(load.tenant, outcome.windows[:, index], WINDOW_NS)
    return kept / asked if asked else 1.0


def _iterations_per_active_s(load: TenantLoad, jobs: _Jobs, outcome: Outcome, index: int) -> float:
    """Iterations per second of the time in which the tenant had a job."""
    iterations = _iterations(outcome.tenants[index], jobs)
    if isinstance(load.work, ClosedLoop):
        active = outcome.end_ns - load.joins_ns
    else:
        starts = np.concatenate([jobs.arrival_ns, jobs.waiting_since_ns])
        ends = np.concatenate([jobs.finish_ns, np.full(len(jobs.waiting_since_ns), outcome.end_ns)])
        active = _covered_ns(starts, ends)
    return iterations * NS_PER_S / max(active, 1)


def _covered_ns(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> int:
    """Length of the union of intervals."""
    if len(starts) == 0:
        return 0
    order = np.argsort(starts)
    starts, ends = starts[order], ends[order]
    reached = np.maximum.accumulate(ends)
    before = np.concatenate([[starts[0]], reached[:-1]])
    return int(np.maximum(0, ends - np.maximum(starts, before)).sum())


def _percentile(latency_ns: NDArray[np.int64], share: float) -> float:
    if len(latency_ns) == 0:
        return 0.0
    return float(np.percentile(latency_ns, share)) / NS_PER_MS


def _mean(values: NDArray[np.int64]) -> float:
    return float(values.mean()) if len(values) else 0.0


def _jain(goodputs: list[float], weights: list[float]) -> float:
    """Jain's index of goodput per weight: 1 is even."""
    shares = np.asarray(goodputs) / np.asarray(weights)
    squares = float((shares**2).sum()) * len(shares)
    return float(shares.sum()) ** 2 / squares if squares > 0 else 1.0
