"""What managing containers needs of runtimes, said by the side that uses them."""

from collections.abc import Iterator
from typing import Protocol

from dure.domain.containers import Container, NodeView, PauseWay
from dure.domain.ids import ContainerId
from dure.domain.node_events import NodeEvent
from dure.domain.node_instructions import NodeInstruction
from dure.node.history import ImageRecord
from dure.runtimes.events import RuntimeEvent


class ContainerRuntime(Protocol):
    """What runs the containers of this host."""

    def containers(self) -> tuple[Container, ...]:
        """Everything that runs now, paused or not; raises a `DureError` where nobody answers."""

    def inspect(self, container: ContainerId) -> Container | None:
        """One of them; None where it does not run any more."""

    def events(self) -> Iterator[RuntimeEvent]:
        """What happens from the call on, one by one, until the runtime goes: then it raises a
        `DureError`, and whoever listens looks at `containers` again. `close` ends it."""

    def close(self) -> None:
        """Give the connection back; from any thread."""


class Pauser(Protocol):
    """One way to keep containers from the GPU; used by several threads at once."""

    @property
    def way(self) -> PauseWay: ...

    def unsupported(self) -> str | None:
        """Why this way does not work on this host at all; None: it does."""

    def pause(self, container: Container) -> None:
        """Returns when it is kept from the GPU; raises a `DureError` where it is not (and then
        leaves nothing half done), a `StillHeldError` where that could not be made sure."""

    def resume(self, container: Container) -> None:
        """Returns when it runs, also where it ran already or is gone; raises a `DureError` where
        it could not be let go."""


class ContainerMachine(Protocol):
    """What decides: `dure.node.machine.NodeMachine`."""

    def handle(self, event: NodeEvent) -> tuple[NodeInstruction, ...]:
        """What is to be done about an event."""

    def view(self, now_ns: int) -> NodeView:
        """What people see."""

    def why(self, container: ContainerId, now_ns: int) -> tuple[str, ...]:
        """Sentences about where a container stands."""

    def history(self) -> tuple[ImageRecord, ...]:
        """What was learned of images."""


class PauseJournal(Protocol):
    """What was paused by Dure, on disk before it happens."""

    def intend(self, container: Container, way: PauseWay, resume_by_ns: int) -> None:
        """About to pause; on disk when this returns. `resume_by_ns`: monotonic, of this boot."""

    def done(self, container: ContainerId, way: PauseWay) -> None:
        """The pause took effect."""

    def forget(self, container: ContainerId) -> None:
        """It runs again, or is gone."""
