"""Goals files: objectives and constraints in the user's words, read into `Goals`."""

import math
import re
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import PlainValidator

from dure.domain.ids import TenantId
from dure.domain.tenant import (
    AvailabilitySlo,
    Goal,
    LatencySlo,
    MemoryClaim,
    Slo,
    TenantClass,
    ThroughputSlo,
)
from dure.domain.units import parse_duration_ns
from dure.kernel.goals import Goals, Objective, TenantGoal
from dure.sim.documents import (
    Document,
    LongerThanZero,
    Misfit,
    Name,
    Positive,
    Size,
    Source,
    nearest,
)

_LATENCY = re.compile(
    r"(?:p(?P<percentile>[0-9]+(?:\.[0-9]+)?)\s*(?:<=|<|≤|within|below|under)\s*)?(?P<target>.+)"
)
_THROUGHPUT = re.compile(
    r"(?:>=|>|≥|at least)?\s*(?P<rate>[0-9]+(?:\.[0-9]+)?(?:[eE][0-9]+)?)\s*"
    r"(?:/\s*s|per second|a second)"
)
_PERCENT = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)\s*%")

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


def _word(known: dict[str, _E]) -> PlainValidator:
    """One of these words, whatever the spaces and case."""

    def read(value: Any) -> _E:
        word = " ".join(value.split()).lower() if isinstance(value, str) else value
        if word not in known:
            raise Misfit(f"'{value}' is not known here", nearest(str(word), known))
        return known[word]

    return PlainValidator(read)


def _number(value: Any) -> float | None:
    """A plain number; None if it is none, or larger than any float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _share(value: Any) -> float:
    """`10%` or `0.1`."""
    remedy = "write a percentage such as '10%', or a number from 0 to 1"
    match = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    share = float(match["number"]) / 100.0 if match else _number(value)
    if share is None:
        raise Misfit("is not a share", remedy)
    if not 0.0 <= share <= 1.0:
        raise Misfit(f"{share:g} is not between 0 and 1", remedy)
    return share


def _availability(value: Any) -> AvailabilitySlo:
    share = _share(value)
    if share <= 0.0:
        raise Misfit("promises nothing", "write a percentage such as '99.9%'")
    return AvailabilitySlo(share)


def _latency(value: Any) -> LatencySlo:
    """`p99 <= 20ms`, or `20ms` for the 99th percentile."""
    remedy = "write it as 'p99 <= 20ms'"
    match = _LATENCY.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise Misfit("is not a latency", remedy)
    percentile = float(match["percentile"] or 99.0)
    if not 0.0 < percentile < 100.0:
        raise Misfit(f"p{percentile:g} is not a percentile below 100", remedy)
    try:
        target_ns = parse_duration_ns(match["target"])
    except ValueError as error:
        raise Misfit(f"'{match['target']}' is not a duration", remedy) from error
    if target_ns <= 0:
        raise Misfit("no request takes no time", remedy)
    return LatencySlo(target_ns, percentile)


def _throughput(value: Any) -> ThroughputSlo:
    """`100/s`, or a plain number of requests a second."""
    match = _THROUGHPUT.fullmatch(value.strip()) if isinstance(value, str) else None
    rate = float(match["rate"]) if match else _number(value)
    if rate is None:
        raise Misfit("is not a rate", "write it as '100/s'")
    if not 0.0 < rate < math.inf:
        raise Misfit(f"{rate:g} a second is no rate to promise", "write a number above 0")
    return ThroughputSlo(rate)


class _Memory(Document):
    limit: Size | None = None
    reserve: Size = 0

    def as_claim(self) -> MemoryClaim:
        return MemoryClaim(self.limit, self.reserve)


class _Tenant(Document):
    latency: Annotated[LatencySlo | None, PlainValidator(_latency)] = None
    throughput: Annotated[ThroughputSlo | None, PlainValidator(_throughput)] = None
    availability: Annotated[AvailabilitySlo | None, PlainValidator(_availability)] = None
    deadline: LongerThanZero | None = None
    expect: LongerThanZero | None = None
    goal: Annotated[Goal | None, _word(_TENANT_GOALS)] = None
    importance: Annotated[TenantClass | None, _word(_IMPORTANCE)] = None
    weight: Positive | None = None
    floor: Annotated[float | None, PlainValidator(_share)] = None
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
    fairness: Annotated[float | None, PlainValidator(_share)] = None
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
