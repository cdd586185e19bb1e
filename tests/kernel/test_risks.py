"""Risks as events: how weights, patience and precedence follow what is foreseen."""

from dataclasses import replace

import pytest

from dure.domain.events import RiskCleared, RiskRaised, TenantJoined, TenantLeft
from dure.domain.ids import TenantId
from dure.domain.instructions import PublishPlan, WeightAdapted
from dure.domain.risks import Risk, RiskKind, WeightsBy
from dure.domain.tenant import LatencySlo, Slo, Tenant, TenantClass
from dure.domain.units import NS_PER_MS
from dure.kernel.machine import KernelMachine, MachineSettings
from tests.kernel.factories import H200, TICK_NS, reading, served, tick, working

WEB = Tenant(
    TenantId("web"),
    tenant_class=TenantClass.GUARANTEED,
    slo=Slo(latency=LatencySlo(20 * NS_PER_MS)),
)
JOB = Tenant(TenantId("job"), tenant_class=TenantClass.BEST_EFFORT)
RISK = Risk("latency", RiskKind.LOAD, 0.95, "load grows", WEB.id, 5 * 10**9, 0.05)


def machine(weights: WeightsBy = WeightsBy.FORESEEN, policy: str = "hybrid") -> KernelMachine:
    made = KernelMachine(
        MachineSettings(H200, policy, side_by_side=True, weights=weights, validate=True)
    )
    made.handle(TenantJoined(0, WEB))
    made.handle(TenantJoined(0, JOB))
    run(made, 1, 100)
    return made


def run(made: KernelMachine, first: int, last: int, latency_ms: int = 3) -> list[WeightAdapted]:
    told = []
    for number in range(first, last):
        web = served("web", requests=4, latency_ns=latency_ms * NS_PER_MS)
        answers = tick(made, number, web, working("job"))
        told += [answer for answer in answers if isinstance(answer, WeightAdapted)]
    return told


def patience_ns(made: KernelMachine) -> int:
    assert made.plan is not None
    return made.plan.squads[0].members[0].patience_ns


def test_a_risk_raises_the_weight_at_once_and_says_why() -> None:
    made = machine()
    calm = patience_ns(made)
    made.handle(RiskRaised(100 * TICK_NS, RISK))
    told = run(made, 101, 151)
    assert made.tracks[WEB.id].weight > 8.0
    assert made.tracks[JOB.id].weight == 1.0
    assert told[0].tenant == WEB.id
    assert told[0].reason == "load grows"
    assert told[0].before == 1.0
    assert patience_ns(made) < 0.2 * calm


def test_a_weight_is_bounded_however_bad_a_risk_is() -> None:
    made = machine()
    made.handle(RiskRaised(100 * TICK_NS, replace(RISK, shortfall=1.0, confidence=1.0)))
    run(made, 101, 400)
    assert made.tracks[WEB.id].weight == pytest.approx(16.0)


def test_a_weight_comes_down_slowly_once_the_risk_is_over_and_says_so() -> None:
    made = machine()
    made.handle(RiskRaised(100 * TICK_NS, RISK))
    run(made, 101, 200)
    high = made.tracks[WEB.id].weight
    made.handle(RiskCleared(200 * TICK_NS, RISK.series, RISK.kind, WEB.id))
    run(made, 201, 250)
    assert 0.9 * high < made.tracks[WEB.id].weight < high
    told = run(made, 251, 4000)
    assert made.tracks[WEB.id].weight == 1.0
    assert told[-1].after == 1.0
    assert "on time" in told[-1].reason


@pytest.mark.parametrize("weights", [WeightsBy.FROZEN, WeightsBy.MEASURED])
def test_weights_that_do_not_foresee_leave_risks_alone(weights: WeightsBy) -> None:
    made = machine(weights)
    made.handle(RiskRaised(100 * TICK_NS, RISK))
    assert run(made, 101, 200) == []
    assert made.tracks[WEB.id].weight == 1.0


def test_frozen_weights_stay_though_a_promise_fails() -> None:
    made = machine(WeightsBy.FROZEN)
    for number in range(101, 200):
        tick(made, number, served("web", requests=4, latency_ns=60 * NS_PER_MS, late=4))
    assert made.tracks[WEB.id].weight == 1.0


@pytest.mark.parametrize(("latency_ms", "grows"), [(14, False), (3, True)])
def test_under_slo_patience_grows_beside_a_risk_only_where_the_target_is_far(
    latency_ms: int, grows: bool
) -> None:
    made = machine(policy="slo")
    run(made, 101, 400, latency_ms)
    web = made.tracks[WEB.id]
    web.strict_patience = 0.1
    made.handle(RiskRaised(400 * TICK_NS, RISK))
    run(made, 401, 450, latency_ms)
    assert (web.strict_patience > 0.1) == grows
    assert web.strict_patience >= 0.1
    made.handle(RiskCleared(450 * TICK_NS, RISK.series, RISK.kind, WEB.id))
    run(made, 451, 500, latency_ms)
    assert web.strict_patience > 0.1


def test_patience_does_not_grow_while_nobody_asks() -> None:
    made = machine(policy="slo")
    web = made.tracks[WEB.id]
    for number in range(101, 120):
        tick(made, number, reading("web"), working("job"))
    web.strict_patience = 0.1
    for number in range(120, 200):
        tick(made, number, reading("web"), working("job"))
    assert web.strict_patience == 0.1
    run(made, 200, 250)
    assert web.strict_patience > 0.1


@pytest.mark.parametrize(("latency_ms", "grows"), [(3, True), (19, False)])
def test_patience_comes_back_where_few_ask(latency_ms: int, grows: bool) -> None:
    made = machine(policy="slo")
    web = made.tracks[WEB.id]
    left: dict[int, float] = {}
    for number in range(101, 1200):
        late = int(number == 501)
        asked = served("web", requests=1, latency_ns=latency_ms * NS_PER_MS, late=late)
        tick(made, number, asked if number % 5 == 1 else reading("web"), working("job"))
        left[number] = web.strict_patience
    assert web.attainment.seldom_asked(), "ten requests a second"
    assert left[700] < 0.5 * left[500], "one of them was late"
    assert (left[1199] > 2 * left[700]) == grows


def test_a_risk_of_the_device_or_of_a_stranger_changes_nothing() -> None:
    made = machine()
    for tenant in (None, TenantId("nobody")):
        risk = replace(RISK, tenant=tenant)
        assert made.handle(RiskRaised(100 * TICK_NS, risk)) == ()
        made.handle(RiskCleared(100 * TICK_NS, risk.series, risk.kind, tenant))
    assert run(made, 101, 150) == []


def test_a_tenants_risks_go_with_it() -> None:
    made = machine()
    made.handle(RiskRaised(100 * TICK_NS, RISK))
    made.handle(TenantLeft(101 * TICK_NS, WEB.id))
    made.handle(TenantJoined(102 * TICK_NS, WEB))
    assert made.tracks[WEB.id].risks == {}
    answers = made.handle(RiskCleared(103 * TICK_NS, RISK.series, RISK.kind, WEB.id))
    assert not any(isinstance(answer, PublishPlan) for answer in answers)
