"""The monitor's process: looks at the GPUs as often as it is told, writes down what changed.

`python -m dure.agent.containers.monitor --table FD --line FD`: the task table goes into the shared
memory, and over the line, a socket to the agent, one byte says that it changed. What comes back
over the line is how long to wait between two looks. When the agent goes, the line breaks and so
does this process; nobody else holds its other end.
"""

import argparse
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from dure.agent.containers.looking import Looker, gave_back, same
from dure.agent.containers.pacing import Pace
from dure.agent.containers.processes import ProcessBook, container_finder
from dure.agent.containers.table_memory import TableWriter
from dure.devices.nvml_watch import NvmlWatch
from dure.devices.segments import make_room_for_descriptors
from dure.domain.containers import TaskTable
from dure.domain.errors import DureError
from dure.domain.units import NS_PER_MS

PERIOD = struct.Struct("=Q")
"""A message of the agent: nanoseconds between two looks."""
CHANGED = b"t"
IDLE_PERIOD_NS = 250 * NS_PER_MS
"""Until told otherwise."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Look until the agent goes; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m dure.agent.containers.monitor")
    parser.add_argument("--table", type=int, required=True, help="descriptor of shared memory")
    parser.add_argument("--line", type=int, required=True, help="descriptor of a socket")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C at the terminal is the agent's
    make_room_for_descriptors()
    line = socket.socket(fileno=given.line)
    line.setblocking(False)
    try:
        reader = NvmlWatch()
        looker = Looker(reader, ProcessBook(container_finder()))
        watch(Monitor(looker, TableWriter(given.table)), line)
    except DureError as error:
        sys.stderr.write(f"the monitor ends: {error}\n")
        return 1
    return 0


@dataclass(slots=True)
class Monitor:
    """Looks, and writes down what changed."""

    looker: Looker
    memory: TableWriter
    freed: bool = False
    """At the last look a program had less memory than before."""
    _written: TaskTable | None = None

    def tick(self, now_ns: int) -> tuple[bool, int]:
        """One look; whether it found anything new, and how long it took."""
        began_ns = time.monotonic_ns()
        table = self.looker.look(now_ns)
        changed = not same(self._written, table)
        self.freed = changed and gave_back(self._written, table)
        if changed:
            self.memory.publish(table)
            self._written = table
        took_ns = time.monotonic_ns() - began_ns
        self.memory.beat(now_ns, took_ns, time.process_time_ns(), self.looker.left_out)
        return changed, took_ns


def watch(monitor: Monitor, line: socket.socket) -> None:
    """Look and wait; returns when the line is broken."""
    period_ns = IDLE_PERIOD_NS
    pace = Pace()
    poller = select.poll()
    poller.register(line.fileno(), select.POLLIN)
    while True:
        began_ns, used_ns = time.monotonic_ns(), time.process_time_ns()
        changed, _ = monitor.tick(began_ns)
        if changed and not _tell(line):
            return
        used_ns = time.process_time_ns() - used_ns
        pace.looked(began_ns, time.monotonic_ns(), used_ns, freed=monitor.freed)
        while True:
            left_ns = pace.due_ns(period_ns) - time.monotonic_ns()
            if left_ns <= 0 or not poller.poll(max(1, left_ns // NS_PER_MS)):
                break
            told_ns = _told(line, period_ns)
            if told_ns is None:
                return
            period_ns = told_ns


def _tell(line: socket.socket) -> bool:
    """Say that the table changed; whether anybody is there."""
    try:
        line.send(CHANGED)
    except BlockingIOError:
        return True  # it has not read what it was told before: it will look anyway
    except OSError:
        return False
    return True


def _told(line: socket.socket, before_ns: int) -> int | None:
    """The newest period the agent asked for; None where the agent is gone."""
    newest_ns = before_ns
    try:
        while data := line.recv(PERIOD.size):
            if len(data) == PERIOD.size:
                newest_ns = PERIOD.unpack(data)[0]
    except BlockingIOError:
        return newest_ns
    except OSError:
        pass
    return None


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
