"""One agent for one folder: a lock that ends with its holder."""

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dure.domain.errors import DureError, InputError


class AlreadyRunningError(DureError):
    """Another agent has the folder."""


@dataclass(frozen=True, slots=True)
class Lock:
    """The held pid file."""

    file: Path
    handle: int

    def release(self) -> None:
        """Let another agent have the folder."""
        with suppress(OSError):
            self.file.unlink()
        os.close(self.handle)


def take(file: Path) -> Lock:
    """Hold the pid file for this process; raises where another agent does."""
    while True:
        try:
            handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise InputError(
                f"{file} cannot be written ({error.strerror})",
                "name a folder of your own in DURE_RUN_DIR",
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(handle, 32, 0).decode(errors="replace").strip() or "?"
            os.close(handle)
            raise AlreadyRunningError(
                f"an agent (process {pid}) already runs in {file.parent}",
                "use that one, or end it first",
            ) from None
        if _same_file(file, handle):
            break
        os.close(handle)  # its holder removed it between our open and our lock
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    return Lock(file, handle)


def _same_file(file: Path, handle: int) -> bool:
    try:
        return os.path.samestat(file.stat(), os.fstat(handle))
    except OSError:
        return False
