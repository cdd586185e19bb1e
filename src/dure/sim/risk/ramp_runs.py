"""One made ramp, step or quiet load in the kernel simulator: what was seen, when, what it helped.

Detection is judged in the run with frozen weights, where nothing is done about what is seen: so
the violation that was foreseen really comes. What seeing helps is judged against that run.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dure.domain.events import Event, ReadingsTaken
from dure.domain.instructions import Instruction
from dure.domain.readings import TenantReading
from dure.domain.risks import RiskKind, WeightsBy
from dure.domain.tenant import LatencySlo, Slo
from dure.domain.units import NS_PER_S
from dure.sim.kernel.load import Arrivals
from dure.sim.kernel.ramps import SERVICE, Ramp, Shape, make_ramp, under, violations_ns
from dure.sim.kernel.run import Outcome, run
from dure.sim.risk.scoring import Judged, episodes
from dure.telemetry.promise import HORIZON_S
from dure.telemetry.requests import BIN_S, RequestBins

POLICY = "hybrid"
HOLD_S = 10.0
_LATE_S = 5.0
_BUSY_BINS = 4
_TAIL_BINS = 10
_TAIL = 0.95


@dataclass(frozen=True, slots=True)
class Seen:
    """What a plain monitor would show of the service, bin by bin."""

    at_s: tuple[float, ...]
    late_share: tuple[float, ...]
    busy_share: tuple[float, ...]
    tail_of_target: tuple[float, ...]

    def alarms(self, values: Sequence[float], limit: float) -> tuple[float, ...]:
        """When a fixed threshold is first exceeded, again after some quiet."""
        flags = zip(self.at_s, (value > limit for value in values), strict=True)
        return episodes(flags, HOLD_S)


@dataclass(frozen=True, slots=True)
class FrozenRun:
    """A run in which weights stay: the truth, and what each detector saw of it."""

    seed: int
    shape: Shape
    reports: bool
    start_s: float
    length_s: float
    violations_s: tuple[float, ...]
    """Looks at which attainment was below target."""
    risks_s: tuple[float, ...]
    """When a risk was raised, again after some quiet."""
    foretold_s: float | None
    """Time to the violation that the first of them gave."""
    seen: Seen
    job_iterations: int

    @property
    def violations(self) -> int:
        return len(self.violations_s)

    @property
    def first_violation_s(self) -> float | None:
        return self.violations_s[0] if self.violations_s else None

    @property
    def kept_before(self) -> bool:
        """Whether the promise held until the load changed."""
        return self.first_violation_s is None or self.first_violation_s > self.start_s

    @property
    def usable(self) -> bool:
        """Whether it is the case that was to be looked at: kept at first, broken by the change."""
        return self.kept_before and self.first_violation_s is not None

    def judged(self, alarms_s: tuple[float, ...]) -> Judged:
        """Alarms beside the truth: trouble begins when the load changes or, where it does not,
        with a promise that is broken all the same; an alarm shortly before that is right."""
        broken_s = self.first_violation_s
        changes = self.shape in (Shape.RAMP, Shape.STEP)
        return Judged(
            alarms_s,
            onset_s=None if broken_s is None else self.start_s if changes else broken_s,
            violation_s=broken_s,
            length_s=self.length_s,
            early_s=0.0 if changes else HORIZON_S,
        )

    def judged_apart(self, alarms_s: tuple[float, ...], early_s: float) -> list[Judged]:
        """Every stretch up to a violation by itself, where nobody knows when trouble began.

        An alarm up to `early_s` before a violation or `_LATE_S` after its begin saw it, earlier
        ones are false. Stretches shorter than that are one with the trouble before them.
        """
        onsets = episodes(((at, True) for at in self.violations_s), early_s)
        last = {onset: onset for onset in onsets}
        for at in self.violations_s:
            last[max(onset for onset in onsets if onset <= at)] = at
        found, begin = [], 0.0
        for onset in (*onsets, None):
            end = self.length_s if onset is None else onset
            own = tuple(at - begin for at in alarms_s if begin <= at <= end + _LATE_S)
            told = None if onset is None else onset - begin
            found.append(Judged(own, told, told, end - begin, early_s, _LATE_S))
            begin = last[onset] + _LATE_S if onset is not None else end
        return found


@dataclass(frozen=True, slots=True)
class AdaptedRun:
    """The same load with weights that move."""

    seed: int
    weights: WeightsBy
    violations: int
    job_iterations: int
    adaptations: int
    most_weight: float


def run_frozen(item: tuple[int, Shape]) -> FrozenRun:
    """Run a seed's load with frozen weights."""
    ramp = make_ramp(*item)
    return observe_frozen(ramp)


