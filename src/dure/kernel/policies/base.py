"""What a policy is: a pure judgement over the tenants of the moment.

A policy says who goes first, what each tenant's progress is worth, how fast a promise needs it
to go, and which share of time nobody may take from it. Forming squads from that is the same for
all policies, and what is known of tenants is kept outside them, so a switch loses nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from dure.domain.ids import TenantId
from dure.kernel.track import Track

_STEEPNESS = 4
"""How fast worth falls below the needed speed: a promise half kept is worth little."""


@dataclass(frozen=True, slots=True)
class Worth:
    """What a tenant's progress counts for, as a function of its speed (1 = alone)."""

    value: float
    need: float = 0.0
    """Speed below which a promise fails; above it more speed is worth nothing. 0: no promise."""

    def at(self, speed: float) -> float:
        if self.need <= 0.0:
            return self.value * speed
        if speed >= self.need:
            return self.value
        return self.value * float((speed / self.need) ** _STEEPNESS)


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
    starvation_ns: int = 0
    """How long a tenant with work may get nothing at all before it is let in regardless."""


class Policy(Protocol):
    """Judges tenants; see `registry` for how one is chosen by name."""

    name: ClassVar[str]

    def appraise(self, tracks: Sequence[Track], now_ns: int) -> Appraisal:
        """Judge the tenants as they are now."""
        ...
