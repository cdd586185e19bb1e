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
from dure.fleet.signals import SignalWeights
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
"""Share of idle devices from which on nothing holds a price up; and share of devices that are
wanted and not there from which on a price rises as fast as it may."""
_DAY_H = 24
"""Hours of prices to come that are found at once."""
TELLING_SHARE = 0.01
"""Smallest change of a price worth telling, as a share of the device's own."""


@dataclass(slots=True)
class CongestionBook:
    """Congestion prices by site, in currency per device-hour, and what they usually are by hour."""

    now: Floats = field(default_factory=lambda: np.zeros(0))
    """[M]"""
    surcharge: Floats | None = None
    """[M]: what signals add to them; None: nothing anywhere."""
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

    def raise_by(
        self, missed: Floats, short: Floats, worth: Floats, rules: CongestionRules
    ) -> None:
        """Go part of the way to the prices at which those who found no room no longer want it.

        `missed` [M] is what they would still gain per device-hour; `short` [M] the devices they
        want beyond those that are idle, as a share of the site: where devices are idle they were
        kept out by shape, not by scarcity, and no price helps; and one small job that finds a
        large site full says little about it. `worth` [M] is the price of a device-hour by itself:
        the measure of the largest step.
        """
        if not rules.frozen:
            scarce = np.clip(short / IDLE_ENOUGH, 0.0, 1.0)
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
        now = self.now if self.surcharge is None else self.now + self.surcharge
        prices = np.repeat(now[:, None], len(slots_h), axis=1)
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
    """What is known to be emitted until the end of the period, beside work to come."""

    committed_g: float = 0.0
    """By jobs that have a place, until they or the period end."""
    base_g_per_h: float = 0.0
    """By services, and by nodes that are powered and empty."""
    placed_g: float = 0.0
    """As committed, but until the jobs end."""
    rate_g_per_h: float = 0.0
    """What placed work and idle nodes should be emitting now."""
    waiting: float = 0.0
    """Work of jobs without a place that fits into the period, in device-hours."""
    telling_per_tonne: float = 2500.0
    """Price at which the grams of a busy device-hour cost as much as the hour itself."""


@dataclass(slots=True)
class _Flow:
    """Amounts per hour, averaged over about `memory_h`; a plain mean until so long has passed."""

    memory_h: float
    per_h: float = 0.0
    _seen: float = 0.0
    _known_h: float = 0.0

    def add(self, amount: float) -> None:
        self._seen += amount

    def step(self, hours: float) -> None:
        # At first a plain mean: what was seen in the first hours is all there is to go by.
        self._known_h += hours
        keep = min(math.exp(-hours / self.memory_h), 1.0 - hours / self._known_h)
        self.per_h = keep * self.per_h + (1.0 - keep) * self._seen / hours
        self._seen = 0.0


