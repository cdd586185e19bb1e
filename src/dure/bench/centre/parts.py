"""Which part of a fleet of processes uses the cores of this machine: from what /proc tells."""

import os
from collections.abc import Iterator
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PARTS = (
    (b"workloads.greeter", "instances"),
    (b"supervisor.py", "supervisors"),
    (b"\0front\0", "front"),
    (b"\0member\0", "members"),
    (b"\0server\0", "server"),
)
"""What the command line of a part has in it; the first that fits counts."""


def used_by_parts() -> dict[str, float]:
    """Seconds of a core that each part has used since its start; who asks is this process."""
    found: dict[str, float] = {}
    for pid, line in _own():
        part = "who asks" if pid == os.getpid() else _part(line)
        if part == "instances":
            part = f"instance of attempt {_attempt(pid)}"
        if part:
            found[part] = found.get(part, 0.0) + _used_s(pid)
    return found


def _own() -> Iterator[tuple[int, bytes]]:
    """This process and all that it started, with their command lines."""
    parents = dict(_parents())
    for pid in parents:
        above = pid
        while above not in (0, os.getpid()):
            above = parents.get(above, 0)
        if above:
            try:
                yield pid, Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue


def _parents() -> Iterator[tuple[int, int]]:
    """Every process with the one that started it."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            yield int(entry.name), int(text.rpartition(")")[2].split()[1])


def _part(line: bytes) -> str:
    return next((name for words, name in _PARTS if words in line), "")


def _attempt(pid: int) -> str:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return "?"
    known = dict(each.partition(b"=")[::2] for each in variables)
    return known.get(b"DURE_ATTEMPT", b"?").decode(errors="replace")


def _used_s(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0.0
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / _TICKS_PER_S
