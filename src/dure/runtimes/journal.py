"""The journal of pauses: what Dure keeps from the GPU, on disk before it happens.

One line of JSON for each record, each on disk when its call returns:

    intend   about to pause: from here on the container is Dure's to let go
    done     the pause took effect
    forget   it runs again, or is gone

What is owed is every `intend` without its `forget`. Records of another boot owe nothing, since a
kernel that starts anew remembers no freeze. One process writes at a time, whoever holds the lock
beside the file; readers need none, and a last line that was torn by a kill counts as not written.
A journal that somebody removes is made anew with the next record.
"""

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from dure.domain.containers import Container, PauseWay
from dure.domain.errors import DureError, InputError
from dure.domain.ids import ContainerId
from dure.runtimes import journal_records as records
from dure.runtimes.cgroups import boot_id
from dure.runtimes.docker import Place
from dure.runtimes.docker_errors import ContainerGoneError
from dure.runtimes.journal_records import Owed

_log = logging.getLogger(__name__)

LOCK_NAME = "journal.lock"
COMPACT_BYTES = 256 * 1024
"""Some 500 pauses; a reader that follows the file parses so much in 5 ms."""
_LOOK_S = 0.02


class JournalBusyError(DureError):
    """Another process writes the journal."""


class JournalLock:
    """The right to write a journal; ends with its holder, and no child inherits it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / LOCK_NAME
        self._handle: int | None = None

    def take(self, wait_s: float = 0.0) -> bool:
        """Whether it is ours now; waits for another holder so long at most."""
        if self._handle is not None:
            return True
        until = time.monotonic() + wait_s
        handle = os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    os.close(handle)
                    return False
                time.sleep(_LOOK_S)
            else:
                self._handle = handle
                return True

    def free(self) -> bool:
        """Whether nobody holds it."""
        if self._handle is not None:
            return False
        if self.take():
            self.release()
            return True
        return False

    def release(self) -> None:
        """Let another process write."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


