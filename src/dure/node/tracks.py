"""One container: what its runtime, people and its labels say of it, and whether it is held."""

from dataclasses import dataclass, field
from enum import Enum

from dure.domain.containers import Container, PauseWay
from dure.domain.errors import InputError
from dure.domain.ids import ContainerId, GpuUuid
from dure.domain.node_instructions import NEVER_NS
from dure.node.labels import Labels, parse_labels


class Grip(Enum):
    """Whether Dure holds a container."""

    FREE = "free"
    TAKING = "being paused"
    HELD = "paused"
    LETTING = "being let go"


@dataclass(slots=True, eq=False)
class Track:
    """A container that runs."""

    container: Container
    seen_ns: int
    """When it started, or was found, on the machine's clock."""
    found: bool
    labels: Labels = field(default_factory=Labels)
    complaint: str | None = None
    """What is wrong with its labels."""

    grip: Grip = Grip.FREE
    way: PauseWay | None = None
    """How it is held, or was asked to be."""
    held_ns: int = 0
    """When the pause was asked for."""
    resume_by_ns: int = NEVER_NS
    reason: str = ""
    """Why it is held, or was let go last."""
    by_person: bool = False
    """The pause belongs to `dure node pause`."""
    retry_ns: int | None = None
    """When letting go is to be tried again."""

    stuck: bool = False
    """Letting go has failed at least once."""

    person_paused: bool = False
    """`dure node pause` is in force."""
    paused_by_others: bool = False
    """Somebody paused it with the runtime's own command."""
    exempted: bool = False
    """`dure node exempt` is in force."""
    hands_off_until_ns: int = 0
    unpausable_until_ns: int = 0
    unpausable: str = ""
    restless: int = 0
    """How often in a row it did not come to rest when it was to be paused."""
    stopping: bool = False
    shimmed: bool = False
    """Its program runs under the shim: level 1 schedules it."""

    memory_bytes: dict[GpuUuid, int] = field(default_factory=dict)
    share: dict[GpuUuid, float] = field(default_factory=dict)
    started_ticks: int = 0
    """Start of its first process on a GPU; 0: it has none."""
    oldest_ticks: int = 0
    """Start of the oldest process it has on a GPU now; 0: it has none now."""
    newest_ticks: int = 0
    """Start of the newest process it ever had on a GPU."""

    @classmethod
    def start(cls, container: Container, now_ns: int, found: bool) -> "Track":
        """A container that began to run, or was found."""
        track = cls(container, now_ns, found, paused_by_others=container.paused)
        track.retell(container)
        return track

    def retell(self, container: Container) -> None:
        """Take in new facts."""
        self.container = container
        try:
            self.labels, self.complaint = parse_labels(container.labels), None
        except InputError as error:
            self.labels, self.complaint = Labels(), str(error)

    @property
    def id(self) -> ContainerId:
        """Its runtime's id."""
        return self.container.id

    @property
    def gripped(self) -> bool:
        """Dure keeps it from the GPU, or is about to."""
        return self.grip is Grip.HELD or self.grip is Grip.TAKING

    @property
    def held_by_person(self) -> bool:
        """A person keeps it from the GPU."""
        return self.person_paused or self.paused_by_others

    @property
    def exempt(self) -> bool:
        """A person or a label wants it left alone."""
        return self.exempted or self.labels.exempt

    def unmanaged(self) -> str | None:
        """Why it can never be paused by Dure."""
        if not self.container.gpus:
            return "it was given no GPU"
        if self.container.unmanaged is not None:
            return self.container.unmanaged
        if self.complaint is not None:
            return self.complaint
        if self.shimmed:
            return "its program runs under the shim, which schedules it launch by launch"
        return None

    def untouchable(self, now_ns: int) -> str | None:
        """Why it may not be paused now."""
        reason = self.unmanaged()
        if reason is not None:
            return reason
        if self.exempt:
            return "it is exempt"
        if self.held_by_person:
            return "a person paused it"
        if self.stopping:
            return "it is stopping"
        if now_ns < self.hands_off_until_ns:
            return "a person let it go"
        return self.unpausable if now_ns < self.unpausable_until_ns else None
