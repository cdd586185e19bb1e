"""A latency promise and what endangers it: load that grows, an allowance that burns.

How late requests would be at another load follows from a queue: random arrivals at one server
that is busy with each for as long as was measured, company and holds included where latencies are
reported. The queue is then fitted to the series as it runs: measured over modelled latency is
learned. Where they are not, it is busy for as long as requests take alone. Load is followed by
lines through windows of several lengths; their uncertainty comes from how much the counts
really scatter and from how steeply this load has swung before without going on, which are
learned too. There is a risk once a line that surely rises gets, within the horizon, to a load
at which the promise fails, or once the load surely is there. A load that has jumped rises by any
line through the jump, for as long as a window remembers: once it has stayed where it came to for a
while it is a level, and no risk unless that level is.
"""

import math
from collections import deque
from dataclasses import dataclass, field, replace

from dure.domain.queueing import late_share, waiting_ns
from dure.domain.readings import TenantReading
from dure.domain.risks import Risk, RiskKind
from dure.domain.tenant import LatencySlo, Tenant
from dure.domain.units import NS_PER_S, format_duration
from dure.telemetry.burn import Burning, BurnPair, BurnRate
from dure.telemetry.lines import Line, fit_line, since_step
from dure.telemetry.requests import BIN_S, RequestBins

HORIZON_S = 20.0
"""How far ahead is looked."""
_WINDOWS_BINS = (12, 20, 32)
"""6, 10 and 16 s: a short one is soon, a long one is sure."""
_LEVEL_BINS = 10
_FEW_REQUESTS = 40
"""In a window, below which nothing is foreseen from it."""
_SURE_SLOPE = 4.0
"""A slope below so many standard errors is scatter: at 7,200 looks an hour in three windows,
3 would be taken for a rise several times an hour."""
_SURE = 0.9
"""Confidence from which on it is a risk."""
_UNLIKELY = 0.5
"""Confidence below which a risk that was raised is withdrawn; in between it stays as it is, else a
level near its limit would be raised and withdrawn by turns."""
_STEP_SURE = 15.0
"""How much better than a line, in variances of a bin, a step explains a window if it is one: the
best of all places for a step fits scatter along a line better by a few."""
_SETTLED_BINS = 6
"""3 s: a load that has stayed so long where a step took it does not go on as it came."""
_SCATTER_STEP = 0.02
_FIT_STEP = 0.1
_FIT_RANGE = (0.5, 4.0)
_FIT_SHARE = 0.95
"""The quantile at which the queue is fitted: near the tail, and known from few requests."""
_SWING_WINDOWS = 6
"""Windows that the memory of swings is long."""
_LIMIT_DEVIATION = 0.1
"""Uncertainty of the load at which the promise fails, as a part of it."""
_NEAR_LIMIT = 0.95
"""Of that load, where it counts as reached: in simulated runs promises failed from there on."""
_BURN_PAIRS = (BurnPair(4, 20, 0.5), BurnPair(10, 40, 1.0))
"""2 s with 10 s, and 5 s with 20 s."""


@dataclass(slots=True)
class _Swings:
    """How steep lines of one window usually are beyond their own uncertainty: squared, per s.

    Learned with a delay of twice the window, so that a rise is not taken for usual while it is
    new.
    """

    bins: int
    variance: float = 0.0
    _seen: int = 0
    _recent: deque[float] = field(default_factory=deque)

    def learn(self, line: Line) -> None:
        """Take in a line."""
        self._recent.append(max(0.0, line.slope_per_s**2 - line.slope_variance))
        if len(self._recent) > 2 * self.bins:
            self._seen += 1
            step = max(1.0 / (_SWING_WINDOWS * self.bins), 1.0 / (self._seen + self.bins))
            self.variance += step * (self._recent.popleft() - self.variance)