class Journal:
    """The writer's side; one for each folder and process.

    `place_of` says where a container's processes are, so that they can be let go without asking
    its runtime.
    """

    def __init__(
        self,
        folder: Path,
        place_of: Callable[[Container], Place | None],
        wait_s: float = 0.0,
        compact_bytes: int = COMPACT_BYTES,
    ) -> None:
        self.file = folder / records.NAME
        self._place_of = place_of
        self._compact_bytes = compact_bytes
        self._boot = boot_id()
        self._guard = threading.Lock()
        self._lock = JournalLock(folder)
        self._unmended: dict[records.Key, Owed] = {}
        """Records of flags whose mending failed, and which could not be forgotten yet."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self._lock.take(wait_s):
                raise JournalBusyError(
                    f"another process manages the containers of {folder}", "end it first"
                )
            self._owed = {records.key_of(each): each for each in records.read(self.file)}
            self._handle = -1
            self._compact()
        except OSError as error:
            self._lock.release()
            raise InputError(
                f"{folder} cannot be written ({error.strerror})",
                "name a folder of your own in DURE_RUN_DIR",
            ) from error

    def owed(self) -> tuple[Owed, ...]:
        """What Dure still has to let go, oldest first."""
        with self._guard:
            return tuple(self._owed.values())

    def intend(self, container: Container, way: PauseWay, resume_by_ns: int) -> None:
        """About to pause; on disk when this returns. `resume_by_ns`: monotonic, of this boot.

        Raises where the container is gone: nobody could say later what is to be let go.
        """
        place = self._where(container)
        with self._guard:
            self._intend(container, way, resume_by_ns, place)

    def mend(self, container: Container, resume_by_ns: int, act: Callable[[], None]) -> bool:
        """Do what freezes a container for a moment, written down; False: a pause of it is under
        way, so nothing was done. A pause that is written down meanwhile stays.

        Whether it works or not, nothing is owed afterwards that is not frozen: whoever lets go
        what is owed would else undo the pause of a person later.
        """
        key = (container.id, PauseWay.DOCKER)
        place = self._where(container)
        with self._guard:
            if key in self._owed and self._owed[key] is not self._unmended.get(key):
                return False
            own = self._intend(container, PauseWay.DOCKER, resume_by_ns, place)
            self._unmended[key] = own
        try:
            act()
        except BaseException:
            frozen = place.freezer is None or place.freezer.frozen() is True
            try:
                if not frozen:
                    self._mended(own)
            except DureError as error:
                _log.error("%s", error)  # what went wrong first is the one to tell
            raise
        self._mended(own)
        return True

    def _mended(self, own: Owed) -> None:
        self.forget_record(own)
        with self._guard:
            self._unmended.pop(records.key_of(own), None)

    def _where(self, container: Container) -> Place:
        place = self._place_of(container)
        if place is None:
            raise ContainerGoneError("it does not run any more, or was started anew")
        return place

    def _intend(self, container: Container, way: PauseWay, resume_by_ns: int, place: Place) -> Owed:
        """The record as it was written; for whoever has the guard."""
        frozen = place.freezer is not None and place.freezer.frozen() is True
        owed = Owed(
            container=container.id,
            name=container.name,
            started_ns=container.started_ns,
            way=way,
            resume_by_ns=resume_by_ns,
            done=False,
            place=place,
            frozen_before=frozen and (container.id, way) not in self._owed,  # else it is ours
        )
        self._append(records.intention(owed, self._boot))
        self._owed[records.key_of(owed)] = owed
        return owed

    def done(self, container: ContainerId, way: PauseWay) -> None:
        """The pause took effect."""
        with self._guard:
            self._append({"record": "done", "container": container, "way": way.value})
            owed = self._owed.get((container, way))
            if owed is not None:
                self._owed[container, way] = replace(owed, done=True)

    def forget(self, container: ContainerId, way: PauseWay | None = None) -> None:
        """It runs again, or is gone; `way`: only this way is undone."""
        with self._guard:
            self._forget(container, way)

    def forget_record(self, owed: Owed) -> None:
        """What this very record says is over; one that was written anew since stays."""
        with self._guard:
            if self._owed.get(records.key_of(owed)) == owed:
                self._forget(owed.container, owed.way)

    def _forget(self, container: ContainerId, way: PauseWay | None) -> None:
        """For whoever has the guard."""
        record: dict[str, Any] = {"record": "forget", "container": container}
        if way is not None:
            record["way"] = way.value
        self._append(record)
        records.forget(self._owed, container, way)
        try:
            if os.fstat(self._handle).st_size > self._compact_bytes:
                self._compact()
        except OSError as error:  # it is forgotten all the same, in a file that grows
            _log.warning("%s cannot be made short (%s)", self.file, error.strerror)

    def close(self) -> None:
        """Let another process write."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
        self._lock.release()

    def _append(self, record: dict[str, Any]) -> None:
        data = records.line_of(record)
        size: int | None = None
        try:
            if os.fstat(self._handle).st_nlink == 0:
                self._make_anew()
            size = os.fstat(self._handle).st_size
            _write(self._handle, data)
            os.fdatasync(self._handle)
        except OSError as error:
            if size is not None:
                with suppress(OSError):  # half a line would spoil the next one
                    os.ftruncate(self._handle, size)
            raise DureError(
                f"{self.file} cannot be written ({error.strerror})", "make room there"
            ) from error

    def _make_anew(self) -> None:
        """Somebody removed the journal, maybe with its folder: a watchdog must find it again."""
        _log.warning("%s was removed; it is made anew", self.file)
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock.release()
        if not self._lock.take():
            raise JournalBusyError(
                f"another process manages the containers of {self.file.parent}", "end it first"
            )
        self._compact()

    def _compact(self) -> None:
        """Replace the file by what is owed; readers see the old one or the new one."""
        draft = self.file.with_suffix(".new")
        lines = [
            records.line_of(records.intention(owed, self._boot)) for owed in self._owed.values()
        ]
        mode = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        handle = os.open(draft, mode, 0o600)
        before = handle  # closed at the end: the draft's, unless it took the journal's place
        try:
            _write(handle, b"".join(lines))
            os.fsync(handle)
            draft.replace(self.file)
            before, self._handle = self._handle, handle
        except OSError:
            with suppress(OSError):  # where the disk is full it only takes room
                draft.unlink()
            raise
        finally:
            if before >= 0:
                os.close(before)
        with suppress(OSError):  # not every file system has it
            _sync(self.file.parent)


def _write(handle: int, data: bytes) -> None:
    """All of it: the kernel may take less at a time."""
    while data:
        data = data[os.write(handle, data) :]


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
