"""What processes take of this machine, as the kernel counts it: processor time and memory."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_KIB = 1024
_USER, _SYSTEM = 11, 12
"""Where a process's own times lie in its `stat`, counted after its name."""


def cpu_s(pid: int) -> float:
    """Processor time a process has used, with all its threads; 0 where it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    fields = text.rpartition(")")[2].split()
    return (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICKS_PER_S


@dataclass(frozen=True, slots=True)
class Memory:
    """What a process holds in main memory."""

    now_bytes: int
    peak_bytes: int


def memory(pid: int) -> Memory:
    """Of a process that runs."""
    found = {"VmRSS": 0, "VmHWM": 0}
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        name, _, rest = line.partition(":")
        if name in found:
            found[name] = int(rest.split()[0]) * _KIB
    return Memory(found["VmRSS"], found["VmHWM"])


class Shares:
    """How much of a core each of some processes took since this was made."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = dict(pids)
        self._before_s = {name: cpu_s(pid) for name, pid in self._pids.items()}

    def taken_s(self) -> dict[str, float]:
        """Processor time by name, in the order given."""
        return {name: cpu_s(pid) - self._before_s[name] for name, pid in self._pids.items()}
