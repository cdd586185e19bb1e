"""What a policy is: a pure judgement over the tenants of the moment.

A policy says who goes first, what each tenant's progress is worth, how fast a promise needs it
to go, and which share of time nobody may take from it. Forming squads from that is the same for
all policies, and what is known of tenants is kept outside them, so a switch loses nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Protocol

from dure.domain.ids import TenantId
from dure.kernel.queueing import on_time_share
from dure.kernel.track import Track

NEARLY_FULL = 0.05
"""A queue whose spare speed is below this part of its load counts as this close to overflow."""


class Measure(Enum):
    """What a tenant's speed is worth: the shape of the curve."""

    PROGRESS = "progress"
    """In proportion: a job is done sooner by as much as it goes faster."""
    PROMISE = "promise"
    """By the share of requests on time: nearly all until queueing eats up the target."""
    QUEUE = "queue"
    """By the requests that pile up: few as long as speed is well above load."""


@dataclass(frozen=True, slots=True)
class Worth:
    """What a tenant counts for, as a function of its speed (1 = alone)."""

    value: float
    measure: Measure = Measure.PROGRESS
    load: float = 1.0
    """Share of time it is busy when alone; jobs are busy all the time they are there."""
    request: float = 0.0
    """Length of a request alone over its latency target (`PROMISE`)."""

    def at(self, speed: float) -> float:
        """Worth per time at a speed."""
        if self.measure is Measure.PROGRESS:
            return self.value * speed
        if self.measure is Measure.PROMISE:
            return self.value * on_time_share(self.load, self.request, speed)
        spare = max(speed - self.load, NEARLY_FULL * self.load)
        return -self.value * self.load / spare

    def busy(self, speed: float) -> float:
        """Share of time it is busy at a speed."""
        return min(1.0, self.load / max(speed, 1e-9))


@dataclass(frozen=True, slots=True)
class Appraisal:
    """A policy's judgement of the moment."""

    order: tuple[TenantId, ...]
    """Who goes before whom where both cannot run."""
    worth: dict[TenantId, Worth]
    floors: dict[TenantId, float] = field(default_factory=dict)
    """Least share of time, taken from everybody but the protected."""
    protected: tuple[TenantId, ...] = ()
    """Tenants that are never asked to make room for floors."""
    tolerance: float = 0.0
    """Largest learned slow-down between classes at which a held tenant's kernel may pass."""
    patience: dict[TenantId, int] = field(default_factory=dict)
    """Protected tenants others run beside freely, until one has been busy for this many ns."""
    trial: bool = False
    """Whether leaving everybody free is tried now and then, and kept where it is worth more."""
    starvation_ns: int = 0
    """How long a tenant with work may get nothing at all before it is let in regardless."""


class Policy(Protocol):
    """Judges tenants; see `registry` for how one is chosen by name."""

    name: ClassVar[str]

    def appraise(self, tracks: Sequence[Track], now_ns: int) -> Appraisal:
        """Judge the tenants as they are now."""
        ...
