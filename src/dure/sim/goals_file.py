"""Goals files: objectives and constraints in the user's words, read into `Goals`."""

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import PlainValidator

from dure.domain.ids import TenantId
from dure.domain.promises import (
    parse_availability_slo,
    parse_latency_slo,
    parse_share,
    parse_throughput_slo,
)
from dure.domain.tenant import (
    AvailabilitySlo,
    Goal,
    LatencySlo,
    MemoryClaim,
    Slo,
    TenantClass,
    ThroughputSlo,
)
from dure.kernel.goals import Goals, Objective, TenantGoal
from dure.kit.words import nearest
from dure.sim.documents import Document, LongerThanZero, Misfit, Name, Positive, Size, Source

_IMPORTANCE = {
    "high": TenantClass.GUARANTEED,
    "normal": TenantClass.STANDARD,
    "low": TenantClass.BEST_EFFORT,
}
_TENANT_GOALS = {
    "finish soon": Goal.FINISH,
    "keep promises": Goal.SLO,
    "most useful work": Goal.GOODPUT,
}
_OBJECTIVES = {objective.value: objective for objective in Objective}

_E = TypeVar("_E", bound=Enum)
_V = TypeVar("_V")


def _word(known: dict[str, _E]) -> PlainValidator:
    """One of these words, whatever the spaces and case."""

    def read(value: Any) -> _E:
        word = " ".join(value.split()).lower() if isinstance(value, str) else value
        if word not in known:
            raise Misfit(f"'{value}' is not known here", nearest(str(word), known))
        return known[word]

    return PlainValidator(read)


def _written(parse: Callable[[str], _V]) -> PlainValidator:
    """What people write, as the domain reads it; a plain number is read as it is written."""

    def read(value: Any) -> _V:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise Misfit("must be text or a number", "write one value")
        try:
            return parse(str(value))
        except ValueError as error:
            what, _, remedy = str(error).partition("; ")
            raise Misfit(what, remedy) from error

    return PlainValidator(read)


class _Memory(Document):
    limit: Size | None = None
    reserve: Size = 0

    def as_claim(self) -> MemoryClaim:
        return MemoryClaim(self.limit, self.reserve)


class _Tenant(Document):
    latency: Annotated[LatencySlo | None, _written(parse_latency_slo)] = None
    throughput: Annotated[ThroughputSlo | None, _written(parse_throughput_slo)] = None
    availability: Annotated[AvailabilitySlo | None, _written(parse_availability_slo)] = None
    deadline: LongerThanZero | None = None
    expect: LongerThanZero | None = None
    goal: Annotated[Goal | None, _word(_TENANT_GOALS)] = None
    importance: Annotated[TenantClass | None, _word(_IMPORTANCE)] = None
    weight: Positive | None = None
    floor: Annotated[float | None, _written(parse_share)] = None
    memory: _Memory | None = None

    def as_goal(self, name: str) -> TenantGoal:
        return TenantGoal(
            id=TenantId(name),
            slo=Slo(self.latency, self.throughput, self.availability),
            tenant_class=self.importance,
            goal=self.goal,
            weight=self.weight,
            floor_share=self.floor,
            expected_ns=self.expect,
            deadline_ns=self.deadline,
            memory=self.memory.as_claim() if self.memory is not None else None,
        )


class _GoalsFile(Document):
    objective: Annotated[Objective | None, _word(_OBJECTIVES)] = None
    tenants: dict[Name, _Tenant] = {}  # noqa: RUF012, pydantic copies it
    fairness: Annotated[float | None, _written(parse_share)] = None
    starvation: LongerThanZero | None = None


def read_goals(path: Path) -> Goals:
    """The goals a file states; raises `InputError` with file, line, field and remedy."""
    source = Source.read(path)
    document = source.parse(_GoalsFile)
    return Goals(
        tenants=tuple(tenant.as_goal(name) for name, tenant in document.tenants.items()),
        objective=document.objective,
        fairness=document.fairness,
        starvation_ns=document.starvation,
        file=str(path),
    )
