import pytest

from dure.domain.risks import Risk, RiskKind
from dure.telemetry.promise import PromiseWatch
from tests.telemetry.streams import SERVICE_NS, TENANT, queue_readings


def risks(rates: list[float], *, seed: int = 1, reported: bool = True) -> list[tuple[float, Risk]]:
    watch = PromiseWatch(TENANT, "latency")
    return [
        (now_ns / 1e9, risk)
        for now_ns, reading in queue_readings(rates, seed=seed, reported=reported)
        for risk in watch.observe(now_ns, reading) or []
    ]


def ramp(start: float, end: float) -> list[float]:
    """Half a minute of quiet, then a ramp of thirty seconds."""
    return [start] * 30 + [start + (end - start) * second / 30 for second in range(30)]


@pytest.mark.parametrize("reported", [True, False])
def test_a_load_that_grows_to_three_times_is_seen_before_the_queue_is_too_long(
    reported: bool,
) -> None:
    found = risks(ramp(80.0, 240.0), reported=reported)
    at_s, first = found[0]
    assert first.kind is RiskKind.LOAD
    assert 30.0 < at_s < 48.0
    assert first.confidence >= 0.9
    assert first.violation_in_ns is not None
    assert 0 < first.violation_in_ns <= 20e9
    assert first.shortfall > 0.0
    assert "requests a second" in first.reason
    assert "30 ms" in first.reason


@pytest.mark.parametrize("seed", range(3))
def test_a_steady_load_is_no_risk(seed: int) -> None:
    assert risks([100.0] * 200, seed=seed) == []


def test_a_load_that_grows_but_stays_small_is_no_risk() -> None:
    assert risks(ramp(20.0, 60.0)) == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("low", "high"), [(0.0, 150.0), (50.0, 150.0)])
def test_a_load_that_jumped_to_what_can_be_served_is_soon_no_risk_any_more(
    low: float, high: float, seed: int
) -> None:
    found = risks([low] * 30 + [high] * 60, seed=seed)
    assert [at for at, risk in found if risk.kind is RiskKind.LOAD and at > 34.0] == []


def test_a_load_that_jumped_beyond_what_can_be_served_stays_a_risk() -> None:
    found = risks([50.0] * 30 + [260.0] * 20)
    seen = [at for at, risk in found if risk.kind is RiskKind.LOAD]
    assert seen[0] < 33.0
    assert seen[-1] > 49.0


@pytest.mark.parametrize("seed", range(3))
def test_a_level_near_the_limit_is_not_raised_and_withdrawn_by_turns(seed: int) -> None:
    watch, raised, withdrawn = PromiseWatch(TENANT, "latency"), False, 0
    for now_ns, reading in queue_readings([50.0] * 30 + [185.0] * 60, seed=seed):
        if any(risk.kind is RiskKind.LOAD for risk in watch.observe(now_ns, reading) or []):
            raised = True
        elif watch.settled and raised:
            raised, withdrawn = False, withdrawn + 1
    assert withdrawn <= 1


def test_requests_that_are_late_now_burn_the_allowance() -> None:
    found = risks([100.0] * 20 + [260.0] * 10)
    burning = [(at, risk) for at, risk in found if risk.kind is RiskKind.BURN]
    assert burning
    assert 20.0 < burning[0][0] < 25.0
    assert burning[0][1].violation_in_ns is not None
    assert "times what is allowed" in burning[0][1].reason


def test_the_limit_is_where_a_queue_would_break_the_promise() -> None:
    watch = PromiseWatch(TENANT, "latency")
    for now_ns, reading in queue_readings([120.0] * 20):
        watch.observe(now_ns, reading)
    assert 0.6e9 / SERVICE_NS < watch.limit_per_s() < 0.85e9 / SERVICE_NS


def test_without_requests_nothing_is_foreseen() -> None:
    assert risks([0.0] * 60) == []


def test_swings_that_were_seen_before_are_no_risk() -> None:
    swinging = [90.0 + 50.0 * ((second // 5) % 2) for second in range(300)]
    late = [at for at, _ in risks(swinging) if at > 150.0]
    early = [at for at, _ in risks(swinging) if at <= 150.0]
    assert len(late) <= len(early)
    assert not late


def test_a_pause_of_the_readings_starts_anew() -> None:
    watch = PromiseWatch(TENANT, "latency")
    taken = list(queue_readings([100.0] * 30))
    for now_ns, reading in taken:
        watch.observe(now_ns, reading)
    assert len(watch.bins) > 0
    watch.observe(taken[-1][0] + 60 * 10**9, taken[-1][1])
    assert len(watch.bins) == 0


def test_company_that_yields_in_time_is_no_queue_where_only_bursts_are_seen() -> None:
    watch = PromiseWatch(TENANT, "latency")
    found = []
    for now_ns, reading in queue_readings([120.0] * 60, reported=False):
        beside_others = reading._replace(
            busy_ns=round(1.8 * reading.busy_ns), burst_alone_ns=reading.busy_ns
        )
        found += watch.observe(now_ns, beside_others) or []
    assert found == []
    assert 0.6e9 / SERVICE_NS < watch.limit_per_s() < 0.85e9 / SERVICE_NS
