"""What an administrator says to `dure kueue`: whose queues are whose, which cluster is which."""

from typing import Annotated

from pydantic import Field

from dure.api.base import Document, Duration, LowerName, Name, Priority, TenantPath
from dure.beside.kinds import MOST_NOMINEES

QueueName = Annotated[str, Field(pattern=r"^[a-z0-9.-]{1,63}/([a-z0-9.-]{1,253}|\*)$")]
"""NAMESPACE/QUEUE, or NAMESPACE/* for every queue of a namespace."""
ObjectName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")]


class ProfileFeeds(Document):
    """Feeds of the centre that properties of a ClusterProfile are handed on to."""

    carbon: Name | None = None
    electricity: Name | None = None


class KueueSettings(Document):
    """The file of `dure kueue --settings`."""

    queues: Annotated[dict[QueueName, TenantPath], Field(max_length=10_000)] = Field(
        default_factory=dict
    )
    """Tenant by queue; a queue that is not named has the tenant that its namespace is labelled
    with, `dure.io/tenant`."""
    clusters: Annotated[dict[ObjectName, LowerName], Field(max_length=1000)] = Field(
        default_factory=dict
    )
    """Dure's name of a MultiKueueCluster, where it is another."""
    priorities: Annotated[dict[Name, Priority], Field(max_length=1000)] = Field(
        default_factory=dict
    )
    """By name of the priority class; else the class's own value, within what Dure knows."""
    admission_checks: Annotated[list[ObjectName], Field(max_length=100)] | None = None
    """Whose Workloads are ours; all that MultiKueue looks after where this is left out."""
    nominees: Annotated[int, Field(ge=1, le=MOST_NOMINEES)] = MOST_NOMINEES
    """Clusters that are nominated at most."""
    widen_after: Duration = "1m"
    """The best is nominated alone, so that it is the one that is used; who is not admitted there
    after so long is offered to the next, too. `0s`: all nominees at once."""
    review: Duration = "15s"
    """Who finds no room is looked at again so often."""
    patience: Duration = "10m"
    """Who has found no room for so long is nominated all the same, and waits in the cluster."""
    settle: Duration = "1m"
    """From the admission in a cluster until its member surely counts what runs there."""
    fallback_after: Duration = "1m"
    """Where the centre has not answered for so long, clusters are nominated as their
    MultiKueueConfig lists them: nobody waits because Dure is away."""
    profile_namespace: Annotated[str, Field(pattern=r"^[a-z0-9-]{0,63}$")] = ""
    """Where ClusterProfiles are published and read; empty: in all namespaces."""
    profile_feeds: Annotated[dict[LowerName, ProfileFeeds], Field(max_length=1000)] = Field(
        default_factory=dict
    )
    """By cluster: whose carbon and price of power come from its ClusterProfile."""


def tenant_of(settings: KueueSettings, namespace: str, queue: str, labelled: str) -> str:
    """Whose a queue is; empty: nobody's."""
    named = settings.queues.get(f"{namespace}/{queue}") or settings.queues.get(f"{namespace}/*")
    return named or labelled
