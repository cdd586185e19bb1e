import pytest

from dure.domain.latency import bucket_of
from dure.domain.readings import TenantReading
from dure.domain.tenant import AvailabilitySlo, LatencySlo, Slo, ThroughputSlo
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.kernel.attainment import Attainment
from tests.kernel.factories import TICK_NS, reading, served, working

LATENCY = Slo(latency=LatencySlo(20 * NS_PER_MS))
RATE = Slo(throughput=ThroughputSlo(100.0))
AVAILABLE = Slo(availability=AvailabilitySlo(0.9, floor_share=0.2, max_hold_ns=50 * NS_PER_MS))


def after(slo: Slo, *readings: TenantReading, ticks: int = 300) -> Attainment:
    """Attainment after these readings, one a tick, over and over."""
    attainment = Attainment(slo)
    for number in range(ticks):
        attainment.learn((number + 1) * TICK_NS, TICK_NS, readings[number % len(readings)])
    return attainment


def test_nothing_promised_is_never_at_risk() -> None:
    attainment = after(Slo(), working("a", longest_hold_ns=10 * NS_PER_S))
    assert not attainment.at_risk()
    assert attainment.shortfall() == 0.0


def test_latencies_well_below_target_are_no_risk() -> None:
    attainment = after(LATENCY, served("a", requests=5, latency_ns=5 * NS_PER_MS))
    assert not attainment.latency_at_risk()
    assert attainment.headroom() == pytest.approx(4.0, rel=0.1)
    assert attainment.latency_ns() == pytest.approx(5 * NS_PER_MS, rel=0.1)


def test_a_percentile_close_to_its_target_is_a_risk_before_anything_is_late() -> None:
    attainment = after(LATENCY, served("a", requests=5, latency_ns=19 * NS_PER_MS))
    assert attainment.on_time_share() == 1.0
    assert attainment.latency_at_risk()


def test_more_late_requests_than_allowed_are_a_risk_and_a_shortfall() -> None:
    attainment = after(LATENCY, served("a", requests=10, latency_ns=5 * NS_PER_MS, late=1))
    assert attainment.late_pressure() > 1.0
    assert attainment.latency_at_risk()
    assert attainment.shortfall() == pytest.approx(0.09, abs=0.01)


def test_waiting_a_shim_cannot_see_is_added_unless_latency_is_reported() -> None:
    seen = served("a", requests=5, latency_ns=5 * NS_PER_MS)._replace(busy_ns=TICK_NS * 9 // 10)
    reported = after(LATENCY, seen)
    burst_only = after(LATENCY, seen._replace(reported=False))
    assert burst_only.latency_ns() > reported.latency_ns()
    assert burst_only.headroom() < reported.headroom()


def test_company_makes_requests_later_by_what_work_without_a_pause_lost_by_it() -> None:
    """Half of the time is busy alone; beside others it was nearly all of it."""
    alone_ns = TICK_NS // 2
    seen = served("a", requests=5, latency_ns=alone_ns // 5)._replace(
        busy_ns=TICK_NS * 95 // 100, burst_alone_ns=alone_ns, reported=False
    )
    alone = after(LATENCY, seen).latency_ns()
    little = after(LATENCY, seen._replace(losses=((bucket_of(2 * NS_PER_MS), 5),)))
    much = after(LATENCY, seen._replace(losses=((bucket_of(90 * NS_PER_MS), 5),)))
    assert alone == pytest.approx(alone_ns / 5 * 4.3, rel=0.1), "M/D/1 at half load"
    assert little.latency_ns() == pytest.approx(alone + 2 * NS_PER_MS, rel=0.1)
    assert much.latency_ns() == pytest.approx(alone + 90 * NS_PER_MS, rel=0.1)
    assert little.safety() > 1.0 > much.safety()


def test_a_rate_below_the_promise_is_a_risk_while_there_is_work() -> None:
    attainment = after(RATE, working("a", bursts=1))
    assert attainment.throughput_share() == pytest.approx(0.5, abs=0.01)
    assert attainment.throughput_at_risk()
    assert attainment.shortfall() == pytest.approx(0.5, abs=0.01)


def test_a_rate_is_judged_once_a_quarter_of_its_window_has_passed() -> None:
    window_ns = 2 * NS_PER_S
    attainment = Attainment(Slo(throughput=ThroughputSlo(100.0, window_ns)))
    risks = []
    for number in range(1, 100):
        attainment.learn(number * TICK_NS, TICK_NS, working("a", bursts=0))
        risks.append(attainment.throughput_at_risk())
    first = risks.index(True) + 1
    assert window_ns / 4 <= first * TICK_NS <= window_ns / 2
    assert all(risks[first:])


def test_a_rate_above_the_promise_is_no_risk() -> None:
    assert not after(RATE, working("a", bursts=4)).at_risk()


def test_a_rate_nobody_asked_for_is_no_risk() -> None:
    attainment = after(RATE, working("a", bursts=1, busy_ns=TICK_NS // 4))
    assert not attainment.throughput_at_risk()
    assert attainment.shortfall() == 0.0


def test_a_window_below_the_floor_counts_against_availability() -> None:
    attainment = after(AVAILABLE, working("a", 0.1))
    assert attainment.availability() == 0.0
    assert attainment.availability_at_risk()
    assert attainment.shortfall() == pytest.approx(0.9)


def test_a_window_at_the_floor_is_available() -> None:
    attainment = after(AVAILABLE, working("a", 0.25))
    assert attainment.availability() == 1.0
    assert not attainment.availability_at_risk()


def test_a_window_without_demand_does_not_count() -> None:
    assert after(AVAILABLE, reading("a")).availability() == 1.0


def test_one_long_hold_spoils_its_window() -> None:
    held = working("a", 0.5, longest_hold_ns=60 * NS_PER_MS)
    undisturbed = [working("a", 0.5)]
    attainment = after(AVAILABLE, *undisturbed * 25, held, *undisturbed * 74, ticks=201)
    assert attainment.availability() == pytest.approx(0.5, abs=0.05)


def test_the_time_before_the_first_reading_is_not_judged() -> None:
    attainment = Attainment(AVAILABLE)
    for number in range(1, 60):
        attainment.learn(3600 * NS_PER_S + number * TICK_NS, TICK_NS, working("a", 0.25))
        assert attainment.availability() == 1.0


def test_a_hold_of_more_than_half_the_bound_is_a_risk_at_once() -> None:
    attainment = Attainment(AVAILABLE)
    attainment.learn(TICK_NS, TICK_NS, working("a", 0.5, longest_hold_ns=30 * NS_PER_MS))
    assert attainment.availability_at_risk()


def test_trouble_fades_once_it_is_over() -> None:
    attainment = after(LATENCY, served("a", requests=5, latency_ns=40 * NS_PER_MS, late=5))
    assert attainment.latency_at_risk()
    for number in range(1000):
        attainment.learn(
            (301 + number) * TICK_NS,
            TICK_NS,
            served("a", requests=5, latency_ns=5 * NS_PER_MS),
        )
    assert not attainment.latency_at_risk()
