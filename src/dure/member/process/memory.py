"""A member's memory in files: one file of entries that is replaced, and a journal of changes to it.

A change is a line added to the journal and synced, so that it costs the same however much is known.
When the journal has grown larger than what it changes, both become one new file. A line that could
not be added as a whole is taken away again, so that no other is written behind a part of it.
"""

import asyncio
import json
import os
import threading
from collections.abc import Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Any

from dure.domain.errors import DureError
from dure.kit.files import FileProblem, read_text, write_text

_LEAST_JOURNAL_BYTES = 1024 * 1024
"""A journal shorter than that is never worth a new file."""


class FileMemory:
    """Entries in a folder."""

    def __init__(self, folder: Path) -> None:
        self._whole = folder / "memory.json"
        self._changes = folder / "memory.journal"
        self._entries: dict[str, Any] = {}
        self._journal: FileIO | None = None
        self._journal_bytes = self._whole_bytes = 0
        self._torn = False
        """Whether part of a line is in the journal and could not be taken away."""
        self._lock = threading.Lock()

    async def load(self) -> Mapping[str, Any]:
        """All entries."""
        return await asyncio.to_thread(self._load)

    async def save(self, changed: Mapping[str, Any], removed: Sequence[str] = ()) -> None:
        """Store entries; durable when it returns."""
        await asyncio.to_thread(self._save, dict(changed), list(removed))

    def _load(self) -> Mapping[str, Any]:
        with self._lock:
            try:
                self._read()
                self._rewrite()
            except (FileProblem, OSError) as error:
                raise DureError(
                    f"the memory of the member cannot be used ({error})", "see to its state folder"
                ) from error
            return dict(self._entries)

    def _read(self) -> None:
        if self._whole.exists():
            try:
                self._entries = dict(json.loads(read_text(self._whole)))
            except (ValueError, TypeError) as error:
                raise _spoilt(f"{self._whole}") from error
        lines = self._changes.read_bytes().split(b"\n") if self._changes.exists() else [b""]
        for number, line in enumerate(lines[:-1], 1):
            try:
                change = json.loads(line)
                self._apply(change["set"], change["drop"])
            except (ValueError, TypeError, KeyError) as error:
                raise _spoilt(f"line {number} of {self._changes}") from error
        # What is behind the last end of a line was torn, and never said to be stored.

    def _apply(self, changed: Mapping[str, Any], removed: Sequence[str]) -> None:
        self._entries.update(changed)
        for name in removed:
            self._entries.pop(name, None)

    def _save(self, changed: dict[str, Any], removed: list[str]) -> None:
        with self._lock:
            try:
                if self._torn:
                    self._rewrite()
                self._note(changed, removed)
                self._apply(changed, removed)
                if self._journal_bytes > max(self._whole_bytes, _LEAST_JOURNAL_BYTES):
                    self._rewrite()
            except (FileProblem, OSError) as error:
                raise DureError(
                    f"what the member knows cannot be stored ({error})", "see to its state folder"
                ) from error

    def _note(self, changed: dict[str, Any], removed: list[str]) -> None:
        if self._journal is None:
            raise OSError("it was not loaded")
        line = f"{json.dumps({'set': changed, 'drop': removed})}\n".encode()
        self._torn, left = True, memoryview(line)
        try:
            while left:
                left = left[self._journal.write(left) :]
            os.fsync(self._journal.fileno())
        except OSError:
            self._journal.truncate(self._journal_bytes)
            self._torn = False
            raise
        self._journal_bytes += len(line)
        self._torn = False

    def _rewrite(self) -> None:
        """Everything in one file, and an empty journal. All that is in the file is in the journal
        before it as well, so whoever reads both after a crash in between reads the same."""
        text = json.dumps(self._entries)
        write_text(self._whole, text)
        if self._journal is None:
            self._journal = FileIO(self._changes, "ab")
        self._journal.truncate(0)
        self._whole_bytes, self._journal_bytes, self._torn = len(text), 0, False
        parent = os.open(self._changes.parent, os.O_RDONLY)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)

    def close(self) -> None:
        """Let go of the files."""
        if self._journal is not None:
            self._journal.close()


def _spoilt(where: str) -> DureError:
    """Something in the midst of what was stored cannot be read: to leave it out would be to forget
    what the centre may have been told, and that is not for a program to decide."""
    return DureError(
        f"{where} is not what a member has written there",
        "bring it back from a copy, or, once nothing of this cluster runs any more, move the"
        " member's memory.json and memory.journal away and start it without memory",
    )
