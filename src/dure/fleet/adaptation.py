"""What the global stage learns on line: congestion prices, latency sensitivity, locality, carbon.

Congestion prices follow what the assignment finds, damped and bounded. Violated promises make
lateness count more for a while. Weights and data that are used often make places near them worth
more. A carbon budget moves the price of a tonne so that the budget lasts for its period.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dure.domain.fleet.policy import ClassPolicy, CongestionRules, FleetPolicy
from dure.domain.fleet.workloads import Workload, WorkloadKind
from dure.domain.ids import ArtefactId
from dure.fleet.forecasts import Forecaster
from dure.fleet.sites import Floats

HOUR_NS = 3600 * 10**9

MOST_SENSITIVITY = 4.0
"""The most that violated promises multiply the weight of lateness with."""
SENSITIVITY_GAIN = 0.5
"""What a class in full violation adds to the weight per observation."""
SENSITIVITY_HALF_LIFE_NS = 6 * HOUR_NS
"""After which half of that is forgotten."""
MOST_LOCALITY = 3.0
LOCALITY_GAIN = 0.25
"""What each doubling of uses within memory adds to the weight of locality."""
LOCALITY_HALF_LIFE_NS = 24 * HOUR_NS
SLIP_KEEP = 0.9
"""How much of the expected start delay of a site survives a new observation."""
PRICE_HALF_LIFE_NS = HOUR_NS // 2
"""A price that nothing holds up any more halves in this time."""
IDLE_ENOUGH = 0.02
"""Share of idle devices from which on nothing holds a price up."""
_DAY_H = 24
"""Hours of prices to come that are found at once."""
TELLING_SHARE = 0.01
"""Smallest change of a price worth telling, as a share of the device's own."""


@dataclass(slots=True)
class CongestionBook:
    """Congestion prices by site, in currency per device-hour, and what they usually are by hour."""

    now: Floats = field(default_factory=lambda: np.zeros(0))
    """[M]"""
    published: dict[int, float] = field(default_factory=dict)
    seen_ns: int = 0
    usual: Forecaster = field(default_factory=lambda: Forecaster(0))
    """Learns the prices of every hour."""
    _expected: Floats | None = None
    _expected_hour: int = -1

    def resize(self, sites: int) -> None:
        """Rows for sites that joined; new ones are free."""
        if len(self.now) < sites:
            self.now = np.append(self.now, np.zeros(sites - len(self.now)))
            self.usual.grow(sites)
            self._expected = None

    def raise_by(self, missed: Floats, idle: Floats, worth: Floats, rules: CongestionRules) -> None:
        """Go part of the way to the prices at which those who found no room no longer want it.

        `missed` [M] is what they would still gain per device-hour. Where devices are idle they
        were kept out by shape, not by scarcity, and no price helps. `worth` [M] is the price of a
        device-hour by itself: the measure of the largest step.
        """
        if not rules.frozen:
            scarce = np.clip(1.0 - idle / IDLE_ENOUGH, 0.0, 1.0)
            self.now += np.minimum(rules.damping * missed, rules.most_change * worth) * scarce

    def pin(self, pins: Mapping[int, float]) -> None:
        """Hold the price of some sites."""
        for site, price in pins.items():
            self.now[site] = price

    def relax(self, now_ns: int, idle: Floats, rules: CongestionRules) -> None:
        """Let prices fall where devices are idle: `idle` [M] is their share."""
        passed, self.seen_ns = now_ns - self.seen_ns, now_ns
        if passed <= 0 or rules.frozen:
            return
        if self.now.any():
            slack = np.minimum(idle / IDLE_ENOUGH, 1.0)
            self.now *= 0.5 ** (passed / PRICE_HALF_LIFE_NS * slack)
            self.now[self.now < 1e-6] = 0.0
        self.usual.observe(now_ns, self.now)

    def ahead(self, now_ns: int, slots_h: Sequence[int], *, forecast: bool) -> Floats:
        """[M, T]: prices expected at each start slot: now as they are, later as usual then."""
        prices = np.repeat(self.now[:, None], len(slots_h), axis=1)
        if len(slots_h) > 1 and forecast and len(self.now):
            hour = now_ns // HOUR_NS
            stale = self._expected is None or self._expected_hour != hour
            if self._expected is None or stale or self._expected.shape[1] <= slots_h[-1]:
                self._expected = self.usual.ahead(now_ns, max(slots_h[-1], _DAY_H) + 1).mean
                self._expected_hour = hour
            expected = self._expected[:, list(slots_h)]
            later = np.where(np.isfinite(expected), np.maximum(expected, 0.0), prices)
            prices[:, 1:] = later[:, 1:]
        return prices

    def over(self, now_ns: int, hours: int, *, forecast: bool) -> Floats:
        """[M]: mean price expected over the hours that follow."""
        return np.asarray(self.ahead(now_ns, range(hours), forecast=forecast).mean(axis=1))

    def changed(self, worth: Floats) -> list[tuple[int, float]]:
        """Sites whose price moved since it was last told, by a percent of the device's."""
        told = np.array([self.published.get(site, 0.0) for site in range(len(self.now))])
        moved = np.abs(self.now - told) > TELLING_SHARE * np.maximum(worth, 1e-6)
        moved |= (self.now == 0.0) != (told == 0.0)
        news = [(int(site), float(self.now[site])) for site in np.flatnonzero(moved)]
        self.published.update(news)
        return news


