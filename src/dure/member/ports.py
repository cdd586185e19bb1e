"""What a member needs of its cluster: hands that carry things out, eyes, and a memory."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from dure.domain.errors import DureError
from dure.domain.fleet.decisions import InstanceId, Placement
from dure.domain.fleet.protocol.desired import Desired, Partition
from dure.domain.fleet.protocol.reports import Inventory

RESIZE = "resize:"
"""Feature of an inventory, before the name of a node group: slices there change while in use."""


class Life(Enum):
    """Where an instance is, as its cluster sees it."""

    PENDING = "pending"
    """Its object exists; nothing runs yet."""
    RUNNING = "running"
    READY = "ready"
    """Answers, or of a job: runs."""
    ENDING = "ending"
    """It was told to stop and still runs."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNBOUND = "unbound"
    """It could not be brought to its node in time and was taken back, with its whole gang."""
    GONE = "gone"
    """Its object does not exist any more, and nothing of it runs."""

    @property
    def over(self) -> bool:
        """Whether nothing of it runs or will run."""
        return self in (Life.SUCCEEDED, Life.FAILED, Life.UNBOUND, Life.GONE)


@dataclass(frozen=True, slots=True)
class Seen:
    """An instance of Dure's as its cluster has it; also those that the member has forgotten."""

    instance: InstanceId
    life: Life
    node: str
    name: str
    """Of its object."""
    placement: Placement | None = None
    """As it was started with; None where the object does not tell."""
    desired: Desired | None = None
    """What it was started for; None where the object does not tell."""
    why: str = ""
    exit_code: int | None = None
    started_ns: int | None = None
    """By the calendar of its node; the core is told in the fleet's time. Likewise its end."""
    ended_ns: int | None = None
    devices: tuple[int, ...] | None = None
    """As `Start.devices` had them; None where the object does not tell."""
    address: str = ""
    """HOST:PORT where a service answers; empty: it has no port, or no address yet."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What others than Dure use of a node; whole devices and amounts, all of it together."""

    node: str
    devices: int = 0
    cpu_milli: int = 0
    host_memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class InventoryChanged:
    """Nodes came, went, or may (not) be used; or things that programs name did."""

    inventory: Inventory


@dataclass(frozen=True, slots=True)
class Progressed:
    """How far a job said it is."""

    instance: InstanceId
    done_share: float
    saved_share: float


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """A job's instance said that it has saved what it was asked to save."""

    instance: InstanceId
    number: int
    """Of the request."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """How a service's instance fared since last time."""

    instance: InstanceId
    requests_per_s: float
    queue_length: float
    latency_ms: float
    """At the 95th percentile."""


@dataclass(frozen=True, slots=True)
class Synced:
    """Everything that existed when the watch began has been told."""


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The cluster does not answer; what is known may be old until the next `Synced`."""

    why: str


@dataclass(frozen=True, slots=True)
class Warned:
    """Something of the cluster that a person should know: an accelerator nobody knows, …"""

    what: str


Sight = (
    InventoryChanged
    | Seen
    | Taken
    | Progressed
    | Checkpointed
    | Loaded
    | Synced
    | Unreachable
    | Warned
)


@dataclass(frozen=True, slots=True)
class Start:
    """An instance that shall run at a place."""

    instance: InstanceId
    """Its index is a number that no other instance of the attempt ever had here, not its rank."""
    desired: Desired
    placement: Placement
    """In the numbers of the inventory that was told last; they change when nodes come or go."""
    node: str = ""
    """The name of its node."""
    devices: tuple[int, ...] = ()
    """Numbers of its devices within its node, which stay when other nodes come or go."""
    rank: int = 0
    """Among the workers of its gang, from 0."""
    world_size: int = 1
    """Workers of its gang when it starts."""


class PartitionRefusedError(DureError):
    """A node's devices are not divided anew, and nothing was changed."""


class PartitionFailedError(DureError):
    """A node's devices could not be divided as they should be."""


class Carrier(Protocol):
    """A cluster's hands and eyes. Everything may be asked twice; errors are `DureError`s."""

    @property
    def kind(self) -> str:
        """`kubernetes` or `process`."""

    def watch(self) -> AsyncIterator[Sight]:
        """All that is there now, `Synced`, then every change; goes on by itself after breaks."""

    async def refusal(self, desired: Desired) -> str:
        """Why this cluster can never run it; empty: it can."""

    async def start(self, starts: Sequence[Start]) -> None:
        """Begin instances of one attempt, all that belong together in one call."""

    async def stop(self, instance: InstanceId, grace_s: float) -> None:
        """End an instance and remove its object; nothing where there is none."""

    async def request(self, instance: InstanceId, number: int) -> None:
        """Ask an instance's program for a checkpoint of that number; 0: not any more. Nothing where
        there is no such instance."""

    async def forget(self, instance: InstanceId) -> None:
        """Remove what is left of an instance that is over, once nobody needs it any more; its end
        was told, this is not."""

    async def resize(self, instance: InstanceId, placement: Placement) -> None:
        """Give an instance that runs another slice of the devices it has, in node groups that the
        inventory names as `resize:GROUP`; nothing where there is no such instance."""

    async def repartition(self, partition: Partition) -> str:
        """Divide a node's devices anew, unless anything uses them; returns what is still awaited,
        nothing once the node shows it. Raises `PartitionRefusedError`, `PartitionFailedError`;
        after any other error it is asked again."""

    def logs(self, instance: InstanceId, *, follow: bool, tail: int | None) -> AsyncIterator[bytes]:
        """What it wrote."""

    async def close(self) -> None:
        """Let go of the cluster; nothing that runs is touched."""


class Memory(Protocol):
    """What a member must not forget when it dies: plain data by name, kept in its cluster."""

    async def load(self) -> Mapping[str, Any]:
        """All entries."""

    async def save(self, changed: Mapping[str, Any], removed: Sequence[str] = ()) -> None:
        """Store entries; durable when it returns."""


class Fence(Protocol):
    """Stops what must not outlive its contact to the centre even where the member itself is dead.

    Not every cluster has one; where there is none a new member does it as soon as it starts."""

    async def heard(self, ago_s: float) -> None:
        """So long ago the centre surely heard of this member."""


class Election(Protocol):
    """Which of several members of a cluster acts."""

    async def lead(self) -> None:
        """Returns when this one leads."""

    async def lost(self) -> None:
        """Returns when it does so no longer; it must stop acting before that."""