@dataclass(slots=True)
class CarbonPacer:
    """Moves the price of a tonne so that a budget lasts to the end of its period.

    Once an hour it projects what the period will emit: what is emitted, what placed work, services
    and idle nodes will add, and what work that waits or is still to come will add if it is placed
    as cleanly as work of late. The price follows the ratio of that to the budget. Where no price
    helps in time, because what is left is about to be taken by work that is placed or cannot wait,
    `holding` says that patient work has to wait.
    """

    price_per_tonne: float = 0.0
    seen_ns: int = 0
    used_g: float = 0.0
    holding: bool = False
    grown: float = 1.0
    """Grams that jobs with a place will emit, as they run now, of those expected when placed."""
    _to_come_g: float = 0.0
    """Expected of the rest of the period, as of the last step."""
    _arrived_ns: int = 0
    """When work last arrived."""
    _work: _Flow = field(default_factory=lambda: _Flow(CarbonPacer.ARRIVALS_H))
    """Device-hours that arrive."""
    _placed: _Flow = field(default_factory=lambda: _Flow(CarbonPacer.PLACES_H))
    """Device-hours that are placed."""
    _placed_g: _Flow = field(default_factory=lambda: _Flow(CarbonPacer.PLACES_H))
    _emitted_g: _Flow = field(default_factory=lambda: _Flow(CarbonPacer.PLACES_H))
    _foretold_g: _Flow = field(default_factory=lambda: _Flow(CarbonPacer.PLACES_H))
    """What should have been emitted by what was placed."""
    _urgent_g: _Flow = field(default_factory=lambda: _Flow(CarbonPacer.PLACES_H))
    """Of these grams, those of work without patience."""

    LEAST = 0.02
    """Of the telling price: where the price starts from when the budget first runs short."""
    MOST = 3.0
    """Of the telling price: a gram outweighs most rents; more moves little work to cleaner places,
    makes promises count for nothing, and takes long to come down again."""
    GAIN = 0.2
    """How hard twice too much pulls, per hour: a tenth too much doubles the price in 35 hours. What
    is placed answers at once, but what tells about it is a mean over a day."""
    MOST_PULL = 3.0
    """Largest share of too much that counts: near its end a projection is all or nothing."""
    MOST_SLACK = 0.5
    """Largest share of too little that counts."""
    STEP_NS = HOUR_NS
    ARRIVALS_H = 96.0
    """Arrivals are averaged over about so long: long jobs are rare and weigh much."""
    PLACES_H = 24.0
    """Grams of placements are averaged over about so long: a day has its own shape."""
    SILENCE_NS = 24 * HOUR_NS
    """When nothing has come for so long, nothing more is expected."""
    MOST_BIAS = 3.0
    """The most that placed work is taken to emit, of what was expected of it."""
    REPORT_H = 1.0
    """Grams are reported by the hour: so much of what was emitted may not be known yet."""
    AHEAD_H = 12.0
    """What urgent work needs for so long is kept for it."""
    MARGIN = 0.005
    """Part of the budget that is not planned with: half of what it may be missed by."""

    def observe(self, grams: float) -> None:
        """So many grams were emitted."""
        self.used_g += grams
        self._emitted_g.add(grams)

    def arrived(self, now_ns: int, work: float) -> None:
        """A job came, with so many device-hours of work."""
        self._arrived_ns = now_ns
        self._work.add(work)

    def placed(self, work: float, grams: float, *, urgent: bool) -> None:
        """So many device-hours of work were placed, and are expected to emit so much."""
        self._placed.add(work)
        self._placed_g.add(grams)
        if urgent:
            self._urgent_g.add(grams)

    def new_period(self, now_ns: int) -> None:
        """The budget starts again; prices and rates stay as they are."""
        self.used_g = 0.0
        self.seen_ns = now_ns

    def due(self, now_ns: int, start_ns: int) -> bool:
        """Whether the price is to be looked at again."""
        return now_ns - max(self.seen_ns, start_ns) >= self.STEP_NS

    def step(self, now_ns: int, start_ns: int, policy: FleetPolicy, outlook: CarbonOutlook) -> None:
        """See whether patient work has to wait; once an hour, adapt the price."""
        budget = policy.carbon_budget_g
        if budget is None:
            self.holding = False
            return
        left_h = max(0.0, (start_ns + policy.period_ns - now_ns) / HOUR_NS)
        room_g = (1.0 - self.MARGIN) * budget - self.used_g
        known_g = self.bias * (outlook.committed_g + outlook.base_g_per_h * left_h)
        known_g += self.unreported_g
        if self.due(now_ns, start_ns):
            hours = (now_ns - max(self.seen_ns, start_ns)) / HOUR_NS
            self.seen_ns = now_ns
            self._foretold_g.add(outlook.rate_g_per_h * hours)
            for flow in self._flows:
                flow.step(hours)
            submissions_ns = policy.period_ns
            if policy.submissions_ns is not None:
                submissions_ns = min(submissions_ns, policy.submissions_ns)
            more_h = max(0.0, (start_ns + submissions_ns - now_ns) / HOUR_NS)
            new_g = outlook.waiting * self._g_per_work
            new_g += self._arrivals_g(now_ns, left_h, more_h, outlook.placed_g)
            self._to_come_g = known_g + self.bias * new_g
            self._move_price(hours, room_g, budget, outlook.telling_per_tonne)
        soon_g = self.bias * self._urgent_g.per_h * min(left_h, self.AHEAD_H)
        self.holding = known_g + soon_g > room_g

    @property
    def _flows(self) -> tuple[_Flow, ...]:
        return (
            self._work,
            self._placed,
            self._placed_g,
            self._urgent_g,
            self._emitted_g,
            self._foretold_g,
        )

    @property
    def unreported_g(self) -> float:
        """Grams that may have been emitted since the last report."""
        return self._emitted_g.per_h * self.REPORT_H

    @property
    def bias(self) -> float:
        """What placed work emits, of what was expected of it: gangs grow, and runs overrun."""
        if self._foretold_g.per_h <= 0.0:
            return 1.0
        return min(self.MOST_BIAS, max(1.0, self._emitted_g.per_h / self._foretold_g.per_h))

    def _move_price(self, hours: float, room_g: float, budget: float, telling: float) -> None:
        ratio = self._to_come_g / max(room_g, 0.001 * budget, 1.0)
        pull = max(-self.MOST_SLACK, min(self.MOST_PULL, ratio - 1.0))
        least, most = self.LEAST * telling, self.MOST * telling
        price = max(self.price_per_tonne, least) * math.exp(self.GAIN * pull * hours)
        self.price_per_tonne = min(most, price) if price > least else 0.0

    @property
    def _g_per_work(self) -> float:
        """Grams of a device-hour as work was placed of late."""
        return self._placed_g.per_h / self._placed.per_h if self._placed.per_h > 0.0 else 0.0

    def _arrivals_g(self, now_ns: int, left_h: float, more_h: float, placed_g: float) -> float:
        """Grams of the period that work still to come, for some hours more, will emit."""
        flow_g_per_h = self._work.per_h * self._g_per_work
        if flow_g_per_h <= 0.0 or more_h <= 0.0 or now_ns - self._arrived_ns > self.SILENCE_NS:
            return 0.0
        # Of who comes late a part lies beyond the period. In a steady flow as much is under way at
        # its end as now, and it thins out as fast as it comes in.
        under_way_h = max(placed_g / flow_g_per_h, 1e-3)
        last, first = math.exp((more_h - left_h) / under_way_h), math.exp(-left_h / under_way_h)
        return flow_g_per_h * max(0.0, more_h - under_way_h * (last - first))

    def expected_g(self) -> float:
        """What the whole period will emit, as of the last step."""
        return self.used_g + self._to_come_g


@dataclass(slots=True)
class Adaptation:
    """Everything that is learnt on line."""

    congestion: CongestionBook = field(default_factory=CongestionBook)
    pacer: CarbonPacer = field(default_factory=CarbonPacer)
    signals: SignalWeights = field(default_factory=SignalWeights)
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
        sensitivity = 1.0
        if policy.adapt_latency:
            sensitivity = self.sensitivity(kind) * self.signals.latency(kind)
        return policy.of(kind).sla_weight * min(MOST_SENSITIVITY, sensitivity)

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
        learnt = rule.locality_weight * (1.0 + LOCALITY_GAIN * math.log2(1 + uses))
        return min(MOST_LOCALITY, learnt * self.signals.locality())

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