def observe_frozen(ramp: Ramp) -> FrozenRun:
    """Run one made load with frozen weights."""
    taken: list[tuple[int, TenantReading]] = []

    def record(event: Event, _answers: tuple[Instruction, ...]) -> None:
        if isinstance(event, ReadingsTaken):
            taken.extend((event.now_ns, each) for each in event.readings if each.tenant == SERVICE)

    outcome = run(under(POLICY, WeightsBy.FROZEN), ramp.setting, record=record)
    broken = _violations(outcome)
    risks = [(at_ns, risk) for at_ns, risk in outcome.risks if risk.kind is not RiskKind.MEMORY]
    foretold = risks[0][1].violation_in_ns if risks else None
    return FrozenRun(
        seed=ramp.seed,
        shape=ramp.shape,
        reports=ramp.reports,
        start_s=ramp.start_ns / NS_PER_S,
        length_s=outcome.end_ns / NS_PER_S,
        violations_s=tuple((broken / NS_PER_S).tolist()),
        risks_s=episodes(((at_ns / NS_PER_S, True) for at_ns, _ in risks), HOLD_S),
        foretold_s=None if foretold is None else foretold / NS_PER_S,
        seen=_seen(taken, ramp.target_ns),
        job_iterations=_job_iterations(outcome),
    )


def run_adapted(item: tuple[int, Shape, WeightsBy]) -> AdaptedRun:
    """Run a seed's load with weights that move."""
    seed, shape, weights = item
    outcome = run(under(POLICY, weights), make_ramp(seed, shape).setting)
    return AdaptedRun(
        seed=seed,
        weights=weights,
        violations=len(_violations(outcome)),
        job_iterations=_job_iterations(outcome),
        adaptations=len(outcome.adaptations),
        most_weight=max((each.after for _, each in outcome.adaptations), default=1.0),
    )


def _violations(outcome: Outcome) -> NDArray[np.int64]:
    promise = outcome.setting.loads[0].tenant.slo.latency
    assert promise is not None
    return violations_ns(outcome, promise.allowed_late_share)


def _job_iterations(outcome: Outcome) -> int:
    own = outcome.finished[outcome.finished["tenant"] == 1]
    return int(own["iterations"].sum())


def _seen(taken: Sequence[tuple[int, TenantReading]], target_ns: int) -> Seen:
    bins = RequestBins()
    rows: list[tuple[float, float, float, float]] = []
    late: list[tuple[int, int]] = []
    for now_ns, reading in taken:
        closed = bins.add(now_ns, reading)
        if closed is None:
            continue
        late = [*late, (closed.requests, closed.late)][-_BUSY_BINS:]
        requests, missed = (sum(column) for column in zip(*late, strict=True))
        served = bins.requests(_BUSY_BINS)
        busy_ns = bins.busy_per_request_ns(_BUSY_BINS) * served
        rows.append(
            (
                now_ns / NS_PER_S,
                missed / requests if requests else 0.0,
                busy_ns / (min(len(bins), _BUSY_BINS) * BIN_S * NS_PER_S),
                bins.quantile_ns(_TAIL_BINS, _TAIL) / target_ns,
            )
        )
    columns = [tuple(column) for column in zip(*rows, strict=True)] or [(), (), (), ()]
    return Seen(*columns)


Threshold = tuple[str, Callable[[Seen], Sequence[float]], Sequence[float]]

THRESHOLDS: tuple[Threshold, ...] = (
    ("late share of 2 s", lambda seen: seen.late_share, (0.005, 0.01, 0.02, 0.04)),
    ("busy share of 2 s", lambda seen: seen.busy_share, (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9)),
    ("p95 of target, 5 s", lambda seen: seen.tail_of_target, (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)),
)
"""What is set up today: a fixed limit on what is measured. Which limit is chosen on other seeds."""


def with_arrivals(ramp: Ramp, at_ns: NDArray[np.int64], end_ns: int, percentile: float) -> Ramp:
    """The same service and neighbour under other arrivals, promised another percentile."""
    service, job = ramp.setting.loads
    slo = Slo(latency=LatencySlo(ramp.target_ns, percentile))
    work = Arrivals(at_ns, np.ones(len(at_ns), np.int64))
    tenant = replace(service.tenant, slo=slo)
    loads = (replace(service, work=work, tenant=tenant), job)
    return replace(ramp, setting=replace(ramp.setting, loads=loads, duration_ns=end_ns), start_ns=0)


def usable_seeds(runs: Sequence[FrozenRun], wanted: int) -> Iterator[FrozenRun]:
    """The first so many that are the case to be looked at."""
    count = 0
    for each in runs:
        if count < wanted and each.usable:
            count += 1
            yield each
