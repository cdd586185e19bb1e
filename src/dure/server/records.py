"""What rows keep as plain data of orders, inventories, summaries and leases, and back."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dure.domain.fleet.clusters import NodeGroup
from dure.domain.fleet.decisions import Explanation, Order, Site, SiteSummary
from dure.domain.fleet.protocol.reports import AttemptStatus, Inventory
from dure.domain.fleet.tenancy import Allotment
from dure.domain.fleet.workloads import Workload
from dure.domain.ids import ClusterId
from dure.stores.rows import Attempt, ClusterNews, Json
from dure.wire.plain import pack, unpack

REPLACES = "replaces"
"""In an attempt's spec: the attempt of a service that ends once this one runs."""


CHECKPOINT = "checkpoint"
"""In an attempt's spec: number of the checkpoint that its program is asked to save."""
YIELDS = "yields"
"""In an attempt's spec: it was to take over and does not, so that it gets no more requests."""


def order_spec(order: Order, *, replaces: int | None = None) -> Json:
    """An order without its workload, which the job's own document says."""
    plain: dict[str, Any] = pack(order)
    del plain["workload"]
    if replaces is not None:
        plain[REPLACES] = replaces
    return plain


def site_of(attempt: Attempt) -> Site:
    """Where an attempt was placed."""
    site = attempt.spec.get("site", {})
    return Site(ClusterId(attempt.cluster), str(site.get("group", "")))


def order_of(attempt: Attempt, workload: Workload) -> Order:
    """The order that an attempt carries out."""
    spec = attempt.spec
    return Order(
        workload=workload,
        site=site_of(attempt),
        attempt=attempt.attempt,
        instances=int(spec.get("instances", 1)),
        resume_share=float(spec.get("resume_share", 0.0)),
        start_ns=int(spec.get("start_ns", 0)),
        explanation=explanation_of(attempt),
        makes_room=bool(spec.get("makes_room", False)),
    )


def explanation_of(attempt: Attempt) -> Explanation:
    """Why an attempt is where it is."""
    return unpack(Explanation, attempt.spec.get("explanation", {}))


def status_of(attempt: Attempt) -> AttemptStatus | None:
    """What its cluster last said of an attempt; None: nothing yet."""
    return unpack(AttemptStatus, attempt.status) if attempt.status else None


@dataclass(frozen=True, slots=True)
class Heard:
    """What a cluster last said of itself."""

    inventory: Inventory | None
    """None: it has not said yet."""
    sites: tuple[SiteSummary, ...]
    allotments: tuple[Allotment, ...]
    retired: Mapping[str, NodeGroup] = field(default_factory=dict)
    """Groups of nodes that it had before, by name."""


def heard_of(news: ClusterNews | None) -> Heard:
    """Stored news as values."""
    if news is None:
        return Heard(None, (), ())
    return Heard(
        unpack(Inventory, news.inventory) if news.inventory else None,
        sites_of(news.sites),
        tuple(unpack(Allotment, each) for each in news.allotments.get("allotments", ())),
        {name: unpack(NodeGroup, group) for name, group in news.retired.items()},
    )


def inventory_data(inventory: Inventory) -> Json:
    """An inventory as it is stored."""
    return pack(inventory)


def sites_of(data: Json) -> tuple[SiteSummary, ...]:
    """Summaries as they were stored."""
    return tuple(unpack(SiteSummary, each) for each in data.get("sites", ()))


def sites_data(sites: Iterable[SiteSummary]) -> Json:
    """Summaries as they are stored."""
    return {"sites": [pack(site) for site in sites]}


def allotments_data(allotments: Iterable[Allotment]) -> Json:
    """Leases as they are stored."""
    return {"allotments": [pack(allotment) for allotment in allotments]}
