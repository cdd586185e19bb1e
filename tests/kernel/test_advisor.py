"""The advisor: when it asks, what it takes to switch, and what makes it go back."""

from dataclasses import replace

import pytest

from dure.domain.adaptation import (
    AdaptBy,
    Advice,
    AdviceKind,
    AskDryRun,
    Choice,
    ChoiceInForce,
    DryRunEnded,
    Foretold,
)
from dure.domain.events import ReadingsTaken, RiskRaised, TenantJoined, TenantLeft
from dure.domain.ids import TenantId
from dure.domain.readings import TenantReading
from dure.domain.risks import Risk, RiskKind
from dure.domain.tenant import Tenant
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.kernel.advisor import Advisor, AdvisorEvent, AdvisorInstruction, AdvisorSettings
from tests.kernel.factories import TICK_NS, served, service, working

HYBRID, SLO, JCT = Choice("hybrid"), Choice("slo"), Choice("jct")
WEB, JOB = service("web"), Tenant(TenantId("job"))


class Desk:
    """An advisor in made time: dry runs are answered a second later with set scores."""

    def __init__(self, adapt: AdaptBy = AdaptBy.AUTO, **settings: object) -> None:
        self.advisor = Advisor(HYBRID, replace(AdvisorSettings(adapt=adapt), **settings))  # type: ignore[arg-type]
        self.tick = 0
        self.scores = {HYBRID: 0.6, SLO: 0.6, JCT: 0.6}
        self.asked: list[tuple[float, AskDryRun]] = []
        self.said: list[Advice] = []
        self._answer_ns: int | None = None
        self.tell(TenantJoined(0, WEB))
        self.tell(TenantJoined(0, JOB))

    @property
    def now_ns(self) -> int:
        return self.tick * TICK_NS

    def tell(self, event: AdvisorEvent) -> None:
        for told in self.advisor.handle(event):
            self._take(told)

    def _take(self, told: AdvisorInstruction) -> None:
        if isinstance(told, AskDryRun):
            self.asked.append((self.now_ns / NS_PER_S, told))
            self._answer_ns = self.now_ns + NS_PER_S
        else:
            self.said.append(told)

    def run(self, seconds: float, *, late: float = 0.0, share: float = 0.5, rate: int = 2) -> None:
        """Time passes; `late`: of ten requests, so many."""
        for _ in range(round(seconds * NS_PER_S / TICK_NS)):
            self.tick += 1
            self.tell(ReadingsTaken(self.now_ns, self._readings(late, share, rate)))
            if self._answer_ns is not None and self.now_ns >= self._answer_ns:
                self._answer_ns = None
                choices = self.asked[-1][1].choices
                found = tuple(Foretold(choice, self.scores[choice]) for choice in choices)
                self.tell(DryRunEnded(self.now_ns, found))

    def _readings(self, late: float, share: float, rate: int) -> tuple[TenantReading, ...]:
        missed = rate if self.tick % 10 < late else 0
        web = served("web", requests=rate, latency_ns=NS_PER_MS, late=missed)
        return (web, working("job", share)) if rate else (working("job", share),)

    def kinds(self) -> list[AdviceKind]:
        return [each.kind for each in self.said]


def test_nothing_is_asked_or_said_where_adaptation_is_off() -> None:
    desk = Desk(AdaptBy.OFF)
    desk.scores[SLO] = 1.0
    desk.run(30)
    assert not desk.asked
    assert not desk.said


def test_a_clear_gain_is_switched_to_after_one_dry_run_and_says_why() -> None:
    desk = Desk()
    desk.scores[SLO] = 0.8
    desk.run(4)
    assert desk.kinds() == [AdviceKind.SWITCHED]
    said = desk.said[0]
    assert (said.before, said.after) == (HYBRID, SLO)
    assert said.gain == pytest.approx(0.2)
    assert "dry runs give it +0.200 over hybrid" in said.reason
    assert desk.advisor.inforce == SLO


def test_a_clear_gain_is_not_hurried_where_more_is_measured_than_foretold() -> None:
    desk = Desk()
    desk.scores[SLO] = 0.8
    desk.run(4, share=0.9)
    assert not desk.said
    desk.run(4, share=0.9)
    assert len(desk.asked) == 2
    assert desk.kinds() == [AdviceKind.SWITCHED]


def test_a_small_gain_must_be_foretold_twice() -> None:
    desk = Desk()
    desk.scores[SLO] = 0.615
    desk.run(4)
    assert len(desk.asked) == 1
    assert not desk.said
    desk.run(4)
    assert len(desk.asked) == 2
    assert desk.kinds() == [AdviceKind.SWITCHED]


