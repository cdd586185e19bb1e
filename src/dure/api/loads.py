"""Documents of a service's load: what people and fronts say of it, and how large it is by that."""

from typing import Annotated

from pydantic import Field, model_validator

from dure.api.base import AtLeastZero, Document, Duration, LowerName, Moment, Name

MOST_QUEUED = 1e7
"""Requests that wait; more is a mistake of whoever counts."""


class LoadReport(Document):
    """What somebody sees of a service's load: all of it, or a part that other sources add to.

    Rates and queues of several sources add up, of latencies the worst counts."""

    requests_per_second: AtLeastZero | None = None
    """That come; left out: not known."""
    queue: Annotated[float, Field(ge=0, le=MOST_QUEUED)] | None = None
    """Requests that wait to be begun."""
    latency: Duration | None = None
    """From the question to the whole answer, at the 95th percentile."""
    cluster: LowerName | None = None
    """Where that load is; left out: in all its clusters, as they share requests."""
    source: Name | None = None
    """Who says so, as `balancer-1`: what it says later takes the place of this. Left out: the
    asker's token, so that different tokens add up."""
    at: Moment | None = None
    """When it was measured; left out: now."""
    valid_for: Duration = "30s"
    """How long it counts unless something newer is said; two minutes at most."""

    @model_validator(mode="after")
    def _says_something(self) -> "LoadReport":
        if self.requests_per_second is None and self.queue is None and self.latency is None:
            raise ValueError(
                "says nothing of a load; give requestsPerSecond, queue, latency or several of them"
            )
        return self


class LoadTaken(Document):
    """What became of a report."""

    clusters: list[str]
    """That were told."""
    note: str = ""
    """Why some were not, and what follows from that."""


class SizeDocument(Document):
    """How large a service is in one cluster, why, and what was last heard of its load."""

    ready: int
    """Instances that take requests."""
    serving: int
    """Instances that shall."""
    standby: int
    """Instances that are kept warm beside them, and are."""
    starting: int
    """Instances that are not ready yet."""
    level: int
    """Steps by which slices are larger than asked for."""
    slice: str
    """What each has: `1g.10gb`, `whole`."""
    why: str
    """Of the last change."""
    changed_at: str
    requests_per_second: float | None = None
    """As last heard; left out: nothing was."""
    queue: float | None = None
    latency_ms: float | None = None
    heard_at: str | None = None
