"""Answers what only the dashboard asks: the timeline of a GPU, the policies there are."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dure.agent.gpu import Gpu
from dure.agent.service import Service
from dure.client.timeline import PolicyChoice, PolicyChoices, TimelineAnswer, TimelineSlice
from dure.domain.errors import InputError
from dure.domain.units import NS_PER_S
from dure.kernel.policies.registry import POLICIES, make_policy

_LENGTH_S, _LONGEST_S = 10, 60


@dataclass(frozen=True, slots=True)
class DashboardDesk:
    """GET /v1/timeline, /v1/policy/choices."""

    service: Service

    def timeline(self, asked: Mapping[str, str]) -> TimelineAnswer:
        """The last seconds of one GPU, or what came after a slice."""
        after = _whole(asked, "after", 0)
        length_s = min(_whole(asked, "seconds", _LENGTH_S), _LONGEST_S)
        gpu = asked.get("gpu")
        actor = self.service.actor_of(gpu) if gpu else self.service.actors[0]
        slices = actor.call(_since(after, length_s * NS_PER_S))
        return TimelineAnswer(
            gpu=actor.uuid,
            sms=actor.gpu.identity.profile.sms,
            last=slices[-1].number if slices else after,
            slices=tuple(slices),
        )

    def choices(self) -> PolicyChoices:
        """All policies, with what each is for."""
        found = []
        for name, kind in POLICIES.items():
            made: Any = make_policy(name)
            about = (kind.__doc__ or "").strip().partition("\n")[0]
            found.append(PolicyChoice(name=name, about=about, parameters=asdict(made)))
        return PolicyChoices(choices=tuple(found))


def _since(after: int, length_ns: int) -> Callable[[Gpu], list[TimelineSlice]]:
    return lambda gpu: gpu.timeline.since(after, length_ns)


def _whole(asked: Mapping[str, str], field: str, otherwise: int) -> int:
    text = asked.get(field)
    if not text:
        return otherwise
    if not text.isdecimal() or len(text) > 15:
        raise InputError(f"'{text}' is no whole number", "write digits alone", field=field)
    return int(text)
