"""Follows a container runtime: what runs when it answers, then what happens, one by one."""

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from dure.agent.containers.ports import ContainerRuntime
from dure.domain.containers import Container
from dure.domain.errors import DureError
from dure.runtimes.events import RuntimeEvent, RuntimeEventKind

_log = logging.getLogger(__name__)

_FIRST_BACK_OFF_S = 0.2
_LONGEST_BACK_OFF_S = 5.0
"""Docker is back within seconds of its restart; who waits longer lets containers collide."""
_WITH_FACTS = (RuntimeEventKind.STARTED, RuntimeEventKind.CHANGED, RuntimeEventKind.ENDED)
"""An end may be that of an earlier life of a container that runs again."""


@dataclass(slots=True)
class Watcher:
    """A thread that tells others; goes on after every loss of the connection."""

    runtime: ContainerRuntime
    on_list: Callable[[tuple[Container, ...]], None]
    """Everything that runs, each time the connection is made."""
    on_event: Callable[[RuntimeEvent, Container | None], None]
    """What happened; with the container's facts where they are new."""
    on_loss: Callable[[str], None]
    """Nobody answers, and why."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name="runtime", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Listen no more."""
        self._stop.set()
        self.runtime.close()
        if self._thread is not None:
            self._thread.join(2.0)

    def _run(self) -> None:
        back_off_s = _FIRST_BACK_OFF_S
        while not self._stop.is_set():
            try:
                for event in self._connect():
                    back_off_s = _FIRST_BACK_OFF_S
                    if self._stop.is_set():
                        return
                    self._take(event)
                reason = "the runtime closed the connection"
            except DureError as error:
                reason = str(error)
            except Exception as error:  # noqa: BLE001, logged with its trace
                _log.exception("following the container runtime failed; it is tried again")
                reason = f"{type(error).__name__}: {error}"
            if self._stop.is_set():
                return
            self.on_loss(reason)
            self._stop.wait(back_off_s)
            back_off_s = min(2 * back_off_s, _LONGEST_BACK_OFF_S)

    def _connect(self) -> Iterator[RuntimeEvent]:
        """Listen first and look then, so that nothing falls between the two."""
        events = self.runtime.events()
        self.on_list(self.runtime.containers())
        return events

    def _take(self, event: RuntimeEvent) -> None:
        facts = None
        if event.kind in _WITH_FACTS:
            facts = self.runtime.inspect(event.container)
            if facts is None and event.kind is not RuntimeEventKind.ENDED:
                return  # it has ended already; that is reported, too
        self.on_event(event, facts)