@dataclass(slots=True)
class PromiseWatch:
    """Foresees whether one tenant's latency promise will fail."""

    tenant: Tenant
    series: str
    bins: RequestBins = field(default_factory=RequestBins)
    _burn: BurnRate = field(init=False)
    _scatter: float = 1.0
    """Variance of counts over their mean: 1 for independent arrivals."""
    _fit: float = 1.0
    """Measured over modelled latency."""
    settled: bool = False
    """Whether the load has jumped lately and stays at a level that can be served in time."""
    _swings: tuple[_Swings, ...] = field(
        default_factory=lambda: tuple(_Swings(bins) for bins in _WINDOWS_BINS)
    )

    def __post_init__(self) -> None:
        self._burn = BurnRate(self._slo.allowed_late_share, _BURN_PAIRS)

    @property
    def _slo(self) -> LatencySlo:
        assert self.tenant.slo.latency is not None
        return self.tenant.slo.latency

    def observe(self, now_ns: int, reading: TenantReading) -> list[Risk] | None:
        """Count one reading; once a bin is full the risks of the moment, else None."""
        closed = self.bins.add(now_ns, reading)
        if closed is None:
            return None
        burning = self._burn.add(closed.requests, closed.late)
        self._learn()
        found = [self._burning(burning)] if burning is not None else []
        growing = self._growing()
        return [*found, growing] if growing is not None else found

    # Learning

    def _learn(self) -> None:
        rates = self.bins.rates_per_s(_WINDOWS_BINS[0])
        if len(rates) < _WINDOWS_BINS[0] or rates.sum() * BIN_S < _FEW_REQUESTS:
            return
        mean = float(rates.mean())
        line = fit_line(rates[:-1], BIN_S, 1.0)
        # One step ahead, the line's own error adds to that of the count.
        error = (float(rates[-1]) - line.at(BIN_S)) ** 2 * BIN_S / mean
        error /= 1.0 + line.deviation(BIN_S) ** 2
        self._scatter += _SCATTER_STEP * (min(error, 9.0 * self._scatter) - self._scatter)
        steady = since_step(rates, self._variance(mean), _STEP_SURE) == 0
        if self.bins.reported and steady:
            measured = self.bins.quantile_ns(_LEVEL_BINS, _FIT_SHARE)
            modelled = self._model_ns(self._service_ns(), mean, _FIT_SHARE)
            if measured > 0.0 and modelled > 0.0:
                least, most = _FIT_RANGE
                ratio = min(max(measured / modelled, least), most)
                self._fit += _FIT_STEP * (ratio - self._fit)

    def _variance(self, mean_per_s: float) -> float:
        """Of the rate in one bin, at a mean rate."""
        return max(self._scatter, 1.0) * mean_per_s / BIN_S

    def _service_ns(self) -> float:
        if self.bins.reported:
            return self.bins.busy_per_request_ns(_LEVEL_BINS)
        # Beside others it is busy most of the time, also if they yield before a queue gets long.
        return self.bins.alone_per_request_ns(_LEVEL_BINS)

    def _model_ns(self, service_ns: float, rate_per_s: float, share: float) -> float:
        return service_ns + waiting_ns(service_ns, rate_per_s * service_ns / NS_PER_S, share)

    # Foreseeing

    def limit_per_s(self) -> float:
        """The load at which the promise just holds; infinite if nothing is known."""
        service_ns = self._service_ns()
        if service_ns <= 0.0:
            return math.inf
        target_ns = self._slo.target_ns / self._fit
        low, high = 0.0, NS_PER_S / service_ns
        for _ in range(20):
            middle = 0.5 * (low + high)
            late = late_share(service_ns, middle * service_ns / NS_PER_S, target_ns)
            low, high = (low, middle) if late > self._slo.allowed_late_share else (middle, high)
        return 0.5 * (low + high)

    def _growing(self) -> Risk | None:
        limit = self.limit_per_s()
        best = self._standing(limit)
        jumped = False
        for swings in self._swings:
            rates = self.bins.rates_per_s(swings.bins)
            if len(rates) < swings.bins or rates.sum() * BIN_S < _FEW_REQUESTS:
                continue
            variance = self._variance(float(rates.mean()))
            line = fit_line(rates, BIN_S, variance)
            swings.learn(line)
            if since_step(rates, variance, _STEP_SURE) >= _SETTLED_BINS:
                jumped = True
                continue
            line = replace(line, slope_variance=line.slope_variance + swings.variance)
            if line.slope_score < _SURE_SLOPE:
                continue
            sure = line.above(limit, HORIZON_S, _LIMIT_DEVIATION * limit)
            if best is None or sure > best[0]:
                best = (sure, line)
        self.settled = jumped and (best is None or best[0] < _UNLIKELY)
        if best is None or best[0] < _SURE:
            return None
        return self._load_risk(best[0], best[1], limit)

    def _standing(self, limit: float) -> tuple[float, Line] | None:
        """Whether the load is at its limit already, growing or not."""
        rates = self.bins.rates_per_s(_LEVEL_BINS)
        if len(rates) < _LEVEL_BINS or rates.sum() * BIN_S < _FEW_REQUESTS:
            return None
        mean = float(rates.mean())
        line = Line(mean, 0.0, self._variance(mean) / len(rates), 0.0, 0.0)
        return line.above(_NEAR_LIMIT * limit, 0.0), line

    def _load_risk(self, sure: float, line: Line, limit: float) -> Risk:
        service_ns = self._service_ns()
        soon_s = line.reaches_s(limit)
        peak = max(line.at(HORIZON_S), limit)
        growth = f", {line.slope_per_s:.2g} more each second" if line.slope_per_s > 0.0 else ""
        late = late_share(service_ns, peak * service_ns / NS_PER_S, self._slo.target_ns / self._fit)
        return Risk(
            series=self.series,
            kind=RiskKind.LOAD,
            confidence=sure,
            tenant=self.tenant.id,
            violation_in_ns=round(soon_s * NS_PER_S) if soon_s < math.inf else 0,
            shortfall=max(0.0, late - self._slo.allowed_late_share),
            reason=(
                f"{line.level:.0f} requests a second{growth}; beyond {limit:.0f} more than "
                f"{self._slo.allowed_late_share:.2%} of them take longer than "
                f"{format_duration(self._slo.target_ns)}, "
                + (f"in about {soon_s:.0f} s" if 1.0 <= soon_s < math.inf else "which is now")
            ),
        )

    def _burning(self, burning: Burning) -> Risk:
        left = max(0.0, 1.0 - burning.long_rate) * self._slo.allowed_late_share
        soon_s = left / max(burning.late_share, 1e-9) * burning.long_bins * BIN_S
        return Risk(
            series=self.series,
            kind=RiskKind.BURN,
            confidence=1.0 - burning.chance,
            tenant=self.tenant.id,
            violation_in_ns=round(soon_s * NS_PER_S),
            shortfall=max(0.0, burning.late_share - self._slo.allowed_late_share),
            reason=(
                f"{burning.late_share:.1%} of the requests of the last "
                f"{burning.short_bins * BIN_S:g} s took longer than "
                f"{format_duration(self._slo.target_ns)}, {burning.rate:.3g} times what is allowed"
            ),
        )
