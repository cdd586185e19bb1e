"""What a policy is: a pure judgement over the tenants of the moment.

A policy says who goes first, what each tenant's progress is worth, how patient each service is,
and which share of time nobody may take from it. Forming squads from that is the same for
all policies, and what is known of tenants is kept outside them, so a switch loses nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Protocol

from dure.domain.ids import TenantId
from dure.kernel.track import Track


class Measure(Enum):
    """How it is told what a tenant got."""

    PROGRESS = "progress"
    """By its speed: a job is done sooner by as much as it goes faster."""
    PROMISE = "promise"
    """By the share of its requests that were on time."""
    QUEUE = "queue"
    """By the requests waiting: fewer is better."""


@dataclass(frozen=True, slots=True)
class Worth:
    """What a tenant counts for."""

    value: float
    measure: Measure = Measure.PROGRESS


@dataclass(frozen=True, slots=True)
class Appraisal:
    """A policy's judgement of the moment."""

    order: tuple[TenantId, ...]
    """Who goes before whom where both cannot run; those with patience come first."""
    worth: dict[TenantId, Worth]
    patience: dict[TenantId, int] = field(default_factory=dict)
    """Tenants all later ones make room for, once they have been busy for this many ns."""
    protected: tuple[TenantId, ...] = ()
    """Of those, the ones whose precedence rests on a promise."""
    floors: dict[TenantId, float] = field(default_factory=dict)
    """Least share of time, taken from everybody without patience."""
    tolerance: float = 0.0
    """Largest learned slow-down between classes at which a held tenant's kernel may pass."""
    trial: bool = False
    """Whether leaving jobs free beside each other is tried now and then, and kept where it is
    worth more."""
    starvation_ns: int = 0
    """How long a tenant with work may get nothing at all before it is let in regardless."""


class Policy(Protocol):
    """Judges tenants; see `registry` for how one is chosen by name."""

    name: ClassVar[str]

    def appraise(self, tracks: Sequence[Track], now_ns: int) -> Appraisal:
        """Judge the tenants as they are now."""
        ...
