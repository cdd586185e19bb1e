"""Records of the journal of pauses, and how they are read: what is owed after each line of it."""

import json
import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from dure.domain.containers import PauseWay
from dure.domain.ids import ContainerId
from dure.runtimes.cgroups import Freezer, boot_id
from dure.runtimes.docker import Place

_log = logging.getLogger(__name__)

NAME = "journal"
Key = tuple[ContainerId, PauseWay]


@dataclass(frozen=True, slots=True)
class Owed:
    """One container that Dure paused in one way, or was about to."""

    container: ContainerId
    name: str
    started_ns: int
    way: PauseWay
    resume_by_ns: int
    """Monotonic clock of this boot."""
    done: bool
    """Whether the pause is known to have taken effect."""
    place: Place
    frozen_before: bool = False
    """Somebody else had frozen it when the record was written: then that is not Dure's to undo."""


def read(file: Path) -> tuple[Owed, ...]:
    """What is owed by a journal on this boot, oldest first; nothing where there is none."""
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return ()
    owed: dict[Key, Owed] = {}
    replay(text.split(b"\n"), boot_id(), owed)
    return tuple(owed.values())


class Follower:
    """A reader that parses only what was added since it last looked."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / NAME
        self._boot = boot_id()
        self._stream: IO[bytes] | None = None
        """Kept open, so that its inode cannot become that of another file."""
        self._offset = 0
        self._owed: dict[Key, Owed] = {}
        self.runtimes: set[str] = set()
        """Addresses of all runtimes whose containers were ever paused."""

    def owed(self) -> tuple[Owed, ...]:
        """What is owed now; of a file that was removed, what it owed then."""
        there = self._there()
        if there is None and self._stream is None:
            return ()
        if there is not None and not self._reads(there):
            self.close()
            try:
                self._stream = self._file.open("rb", buffering=0)
            except FileNotFoundError:
                return ()
        assert self._stream is not None
        if os.fstat(self._stream.fileno()).st_size > self._offset:
            self._stream.seek(self._offset)
            self._take(self._stream.read())
        return tuple(self._owed.values())

    def lost(self) -> bool:
        """Whether the file that was followed has been removed, and no other is in its place."""
        return self._stream is not None and self._there() is None

    def _there(self) -> os.stat_result | None:
        try:
            return self._file.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _reads(self, there: os.stat_result) -> bool:
        return self._stream is not None and os.path.samestat(os.fstat(self._stream.fileno()), there)

    def close(self) -> None:
        """Begin anew at the next look."""
        if self._stream is not None:
            self._stream.close()
        self._stream, self._offset, self._owed = None, 0, {}

    def _take(self, added: bytes) -> None:
        """Take whole lines; what is still being written waits for its end."""
        whole = added[: added.rfind(b"\n") + 1]
        self._offset += len(whole)
        replay(whole.split(b"\n"), self._boot, self._owed)
        self.runtimes |= {each.place.runtime for each in self._owed.values()}


def key_of(owed: Owed) -> Key:
    return owed.container, owed.way


def replay(lines: Iterable[bytes], boot: str, owed: dict[Key, Owed]) -> None:
    for line in lines:
        if not line:
            continue
        try:
            _apply(json.loads(line), boot, owed)
        except (ValueError, KeyError, TypeError):
            # The last one was torn by a kill, so what it announced did not happen.
            _log.warning("a line of the journal makes no sense and is left out: %r", line[:80])


def _apply(record: dict[str, Any], boot: str, owed: dict[Key, Owed]) -> None:
    container = ContainerId(record["container"])
    way = PauseWay(record["way"]) if "way" in record else None
    match record["record"]:
        case "intend" if way is not None:
            owed.pop((container, way), None)
            if record["boot"] == boot:
                owed[container, way] = _owed(record, container, way)
        case "done" if way is not None and (container, way) in owed:
            owed[container, way] = replace(owed[container, way], done=True)
        case "forget":
            forget(owed, container, way)


def forget(owed: dict[Key, Owed], container: ContainerId, way: PauseWay | None) -> None:
    for key in [key for key in owed if key[0] == container and way in (None, key[1])]:
        del owed[key]


def _owed(record: dict[str, Any], container: ContainerId, way: PauseWay) -> Owed:
    found = record["place"]
    freezer = found["freezer"]
    place = Place(
        str(found["runtime"]),
        int(found["pid"]),
        int(found["started_ticks"]),
        freezer and Freezer(Path(freezer["folder"]), int(freezer["version"])),
    )
    return Owed(
        container,
        str(record["name"]),
        int(record["started_ns"]),
        way,
        int(record["resume_by_ns"]),
        bool(record["done"]),
        place,
        bool(record["frozen_before"]),
    )


def intention(owed: Owed, boot: str) -> dict[str, Any]:
    place, freezer = owed.place, owed.place.freezer
    return {
        "record": "intend",
        "boot": boot,
        "container": owed.container,
        "name": owed.name,
        "started_ns": owed.started_ns,
        "way": owed.way.value,
        "resume_by_ns": owed.resume_by_ns,
        "done": owed.done,
        "frozen_before": owed.frozen_before,
        "place": {
            "runtime": place.runtime,
            "pid": place.pid,
            "started_ticks": place.started_ticks,
            "freezer": freezer and {"folder": str(freezer.folder), "version": freezer.version},
        },
    }


def line_of(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"
