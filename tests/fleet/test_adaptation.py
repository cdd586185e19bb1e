"""What is learnt on line stays bounded, fades, and obeys pins and switches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.domain.fleet.policy import ClassPolicy, CongestionRules, FleetPolicy
from dure.domain.fleet.workloads import WorkloadKind
from dure.domain.ids import ArtefactId
from dure.fleet.adaptation import (
    HOUR_NS,
    MOST_LOCALITY,
    MOST_SENSITIVITY,
    Adaptation,
    CarbonOutlook,
    CarbonPacer,
    CongestionBook,
)
from tests.fleet.factories import job

WORTH = np.array([2.0])
RULES = CongestionRules()


def book(price: float = 0.0) -> CongestionBook:
    found = CongestionBook()
    found.resize(1)
    found.now[0] = price
    return found


def test_one_round_moves_a_price_only_part_of_the_way() -> None:
    prices = book()
    prices.raise_by(np.array([1.0]), np.ones(1), WORTH, RULES)
    assert prices.now[0] == RULES.damping


def test_one_round_never_moves_a_price_by_more_than_the_bound() -> None:
    prices = book()
    prices.raise_by(np.array([1e6]), np.ones(1), WORTH, RULES)
    assert prices.now[0] == RULES.most_change * WORTH[0]


def test_a_price_falls_where_devices_are_idle_and_stays_where_they_are_not() -> None:
    idle, full = book(1.0), book(1.0)
    idle.relax(HOUR_NS, np.ones(1), RULES)
    full.relax(HOUR_NS, np.zeros(1), RULES)
    assert idle.now[0] < 0.5
    assert full.now[0] == 1.0


def test_who_is_kept_out_by_shape_alone_raises_no_price() -> None:
    prices = book()
    prices.raise_by(np.array([1.0]), np.array([-0.5]), WORTH, RULES)
    assert prices.now[0] == 0.0


def test_few_devices_too_few_raise_a_price_less_than_many() -> None:
    few, many = book(), book()
    few.raise_by(np.array([1.0]), np.array([0.001]), WORTH, RULES)
    many.raise_by(np.array([1.0]), np.array([0.1]), WORTH, RULES)
    assert 0.0 < few.now[0] < 0.1 * many.now[0]


@given(st.integers(1, 6), st.floats(0.1, 50.0))
def test_alternating_demand_swings_prices_within_a_bound(period: int, gain: float) -> None:
    """Demand that comes and goes: the price rises to what it is worth and never builds up."""
    prices = book()
    seen = []
    for step in range(200):
        busy = step // period % 2 == 0
        missed = max(0.0, gain - prices.now[0]) if busy else 0.0
        prices.raise_by(np.array([missed]), np.ones(1), WORTH, RULES)
        prices.relax((step + 1) * HOUR_NS // 4, np.array([0.0 if busy else 1.0]), RULES)
        seen.append(float(prices.now[0]))
    later = seen[100:]
    assert 0.0 <= min(later) <= max(later) <= gain
    repeat = 2 * period
    assert np.allclose(later[:repeat], later[repeat : 2 * repeat], atol=0.05 * gain)


def test_frozen_prices_do_not_move_and_pinned_ones_are_as_pinned() -> None:
    prices = book(1.0)
    frozen = CongestionRules(frozen=True)
    prices.raise_by(np.array([1.0]), np.ones(1), WORTH, frozen)
    prices.relax(HOUR_NS, np.ones(1), frozen)
    assert prices.now[0] == 1.0
    prices.pin({0: 3.0})
    assert prices.now[0] == 3.0


def test_prices_are_told_once() -> None:
    prices = book(1.0)
    assert prices.changed(WORTH) == [(0, 1.0)]
    assert prices.changed(WORTH) == []


def test_violations_raise_sensitivity_to_a_bound_and_time_lowers_it() -> None:
    learnt, policy = Adaptation(), FleetPolicy()
    assert learnt.sla_weight(WorkloadKind.SERVING, policy) == 1.0
    for _ in range(100):
        learnt.violated(WorkloadKind.SERVING, 1.0)
    assert learnt.sla_weight(WorkloadKind.SERVING, policy) == MOST_SENSITIVITY
    assert learnt.sla_weight(WorkloadKind.TRAINING, policy) == 1.0
    learnt.now_ns = 100 * HOUR_NS
    assert learnt.sla_weight(WorkloadKind.SERVING, policy) < 1.01
    assert learnt.sla_weight(WorkloadKind.SERVING, FleetPolicy(adapt_latency=False)) == 1.0


def test_frequent_reuse_raises_locality_to_a_bound() -> None:
    learnt, policy, rule = Adaptation(), FleetPolicy(), ClassPolicy()
    wanted = job(weights=ArtefactId("model"))
    before = learnt.locality_weight(wanted, rule, policy)
    learnt.used(ArtefactId("model"))
    once = learnt.locality_weight(wanted, rule, policy)
    for _ in range(10_000):
        learnt.used(ArtefactId("model"))
    assert before == 1.0 < once < learnt.locality_weight(wanted, rule, policy) == MOST_LOCALITY
    assert learnt.locality_weight(wanted, rule, FleetPolicy(locality=False)) == 0.0
    assert learnt.locality_weight(wanted, rule, FleetPolicy(adapt_locality=False)) == 1.0


def emitted(pacer: CarbonPacer, budget_g: float, hours: int) -> float:
    """A fleet that emits less the dearer carbon is, for as long as the budget's period."""
    policy = FleetPolicy(carbon_budget_g=budget_g, period_ns=hours * HOUR_NS)
    for hour in range(1, hours + 1):
        grams = 1000.0 / (1.0 + pacer.price_per_tonne / 100.0) + 200.0
        pacer.arrived(hour * HOUR_NS, 1.0)
        pacer.placed(1.0, grams, urgent=False)
        pacer.observe(grams)
        pacer.step(hour * HOUR_NS, 0, policy, CarbonOutlook(rate_g_per_h=grams))
    return pacer.used_g


