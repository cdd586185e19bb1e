"""Answers what people ask of adaptation, and says it in metrics."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dure.agent.adviser import Adviser, Desk
from dure.agent.telemetry.ports import Readings
from dure.client.advice import (
    AdviceAnswer,
    AdviceLine,
    ChoiceStatus,
    ForetoldStatus,
    GpuAdvice,
)
from dure.client.schema import WhyAnswer
from dure.domain.adaptation import Advice, AdviceKind, Choice
from dure.domain.metrics import kernel as m
from dure.domain.metrics.kinds import Reading
from dure.domain.units import NS_PER_S, format_duration

OBJECTIVE = (
    "by weight, the mean of on-time requests (a tenth less for each further allowance of late "
    "ones) and of progress over progress alone, times the part of a promised availability that "
    "was kept, from 0 to 1"
)
_LATELY_S = 600.0
"""Older advice does not explain what happens now."""
_SAID = {
    AdviceKind.PROPOSED: "proposed",
    AdviceKind.SWITCHED: "switched",
    AdviceKind.ROLLED_BACK: "rolled back",
    AdviceKind.KEPT: "looked back at its switch and kept",
}


@dataclass(frozen=True, slots=True)
class AdviceDesk:
    """GET /v1/policy/advice, and a layer of metrics."""

    adviser: Adviser
    name: str = "advice"
    now_s: Callable[[], float] = time.time

    def answer(self) -> AdviceAnswer:
        """What is measured, proposed and was done, GPU by GPU."""
        return AdviceAnswer(
            adapt=self.adviser.adapt.value,
            objective=OBJECTIVE,
            gpus=tuple(_gpu(desk) for desk in self.adviser.desks.values()),
        )

    def added_to(self, answer: WhyAnswer) -> WhyAnswer:
        """With what was proposed or done on the GPU on which a tenant is: it changes what becomes
        of everybody there."""
        desk = self.adviser.desks.get(answer.gpu or "")
        if desk is None:
            return answer
        words = _in_words(tuple(desk.said), answer.tenant, self.now_s())
        return answer.model_copy(update={"advice": words})

    def read(self) -> Readings:
        """The objective, and what was done about it."""
        found = []
        for uuid, desk in self.adviser.desks.items():
            if desk.objective is not None:
                found.append(Reading(m.OBJECTIVE, (uuid,), desk.objective))
            found.append(Reading(m.DRY_RUNS, (uuid,), float(desk.dry_runs)))
            found += [
                Reading(m.ADAPTATIONS, (uuid, kind.name.lower()), float(desk.counted[kind]))
                for kind in AdviceKind
            ]
        return found


def _gpu(desk: Desk) -> GpuAdvice:
    advisor = desk.advisor
    history = tuple(_line(at_s, advice) for at_s, advice in tuple(desk.said))
    standing = advisor.standing
    proposed = None
    if standing is not None and standing.kind is AdviceKind.PROPOSED and history:
        proposed = _line(history[-1].at_unix_s, standing)
    return GpuAdvice(
        gpu=desk.actor.uuid,
        inforce=_choice(advisor.inforce),
        objective=desk.objective,
        proposal=proposed,
        foretold=tuple(
            ForetoldStatus(
                policy=each.choice.policy,
                parameters=dict(each.choice.parameters),
                score=each.score,
            )
            for each in desk.foretold
        ),
        dry_runs=desk.dry_runs,
        trouble=desk.trouble,
        history=history,
    )


def _line(at_s: float, advice: Advice) -> AdviceLine:
    return AdviceLine(
        at_unix_s=at_s,
        kind=advice.kind.value,
        before=_choice(advice.before),
        after=_choice(advice.after),
        measured=advice.measured,
        gain=advice.gain,
        reason=advice.reason,
    )


def _choice(choice: Choice) -> ChoiceStatus:
    return ChoiceStatus(policy=choice.policy, parameters=dict(choice.parameters))


def _in_words(said: Sequence[tuple[float, Advice]], tenant: str, now_s: float) -> tuple[str, ...]:
    """The last that was proposed or done, and the last before it that names the tenant."""
    lately = [each for each in said if now_s - each[0] <= _LATELY_S]
    named = [each for each in lately[:-1] if tenant in re.findall(r"[\w.@/-]+", each[1].reason)]
    return tuple(_sentence(at_s, advice, now_s) for at_s, advice in (*named[-1:], *lately[-1:]))


def _sentence(at_s: float, advice: Advice, now_s: float) -> str:
    ago = format_duration(round(max(0.0, now_s - at_s)) * NS_PER_S)
    return (
        f"{ago} ago the advisor {_SAID[advice.kind]} {advice.before} → {advice.after}: "
        f"{advice.reason}."
    )
