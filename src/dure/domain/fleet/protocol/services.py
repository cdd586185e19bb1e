"""Where services answer, and what is seen of their load from outside their cluster."""

from dataclasses import dataclass

from dure.domain.ids import WorkloadId


@dataclass(frozen=True, slots=True)
class RouteBackend:
    """One instance that answers, wherever it is."""

    attempt: int
    address: str
    """HOST:PORT."""
    weight: int
    """Its part of new requests, beside the others; 0: it finishes what it has."""


@dataclass(frozen=True, slots=True)
class ServiceRoute:
    """Where a service answers now, for those who ask for it in a cluster that has, or had, it."""

    job: WorkloadId
    name: str
    namespace: str
    port: int
    """At which it is to be found there."""
    backends: tuple[RouteBackend, ...] = ()
    ended: bool = False
    """Whether it is over, and need not be found any more."""


@dataclass(frozen=True, slots=True)
class Routes:
    """News of where services answer; each takes the place of what was said of it before."""

    services: tuple[ServiceRoute, ...]
    whole: bool = False
    """Whether these are all there are: others need not be found any more."""


@dataclass(frozen=True, slots=True)
class LoadSignal:
    """What somebody outside its cluster sees of a service's load: a part of it, until it expires.

    What several sources say adds up, except that the worst latency counts."""

    workload: WorkloadId
    source: str
    """Who says so; what it says later takes the place of this."""
    at_ns: int
    """When it was measured, by the centre's clock."""
    until_ns: int
    """From when on it counts no more."""
    requests_per_s: float | None = None
    """None: not known to the source."""
    queue_length: float | None = None
    latency_ms: float | None = None
    """At the 95th percentile."""


@dataclass(frozen=True, slots=True)
class Signals:
    """News of loads; lost ones are not said again, since newer ones follow."""

    signals: tuple[LoadSignal, ...]