def after_two_days(pacer: CarbonPacer, **outlook: float) -> CarbonPacer:
    """Half of a budget of four days is used in two, and work has been coming all the time."""
    policy = FleetPolicy(carbon_budget_g=100_000.0, period_ns=96 * HOUR_NS)
    for hour in range(1, 49):
        pacer.arrived(hour * HOUR_NS, 1.0)
        pacer.placed(1.0, 1000.0, urgent=False)
        pacer.observe(1000.0)
        pacer.step(hour * HOUR_NS, 0, policy, CarbonOutlook(rate_g_per_h=1000.0, **outlook))
    return pacer


def test_work_that_waits_raises_the_price_before_it_has_emitted_anything() -> None:
    assert after_two_days(CarbonPacer()).price_per_tonne == 0.0
    assert after_two_days(CarbonPacer(), waiting=50.0).price_per_tonne > 0.0


def test_work_that_stops_coming_is_no_longer_expected() -> None:
    pacer = after_two_days(CarbonPacer())
    assert pacer.expected_g() == pytest.approx(96_000.0, rel=0.03)
    policy = FleetPolicy(carbon_budget_g=100_000.0, period_ns=96 * HOUR_NS)
    pacer.step(73 * HOUR_NS, 0, policy, CarbonOutlook())
    assert pacer.expected_g() == pytest.approx(48_000.0, rel=0.03)


def test_placed_work_that_emits_more_than_foretold_is_expected_to_go_on_so() -> None:
    pacer = CarbonPacer()
    policy = FleetPolicy(carbon_budget_g=1e9, period_ns=96 * HOUR_NS)
    for hour in range(1, 49):
        pacer.observe(1500.0)
        pacer.step(hour * HOUR_NS, 0, policy, CarbonOutlook(rate_g_per_h=1000.0))
    assert pacer.bias == pytest.approx(1.5)
    pacer.step(49 * HOUR_NS, 0, policy, CarbonOutlook(committed_g=10_000.0, rate_g_per_h=1000.0))
    assert pacer.expected_g() > 48 * 1500.0 + 14_000.0


def test_a_budget_that_can_be_held_is_nearly_met_by_its_price_alone() -> None:
    hours = 744
    budget = 700.0 * hours
    assert abs(emitted(CarbonPacer(), budget, hours) / budget - 1.0) < 0.05


def test_a_budget_that_is_never_short_costs_nothing() -> None:
    pacer = CarbonPacer()
    emitted(pacer, 1e9, 200)
    assert pacer.price_per_tonne == 0.0
