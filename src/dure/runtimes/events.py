"""What a container runtime reports while it runs."""

from dataclasses import dataclass
from enum import Enum

from dure.domain.ids import ContainerId


class RuntimeEventKind(Enum):
    """What happened to a container."""

    STARTED = "started"
    ENDED = "ended"
    """Stopped, died or removed."""
    STOPPING = "stopping"
    """Somebody asked it to end: a stop or kill is under way."""
    PAUSED = "paused"
    RESUMED = "resumed"
    CHANGED = "changed"
    """Renamed, or another of its facts changed."""


@dataclass(frozen=True, slots=True)
class RuntimeEvent:
    """One report; whoever wants the facts asks for the container itself."""

    kind: RuntimeEventKind
    container: ContainerId
    own: bool = False
    """A pause or its end that this process asked for by its own connection; False: somebody else
    did, or this cannot be told."""