@dataclass(slots=True)
class _Fading:
    """A number that halves in a given time."""

    value: float = 0.0
    at_ns: int = 0

    def at(self, now_ns: int, half_life_ns: int) -> float:
        passed = max(0, now_ns - self.at_ns)
        return self.value * math.pow(0.5, passed / half_life_ns)

    def add(self, now_ns: int, half_life_ns: int, amount: float) -> None:
        self.value = self.at(now_ns, half_life_ns) + amount
        self.at_ns = max(self.at_ns, now_ns)


@dataclass(frozen=True, slots=True)
class CarbonOutlook:
    """What is known to be emitted until the end of the period, beside new work."""

    committed_g: float = 0.0
    """By jobs that have a place."""
    base_g_per_h: float = 0.0
    """By services, and by nodes that are powered and empty."""
    telling_per_tonne: float = 2500.0
    """Price at which the grams of a busy device-hour cost as much as the hour itself."""


@dataclass(slots=True)
class CarbonPacer:
    """Moves the price of a tonne so that a budget lasts to the end of its period.

    The price rises without a bound that matters while the present rate would use more than is left,
    and falls while it would not. Where no price helps, because what is left is needed by work that
    is placed or cannot wait, `holding` says that patient work has to wait.
    """

    price_per_tonne: float = 0.0
    seen_ns: int = 0
    used_g: float = 0.0
    holding: bool = False
    _rate_g_per_h: float = 0.0
    _last_g: float = 0.0
    _urgent_g: float = 0.0
    """Expected grams of work without patience that was placed since the last step."""
    _urgent_g_per_h: float = 0.0

    LEAST = 0.02
    """Of the telling price: where the price starts from when the budget first runs short."""
    MOST = 100.0
    """Of the telling price: a gram outweighs any rent; more changes nothing, and would take long
    to come down again."""
    GAIN = 0.2
    """How hard a shortfall of the whole remaining budget pulls, per hour: a fifth of it multiplies
    the price by e within a day. Running work answers no sooner than that."""
    STEP_NS = HOUR_NS
    MEMORY_H = 24.0
    """Grams per hour are averaged over about so long: a day has its own shape."""
    MARGIN = 0.005
    """Part of the budget that is not planned with: half of what it may be missed by."""

    def observe(self, grams: float) -> None:
        """So many grams were emitted."""
        self.used_g += grams

    def placed(self, grams: float) -> None:
        """Work that could not wait was placed, and is expected to emit so much."""
        self._urgent_g += grams

    def new_period(self, now_ns: int) -> None:
        """The budget starts again; prices and rates stay as they are."""
        self.used_g = self._last_g = 0.0
        self.seen_ns = now_ns

    def step(self, now_ns: int, start_ns: int, policy: FleetPolicy, outlook: CarbonOutlook) -> None:
        """Adapt once an hour: the price rises when the rest of the budget will not do."""
        budget = policy.carbon_budget_g
        if budget is None:
            self.holding = False
            return
        since_ns = max(self.seen_ns, start_ns)
        if now_ns - since_ns < self.STEP_NS:
            return
        hours = (now_ns - since_ns) / HOUR_NS
        self._smooth(hours, (now_ns - start_ns) / HOUR_NS)
        self.seen_ns = now_ns
        left_h = max(0.0, (start_ns + policy.period_ns - now_ns) / HOUR_NS)
        room_g = (1.0 - self.MARGIN) * budget - self.used_g
        known_g = outlook.committed_g + outlook.base_g_per_h * left_h
        need_g = max(known_g, self._rate_g_per_h * left_h)
        short = (need_g - room_g) / max(abs(room_g), 0.01 * budget, 1.0)
        factor = math.exp(max(-0.5, min(1.0, self.GAIN * short * hours)))
        least = self.LEAST * outlook.telling_per_tonne
        price = max(self.price_per_tonne, least) * factor
        most = self.MOST * outlook.telling_per_tonne
        self.price_per_tonne = min(most, price) if price > least else 0.0
        self.holding = known_g + self._urgent_g_per_h * left_h > room_g

    def _smooth(self, hours: float, elapsed_h: float) -> None:
        """Bring the rates up to date with what was seen since the last step."""
        # At first a plain mean: what was seen in the first hours is all there is to go by.
        keep = min(math.exp(-hours / self.MEMORY_H), max(0.0, 1.0 - hours / elapsed_h))
        rate, urgent = (self.used_g - self._last_g) / hours, self._urgent_g / hours
        self._rate_g_per_h = keep * self._rate_g_per_h + (1.0 - keep) * rate
        self._urgent_g_per_h = keep * self._urgent_g_per_h + (1.0 - keep) * urgent
        self._last_g, self._urgent_g = self.used_g, 0.0

    def expected_g(self, now_ns: int, start_ns: int, policy: FleetPolicy) -> float:
        """What the whole period will emit at the present rate."""
        left_h = max(0.0, (start_ns + policy.period_ns - now_ns) / HOUR_NS)
        return self.used_g + self._rate_g_per_h * left_h


