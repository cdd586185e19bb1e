"""What the core asks to be done in its cluster; each may be done twice without harm."""

from dataclasses import dataclass

from dure.domain.fleet.decisions import InstanceId
from dure.domain.fleet.protocol import Partition
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
class Forget:
    """Remove what is left of an instance that is over."""

    instance: InstanceId


@dataclass(frozen=True, slots=True)
class Divide:
    """Divide a node's devices anew, or say how far that is."""

    partition: Partition


Action = Begin | End | Forget | Divide
