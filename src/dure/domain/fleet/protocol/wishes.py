"""Jobs that people declare in a cluster, and what the centre says has become of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dure.domain.fleet.lifecycle import JobPhase


@dataclass(frozen=True, slots=True)
class Wish:
    """A job that somebody declared in a cluster, as it is there now; said twice it is one job."""

    uid: str
    """Of the object; with the cluster it names the job for ever."""
    generation: int
    """Counts the object's changes: a lower one says nothing new."""
    namespace: str
    """Decides whose job it is."""
    name: str
    document: Mapping[str, Any] = field(default_factory=dict)
    """The object's `spec`; empty: the centre has it, and is only asked how the job stands."""
    withdrawn: bool = False
    """Whether the object is gone: the job shall end, or never begin."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What people of a cluster want; each is answered by a standing once it is stored."""

    wishes: tuple[Wish, ...]


@dataclass(frozen=True, slots=True)
class WishRefusal:
    """Why a wish did not become a job."""

    reason: str
    """One word of camel case, for programs."""
    field: str
    what: str
    remedy: str
    final: bool = True
    """Whether it would be the same tomorrow; else it is worth to ask again."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What has become of a wish."""

    uid: str
    generation: int
    """Of the wish as it is stored; below what was said: say it whole."""
    job: str = ""
    """Its id; empty: there is none."""
    refusal: WishRefusal | None = None
    withdrawn: bool = False
    phase: JobPhase = JobPhase.QUEUED
    suspended: bool = False
    attempt: int = 0
    cluster: str = ""
    """Where it is; empty: nowhere yet."""
    slice: str = ""
    """What its instances have: `3g.40gb`, `whole`, `2 x whole`."""
    cost_per_hour: float = 0.0
    """In the fleet's currency, for what it holds now."""
    currency: str = ""
    g_co2_per_hour: float = 0.0
    why: str = ""
    """Of its phase, for people."""


@dataclass(frozen=True, slots=True)
class Standings:
    """News of jobs that were wished for in a cluster."""

    standings: tuple[Standing, ...]
