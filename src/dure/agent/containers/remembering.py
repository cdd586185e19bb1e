"""What was learned of images, kept over restarts of the agent."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from dure.domain.errors import DureError
from dure.kit.files import FileProblem, read_text, write_text
from dure.node.history import ImageRecord

_log = logging.getLogger(__name__)

_EVERY_S = 30.0
_RECORDS = TypeAdapter(tuple[ImageRecord, ...])


@dataclass(slots=True)
class Memory:
    """A file, and a thread that writes it now and then."""

    file: Path
    learned: Callable[[], tuple[ImageRecord, ...]] = tuple
    _written: tuple[ImageRecord, ...] = ()
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def load(self) -> tuple[ImageRecord, ...]:
        """What is known from before; nothing where the file is missing or makes no sense."""
        if not self.file.exists():
            return ()
        try:
            self._written = _RECORDS.validate_json(read_text(self.file))
        except (FileProblem, ValidationError) as error:
            _log.warning("%s is left out: %s", self.file, str(error).splitlines()[0])
            return ()
        return self._written

    def start(self) -> None:
        """Begin to write."""
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write a last time."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(5.0)

    def _run(self) -> None:
        while True:
            over = self._stop.wait(_EVERY_S)
            self._save()
            if over:
                return

    def _save(self) -> None:
        try:
            learned = self.learned()
            if learned != self._written:
                write_text(self.file, _RECORDS.dump_json(learned).decode())
                self._written = learned
        except (DureError, FileProblem) as error:
            _log.warning("what was learned of images is not kept: %s", error)
