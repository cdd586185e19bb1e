"""What goes wrong on a simulated host, and what people do there."""

from dataclasses import dataclass
from enum import Enum


class FaultKind(Enum):
    """What is away for a while."""

    AGENT = "agent"
    """The agent is killed, and started again at the end."""
    DOCKER = "docker"
    """The Docker daemon does not answer; containers run on."""
    WATCHDOG = "watchdog"
    """Nobody guards the pauses."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something is away from one moment of the run to another."""

    kind: FaultKind
    at_ns: int
    length_ns: int


class Deed(Enum):
    """What a person does to a container."""

    DOCKER_PAUSE = "docker-pause"
    DOCKER_UNPAUSE = "docker-unpause"
    DOCKER_STOP = "docker-stop"
    PAUSE = "pause"
    RESUME = "resume"
    EXEMPT = "exempt"


@dataclass(frozen=True, slots=True)
class PersonAct:
    """A person does something to a container at a moment of the run."""

    at_ns: int
    container: str
    deed: Deed
