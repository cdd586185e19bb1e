"""The declared objective: what counts, how much, and that readings add up to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.domain.ids import TenantId
from dure.domain.latency import bucket_of
from dure.domain.tenant import AvailabilitySlo, Slo, Tenant, ThroughputSlo
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.kernel.objective import Deeds, ScoreMeter, score
from tests.kernel.factories import TICK_NS, reading, served, service, working

WEB, JOB = service("web"), Tenant(TenantId("job"))


def requests(late: float, total: float = 1000.0) -> Deeds:
    return Deeds(WEB, NS_PER_S, requests=total, late=late)


def work(share: float, tenant: Tenant = JOB) -> Deeds:
    return Deeds(tenant, NS_PER_S, work_ns=share * NS_PER_S, busy_ns=NS_PER_S)


@pytest.mark.parametrize(("late", "goodness"), [(0, 1.0), (10, 0.99), (20, 0.882), (110, 0.0)])
def test_a_promise_counts_in_full_while_kept_and_a_tenth_less_for_each_allowance_beyond(
    late: float, goodness: float
) -> None:
    assert requests(late).goodness == pytest.approx(goodness)


def test_a_job_counts_by_its_progress_over_progress_alone() -> None:
    assert work(0.4).goodness == pytest.approx(0.4)


def test_a_throughput_promise_counts_by_the_part_of_its_rate_where_it_always_has_work() -> None:
    promised = Tenant(TenantId("batch"), slo=Slo(throughput=ThroughputSlo(100.0)))
    asked = Deeds(promised, NS_PER_S, bursts=60, work_ns=0.2 * NS_PER_S, busy_ns=NS_PER_S)
    idle = Deeds(promised, NS_PER_S, bursts=60, work_ns=0.2 * NS_PER_S, busy_ns=0.4 * NS_PER_S)
    assert asked.goodness == pytest.approx(0.6)
    assert idle.goodness == pytest.approx(0.5)


AVAILABLE = Tenant(TenantId("notebook"), slo=Slo(availability=AvailabilitySlo(0.8)))


@pytest.mark.parametrize(("kept", "goodness"), [(10, 0.5), (8, 0.5), (4, 0.25), (0, 0.0)])
def test_an_availability_promise_counts_by_the_part_of_it_that_was_kept(
    kept: float, goodness: float
) -> None:
    deeds = Deeds(AVAILABLE, 10e9, work_ns=5e9, busy_ns=10e9, windows=10, available=kept)
    assert deeds.goodness == pytest.approx(goodness)


def test_a_second_counts_as_available_by_its_floor_and_its_longest_hold() -> None:
    meter, tenants = ScoreMeter(), {AVAILABLE.id: AVAILABLE}
    ticks = NS_PER_S // TICK_NS
    for tick in range(4 * ticks + 1):
        second = (tick - 1) // ticks
        share = 0.05 if second == 1 else 0.5
        hold_ns = 200 * NS_PER_MS if second == 2 else 0
        held = working("notebook", share, longest_hold_ns=hold_ns)
        meter.add(tick * TICK_NS, [held])
    (deeds,) = meter.deeds(4 * NS_PER_S, tenants)
    assert (deeds.windows, deeds.available) == (4, 2)


def test_a_second_that_is_not_over_says_nothing_of_availability() -> None:
    meter, ticks = ScoreMeter(), NS_PER_S // TICK_NS
    for tick in range(ticks + 2):
        late = tick > ticks
        meter.add(tick * TICK_NS, [working("notebook", 0.0 if late else 0.5)])
    (deeds,) = meter.deeds(2 * NS_PER_S, {AVAILABLE.id: AVAILABLE})
    assert (deeds.windows, deeds.available) == (1, 1)


def test_who_is_promised_nothing_of_availability_is_judged_without_it() -> None:
    meter = ScoreMeter()
    for tick in range(100):
        meter.add(tick * TICK_NS, [working("job", 0.4, longest_hold_ns=NS_PER_S)])
    (deeds,) = meter.deeds(NS_PER_S, {JOB.id: JOB})
    assert deeds.windows == 0
    assert deeds.goodness == pytest.approx(0.4)


def test_owners_weights_count_and_who_wants_nothing_does_not() -> None:
    heavy = Tenant(TenantId("heavy"), weight=3.0)
    idle = Deeds(Tenant(TenantId("idle"), weight=100.0), NS_PER_S)
    assert score([requests(0), work(0.2, heavy), idle]) == pytest.approx((1.0 + 3.0 * 0.2) / 4.0)
    assert score([idle]) is None


@given(st.lists(st.tuples(st.floats(0, 2000), st.floats(0.0, 3.0)), min_size=1))
def test_the_score_is_between_nought_and_one(cases: list[tuple[float, float]]) -> None:
    found = score([each for late, share in cases for each in (requests(late), work(share))])
    assert found is not None
    assert 0.0 <= found <= 1.0


def test_the_meter_scores_the_last_seconds_and_forgets_on_a_restart() -> None:
    meter, tenants = ScoreMeter(), {WEB.id: WEB, JOB.id: JOB}
    for tick in range(400):
        late = 1 if tick >= 200 else 0
        web = served("web", requests=1, latency_ns=NS_PER_MS, late=late)
        meter.add(tick * TICK_NS, (web, working("job", 0.5)))
    whole, lately = (score(meter.deeds(s * NS_PER_S, tenants)) for s in (8, 3))
    assert whole is not None
    assert lately == pytest.approx(0.25)
    assert whole == pytest.approx(0.25)  # half of all are late: the promise is worth nothing
    meter.restart()
    assert score(meter.deeds(8 * NS_PER_S, tenants)) is None


def test_late_requests_of_who_does_not_report_are_estimated_from_what_was_lost() -> None:
    def late(lost_ms: float) -> float:
        meter = ScoreMeter()
        for tick in range(200):
            seen = reading(
                "web",
                bursts=1,
                latencies=((bucket_of(2 * NS_PER_MS), 1),),
                busy_ns=2 * NS_PER_MS,
                burst_alone_ns=2 * NS_PER_MS,
                losses=((bucket_of(lost_ms * NS_PER_MS), 1),),
            )
            meter.add(tick * TICK_NS, (seen,))
        (deeds,) = meter.deeds(4 * NS_PER_S, {WEB.id: WEB})
        return deeds.late / deeds.requests

    assert late(0.1) < 0.01
    assert late(30.0) > 0.9


def test_work_that_is_timed_in_company_alone_counts_by_what_it_takes_alone() -> None:
    meter = ScoreMeter()
    for tick in range(100):
        gpu_ns = TICK_NS // 2
        seen = working("job", 0.5, burst_gpu_ns=gpu_ns, burst_alone_ns=gpu_ns // 2)
        meter.add(tick * TICK_NS, (seen,))
    (deeds,) = meter.deeds(2 * NS_PER_S, {JOB.id: JOB})
    assert deeds.goodness == pytest.approx(0.25)
