"""A member's memory in files: one file of entries that is replaced, and a journal of changes to it.

A change is a line added to the journal and synced, so that it costs the same however much is known.
When the journal has grown larger than what it changes, both become one new file.
"""

import asyncio
import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

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
        self._journal: BinaryIO | None = None
        self._journal_bytes = self._whole_bytes = 0
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
            except FileProblem as error:
                raise DureError(str(error)) from error
            return dict(self._entries)

    def _read(self) -> None:
        if self._whole.exists():
            self._entries = json.loads(read_text(self._whole))
        lines = (
            self._changes.read_bytes().splitlines(keepends=True) if self._changes.exists() else []
        )
        for line in lines:
            if not line.endswith(b"\n"):
                break  # the last one, torn: it was never said to be stored
            change = json.loads(line)
            self._apply(change["set"], change["drop"])

    def _apply(self, changed: Mapping[str, Any], removed: Sequence[str]) -> None:
        self._entries.update(changed)
        for name in removed:
            self._entries.pop(name, None)

    def _save(self, changed: dict[str, Any], removed: list[str]) -> None:
        with self._lock:
            self._apply(changed, removed)
            try:
                self._note(changed, removed)
                if self._journal_bytes > max(self._whole_bytes, _LEAST_JOURNAL_BYTES):
                    self._rewrite()
            except (FileProblem, OSError) as error:
                raise DureError(
                    f"what the member knows cannot be stored ({error})", "see to its state folder"
                ) from error

    def _note(self, changed: dict[str, Any], removed: list[str]) -> None:
        if self._journal is None:
            raise OSError("it was not loaded")
        line = json.dumps({"set": changed, "drop": removed}) + "\n"
        self._journal.write(line.encode())
        self._journal.flush()
        os.fsync(self._journal.fileno())
        self._journal_bytes += len(line)

    def _rewrite(self) -> None:
        """Everything in one file, and an empty journal. All that is in the file is in the journal
        before it as well, so whoever reads both after a crash in between reads the same."""
        text = json.dumps(self._entries)
        write_text(self._whole, text)
        if self._journal is not None:
            self._journal.close()
        self._journal = self._changes.open("wb")
        parent = os.open(self._changes.parent, os.O_RDONLY)
        os.fsync(parent)
        os.close(parent)
        self._whole_bytes, self._journal_bytes = len(text), 0

    def close(self) -> None:
        """Let go of the files."""
        if self._journal is not None:
            self._journal.close()
