"""Which of several members of one state folder acts: whoever holds its lock, until it dies."""

import asyncio
import fcntl
import os
from pathlib import Path

_LOOK_S = 0.5


class FileElection:
    """A lock on a file; the kernel takes it back when its holder ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "member.lock"
        self._handle: int | None = None

    async def lead(self) -> None:
        """Returns when this one holds the lock."""
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.close()
        self._handle = handle
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                await asyncio.sleep(_LOOK_S)
            else:
                return

    async def lost(self) -> None:
        """Never returns: nobody can take the lock away."""
        await asyncio.Event().wait()

    def close(self) -> None:
        """Let another one lead."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
