"""Which choices a dry run tries: every policy as it is, or those that something learned prefers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from dure.domain.adaptation import Choice
from dure.domain.ids import TenantId
from dure.domain.tenant import Tenant
from dure.kernel.objective import ScoreMeter
from dure.kernel.policies.registry import POLICIES

FIRST_POLICY = "slo"
"""What an advisor that may switch begins with where nobody chose: while nothing is known of
anybody, what was promised goes first."""

Context = tuple[float, ...]
"""What the tenants of the moment are like, in numbers from 0 to about 1; see `CONTEXT_NAMES`."""

CONTEXT_NAMES = (
    "one",
    "services",
    "jobs",
    "service load",
    "job load",
    "tightest target",
    "late",
    "promised weight",
)
_MANY = 4.0
_LOOSE_TARGET = 10.0


class Chooser(Protocol):
    """Says what to try, and learns from what was tried."""

    def choices(self, context: Context) -> tuple[Choice, ...]:
        """What a dry run is to compare with the choice in force."""
        ...

    def learn(self, context: Context, inforce: Choice, scores: Mapping[Choice, float]) -> None:
        """A dry run gave these scores."""
        ...


@dataclass(frozen=True, slots=True)
class EveryPolicy:
    """The rule: every policy with its own defaults, always."""

    def choices(self, context: Context) -> tuple[Choice, ...]:
        """All of them."""
        return tuple(Choice(policy) for policy in POLICIES)

    def learn(self, context: Context, inforce: Choice, scores: Mapping[Choice, float]) -> None:
        """Nothing is kept."""


def context(meter: ScoreMeter, tenants: Mapping[TenantId, Tenant], span_ns: int) -> Context:
    """The tenants of the moment in numbers."""
    deeds = meter.deeds(span_ns, tenants)
    services = [each for each in deeds if each.tenant.slo.latency and each.requests > 0.0]
    jobs = [each for each in deeds if each.tenant.slo.latency is None and each.busy_ns > 0.0]
    window_ns = max((each.window_ns for each in deeds), default=1.0)
    tightest = min(
        (
            each.tenant.slo.latency.target_ns / max(each.work_ns / each.requests, 1.0)
            for each in services
            if each.tenant.slo.latency is not None
        ),
        default=_LOOSE_TARGET,
    )
    requests = sum(each.requests for each in services)
    weights = sum(each.tenant.weight for each in (*services, *jobs))
    promised = sum(each.tenant.weight for each in services)
    return (
        1.0,
        len(services) / _MANY,
        len(jobs) / _MANY,
        sum(each.work_ns for each in services) / window_ns,
        min(2.0, sum(each.busy_ns for each in jobs) / window_ns / 2.0),
        min(tightest, _LOOSE_TARGET) / _LOOSE_TARGET,
        sum(each.late for each in services) / requests if requests else 0.0,
        promised / weights if weights else 0.0,
    )
