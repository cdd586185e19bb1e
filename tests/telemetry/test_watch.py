from dataclasses import replace

from dure.domain.events import RiskCleared, RiskRaised
from dure.domain.ids import TenantId
from dure.domain.risks import Risk, RiskKind
from dure.domain.tenant import LatencySlo, MemoryClaim, Slo, Tenant
from dure.domain.units import GIB, NS_PER_MS, NS_PER_S
from dure.telemetry.signs import DeviceReading
from dure.telemetry.watch import RiskBoard, RiskEvent, RiskWatch
from tests.kernel.factories import reading
from tests.telemetry.streams import TENANT, queue_readings

RISK = Risk("s", RiskKind.LOAD, 0.95, "because", TenantId("web"), 5, 0.02)


def test_a_risk_is_raised_once_and_again_when_twice_as_bad() -> None:
    board = RiskBoard()
    assert board.see(0, RISK) == [RiskRaised(0, RISK)]
    assert board.see(1, replace(RISK, shortfall=0.03)) == []
    worse = replace(RISK, shortfall=0.05)
    assert board.see(2, worse) == [RiskRaised(2, worse)]
    assert board.risks() == (worse,)


def test_a_risk_that_is_seen_no_more_is_cleared_after_a_while() -> None:
    board = RiskBoard()
    board.see(0, RISK)
    assert board.expire(9 * NS_PER_S) == []
    cleared = RiskCleared(10 * NS_PER_S, "s", RiskKind.LOAD, TenantId("web"))
    assert board.expire(10 * NS_PER_S) == [cleared]
    assert board.risks() == ()


def ramped(watch: RiskWatch) -> list[RiskEvent]:
    rates = [80.0] * 30 + [80.0 + 5.0 * second for second in range(30)]
    return [
        event for now_ns, taken in queue_readings(rates) for event in watch.observe(now_ns, [taken])
    ]


def test_a_followed_tenants_growing_load_is_raised_under_the_name_of_its_series() -> None:
    watch = RiskWatch(80 * GIB, "GPU-1")
    watch.follow(0, TENANT)
    raised = [event for event in ramped(watch) if isinstance(event, RiskRaised)]
    assert raised[0].risk.kind is RiskKind.LOAD
    assert raised[0].risk.series == 'dure_tenant_latency_seconds{gpu="GPU-1",tenant="web"}'


def test_a_tenant_that_left_or_was_never_there_is_not_watched() -> None:
    watch = RiskWatch(80 * GIB)
    assert ramped(watch) == []
    watch.follow(0, TENANT)
    watch.unfollow(TENANT.id)
    assert ramped(watch) == []


def test_another_promise_starts_anew_and_another_weight_does_not() -> None:
    watch = RiskWatch(80 * GIB)
    watch.follow(0, TENANT)
    ramped(watch)
    assert watch.board.risks()
    assert watch.follow(NS_PER_S, replace(TENANT, weight=2.0)) == []
    assert watch.board.risks()
    up = {(risk.series, risk.kind) for risk in watch.board.risks()}
    easier = replace(TENANT, slo=Slo(latency=LatencySlo(500 * NS_PER_MS)))
    told = watch.follow(NS_PER_S, easier)
    assert {(event.series, event.kind) for event in told if isinstance(event, RiskCleared)} == up
    assert watch.board.risks() == ()


def test_memory_that_fills_up_to_a_tenants_limit_is_raised() -> None:
    watch = RiskWatch(80 * GIB)
    watch.follow(0, Tenant(TenantId("job"), memory=MemoryClaim(limit_bytes=20 * GIB)))
    events = []
    for second in range(200):
        taken = reading("job", memory_bytes=10 * GIB + second * GIB // 20)
        events += watch.observe((second + 1) * NS_PER_S, [taken])
    raised = [event.risk for event in events if isinstance(event, RiskRaised)]
    assert [risk.kind for risk in raised] == [RiskKind.MEMORY]
    assert raised[0].tenant == "job"
    assert raised[0].series == 'dure_tenant_memory_bytes{tenant="job"}'


def test_a_device_that_is_held_back_is_raised_for_nobody_in_particular() -> None:
    watch = RiskWatch(80 * GIB, "GPU-1")
    events: list[RiskEvent] = []
    for second in range(120):
        held = second >= 100
        clock = 1500.0 if held else 1900.0 + second % 3
        events += watch.observe_device(second * NS_PER_S, DeviceReading(0.9, clock, held))
    raised = [event.risk for event in events if isinstance(event, RiskRaised)]
    assert [(risk.kind, risk.tenant) for risk in raised] == [(RiskKind.THROTTLE, None)]
