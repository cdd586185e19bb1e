"""What a job runs, in words that every kind of cluster understands."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class ThingKind(Enum):
    """What a program may need of its cluster beside devices."""

    SECRET = "secret"
    CONFIG_MAP = "config-map"
    VOLUME = "volume"
    """A claim of storage that exists already."""


@dataclass(frozen=True, slots=True, order=True)
class Thing:
    """Something a job names and its cluster must have, in the namespace of the job's tenant."""

    kind: str
    """Value of a `ThingKind`."""
    name: str


@dataclass(frozen=True, slots=True)
class Mount:
    """A thing as files of the program."""

    thing: Thing
    path: str
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class Program:
    """An image or a command, and what it finds around it."""

    image: str = ""
    """Empty: a command of the host; only clusters of kind `process` run those."""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    env_from: tuple[Thing, ...] = ()
    """Secrets and config maps whose entries become variables."""
    mounts: tuple[Mount, ...] = ()
    working_dir: str = ""
    service_account: str = ""
    grace_s: float = 30.0
    """From the request to end until it is killed."""
    port: int | None = None
    """Where a service answers; it is ready once somebody can connect there."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    pod: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the Pod's spec, for those who need one that is not named here."""

    @property
    def things(self) -> frozenset[Thing]:
        """All that must exist in a cluster for it to run there."""
        return frozenset(self.env_from) | {mount.thing for mount in self.mounts}