@dataclass(slots=True)
class Adaptation:
    """Everything that is learnt on line."""

    congestion: CongestionBook = field(default_factory=CongestionBook)
    pacer: CarbonPacer = field(default_factory=CarbonPacer)
    now_ns: int = 0
    _strain: dict[WorkloadKind, _Fading] = field(default_factory=dict)
    _uses: dict[ArtefactId, _Fading] = field(default_factory=dict)
    _slips_h: Floats = field(default_factory=lambda: np.zeros(0))

    def violated(self, kind: WorkloadKind, share: float) -> None:
        """A promise of this class was kept or broken: `share` of the time, or of jobs."""
        if share > 0.0:
            strain = self._strain.setdefault(kind, _Fading())
            strain.add(self.now_ns, SENSITIVITY_HALF_LIFE_NS, SENSITIVITY_GAIN * share)

    def sensitivity(self, kind: WorkloadKind) -> float:
        """Factor on the weight of lateness that violations have earned, from 1."""
        strain = self._strain.get(kind)
        if strain is None:
            return 1.0
        return min(MOST_SENSITIVITY, 1.0 + strain.at(self.now_ns, SENSITIVITY_HALF_LIFE_NS))

    def sla_weight(self, kind: WorkloadKind, policy: FleetPolicy) -> float:
        """Weight of expected penalties of a class."""
        sensitivity = self.sensitivity(kind) if policy.adapt_latency else 1.0
        return policy.of(kind).sla_weight * sensitivity

    def used(self, artefact: ArtefactId) -> None:
        """An artefact was used by a placed workload."""
        uses = self._uses.setdefault(artefact, _Fading())
        uses.add(self.now_ns, LOCALITY_HALF_LIFE_NS, 1.0)

    def locality_weight(self, workload: Workload, rule: ClassPolicy, policy: FleetPolicy) -> float:
        """Weight of transfers that reuse avoids; frequent reuse raises it."""
        if not policy.locality:
            return 0.0
        if not policy.adapt_locality:
            return rule.locality_weight
        wanted = workload.data if workload.weights is None else (workload.weights, *workload.data)
        uses = sum(
            self._uses[each].at(self.now_ns, LOCALITY_HALF_LIFE_NS)
            for each in wanted
            if each in self._uses
        )
        return min(
            MOST_LOCALITY, rule.locality_weight * (1.0 + LOCALITY_GAIN * math.log2(1 + uses))
        )

    def carbon_price(self, rule: ClassPolicy, policy: FleetPolicy) -> float:
        """Price of a tonne that decisions see: the shadow price, or more where a budget asks it."""
        if policy.carbon_budget_g is None:
            return rule.carbon_per_tonne
        return max(rule.carbon_per_tonne, self.pacer.price_per_tonne)

    def slipped(self, site: int, hours: float) -> None:
        """A start at a site came so much later than planned."""
        if site >= len(self._slips_h):
            self._slips_h = np.append(self._slips_h, np.zeros(site + 1 - len(self._slips_h)))
        self._slips_h[site] += (1.0 - SLIP_KEEP) * (max(0.0, hours) - self._slips_h[site])

    def slips_h(self, sites: int) -> Floats:
        """[M]: expected delay of a start beyond its plan."""
        if len(self._slips_h) < sites:
            self._slips_h = np.append(self._slips_h, np.zeros(sites - len(self._slips_h)))
        return self._slips_h[:sites]
