"""Small logs of shadow mode."""

from dure.beside.shadow.prices import ShadowPrices
from dure.beside.shadow.records import NodeRecord, PodRecord, Watched
from dure.domain.fleet.slices import ShareMode
from dure.domain.units import GIB

HOUR_NS = 3600 * 10**9
START_NS = 1_800_000_000 * 10**9 // HOUR_NS * HOUR_NS
PROFILE = "a100-40gb"
PRICES = ShadowPrices.model_validate(
    {
        "clusters": {
            "cheap": {"tariff": {"deviceHour": {PROFILE: 1.0}}, "carbon": 100.0},
            "dear": {"tariff": {"deviceHour": {PROFILE: 4.0}}, "carbon": 500.0},
        }
    }
)


def node(cluster: str, name: str, devices: int = 8) -> NodeRecord:
    return NodeRecord(
        cluster, name, PROFILE, ShareMode.WHOLE, devices, 128_000, 1024 * GIB, devices, START_NS
    )


def pod(
    name: str,
    where: str = "",
    *,
    cluster: str = "dear",
    gpus: int = 1,
    came_h: float = 0.0,
    bound_h: float | None = None,
    hours: float | None = 1.0,
    gang: str = "",
) -> PodRecord:
    """A Pod bound to a node at once, or after a while; `hours` None: it still runs."""
    created_ns = START_NS + round(came_h * HOUR_NS)
    bound_ns = None
    if where:
        bound_ns = START_NS + round((came_h if bound_h is None else bound_h) * HOUR_NS)
    ended_ns = None
    if bound_ns is not None and hours is not None:
        ended_ns = bound_ns + round(hours * HOUR_NS)
    return PodRecord(
        uid=name,
        cluster=cluster,
        namespace="team",
        name=name,
        gang=gang or name,
        resource="nvidia.com/gpu",
        count=gpus,
        profiles=(PROFILE,),
        memory_bytes=0,
        whole=True,
        cpu_milli=1000,
        host_memory_bytes=GIB,
        priority=0,
        created_ns=created_ns,
        node=where,
        bound_ns=bound_ns,
        ended_ns=ended_ns,
    )


def watched(nodes: list[NodeRecord], pods: list[PodRecord], hours: float = 10.0) -> Watched:
    ordered = tuple(sorted(pods, key=lambda each: (each.created_ns, each.uid)))
    return Watched(tuple(nodes), ordered, START_NS, START_NS + round(hours * HOUR_NS), 0)