def test_a_gain_that_is_hardly_one_is_left_alone() -> None:
    desk = Desk()
    desk.scores[SLO] = 0.605
    desk.run(40)
    assert not desk.said


def test_a_gain_that_the_next_dry_runs_do_not_find_is_forgotten() -> None:
    desk = Desk()
    desk.scores[SLO] = 0.62
    desk.run(3.5)
    desk.scores[SLO] = 0.55
    desk.run(30)
    assert not desk.said


def test_advice_is_proposed_once_and_taken_back_when_it_no_longer_holds() -> None:
    desk = Desk(AdaptBy.ADVISE)
    desk.scores[SLO] = 0.8
    desk.run(30)
    assert desk.kinds() == [AdviceKind.PROPOSED]
    assert desk.advisor.inforce == HYBRID
    assert desk.advisor.standing is not None
    desk.scores[SLO] = 0.2
    desk.run(60)
    assert desk.advisor.standing is None


def test_a_switch_after_which_things_are_better_is_kept() -> None:
    desk = Desk()
    desk.scores[SLO] = 0.8
    desk.run(4, share=0.3)
    desk.run(10, share=0.7)
    assert desk.kinds() == [AdviceKind.SWITCHED, AdviceKind.KEPT]
    assert desk.advisor.inforce == SLO


def test_a_switch_after_which_things_are_worse_is_undone_and_not_tried_again_for_a_while() -> None:
    desk = Desk()
    desk.scores[SLO] = 0.95
    desk.run(4, share=0.8)
    assert desk.kinds() == [AdviceKind.SWITCHED]
    desk.run(8, share=0.2)
    assert desk.kinds()[:2] == [AdviceKind.SWITCHED, AdviceKind.ROLLED_BACK]
    assert desk.advisor.inforce == HYBRID
    assert "hybrid would have had" in desk.said[1].reason
    desk.run(20, share=0.2)
    assert desk.kinds().count(AdviceKind.SWITCHED) == 1
    desk.run(30, share=0.2)
    assert desk.kinds().count(AdviceKind.SWITCHED) == 2


def test_a_load_that_grew_meanwhile_is_not_held_against_a_switch() -> None:
    desk = Desk()
    desk.scores[SLO] = 0.95
    desk.run(4, share=0.8)
    desk.scores = {HYBRID: 0.15, SLO: 0.2, JCT: 0.1}
    desk.run(8, share=0.35)
    assert AdviceKind.ROLLED_BACK not in desk.kinds()
    assert desk.advisor.inforce == SLO


def test_a_mix_that_changes_is_looked_at_soon_and_what_was_foretold_before_is_forgotten() -> None:
    desk = Desk()
    desk.run(16)
    looks = len(desk.asked)
    desk.tell(TenantLeft(desk.now_ns, JOB.id))
    desk.tell(TenantJoined(desk.now_ns, replace(JOB, weight=2.0)))
    desk.run(2.5)
    assert len(desk.asked) == looks + 1
    assert desk.asked[-1][1].reason == "'job' left"


def test_a_load_that_steps_is_looked_at_soon() -> None:
    desk = Desk()
    desk.run(20)
    looks = len(desk.asked)
    desk.run(4, rate=6)
    assert len(desk.asked) > looks
    assert "requests a second" in desk.asked[-1][1].reason


def test_a_risk_is_looked_at_soon() -> None:
    desk = Desk()
    desk.run(16)
    looks = len(desk.asked)
    risk = Risk("latency", RiskKind.LOAD, 0.9, "it grows", tenant=WEB.id)
    desk.tell(RiskRaised(desk.now_ns, risk))
    desk.run(1)
    assert len(desk.asked) == looks + 1


def test_with_one_tenant_there_is_nothing_to_choose() -> None:
    desk = Desk()
    desk.tell(TenantLeft(0, WEB.id))
    desk.run(30, rate=0)
    assert not desk.asked


def test_a_person_who_switches_is_not_overruled_at_once() -> None:
    desk = Desk()
    desk.run(4)
    desk.scores = {HYBRID: 0.9, SLO: 0.5, JCT: 0.5}
    desk.tell(ChoiceInForce(desk.now_ns, JCT))
    desk.run(30)
    assert not desk.said
    desk.run(60)
    assert [each.after for each in desk.said][:1] == [HYBRID]


def test_a_dry_run_that_failed_changes_nothing_and_is_asked_again() -> None:
    desk = Desk()
    desk.scores[SLO] = 0.9
    desk.run(2.1)
    assert len(desk.asked) == 1
    desk._answer_ns = None
    desk.tell(DryRunEnded(desk.now_ns, ()))
    assert not desk.said
    desk.run(14)
    assert desk.kinds()[0] is AdviceKind.SWITCHED
