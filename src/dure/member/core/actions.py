"""What the core asks to be done in its cluster; each may be done twice without harm."""

from dataclasses import dataclass

from dure.domain.fleet.decisions import InstanceId, Placement
from dure.domain.fleet.protocol.desired import Partition
from dure.member.ports import Start


@dataclass(frozen=True, slots=True)
class Begin:
    """Start instances of one attempt together."""

    starts: tuple[Start, ...]


@dataclass(frozen=True, slots=True)
class End:
    """Stop an instance and remove it."""

    instance: InstanceId
    grace_s: float


@dataclass(frozen=True, slots=True)
class Request:
    """Ask an instance's program for a checkpoint; number 0: not any more."""

    instance: InstanceId
    number: int


@dataclass(frozen=True, slots=True)
class Forget:
    """Remove what is left of an instance that is over."""

    instance: InstanceId


@dataclass(frozen=True, slots=True)
class Divide:
    """Divide a node's devices anew, or say how far that is."""

    partition: Partition


@dataclass(frozen=True, slots=True)
class Resize:
    """Give an instance that runs more or less of the devices it has."""

    instance: InstanceId
    placement: Placement


Action = Begin | End | Request | Forget | Divide | Resize
