"""The monitor as the agent sees it: started, told how often to look, started again when it dies."""

import logging
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from dure.agent.containers.monitor import IDLE_PERIOD_NS, PERIOD
from dure.agent.containers.table_memory import Pulse, TableReader, make_memory
from dure.domain.containers import TaskTable
from dure.domain.units import NS_PER_MS, NS_PER_S

_log = logging.getLogger(__name__)

_COMMAND = (sys.executable, "-m", "dure.agent.containers.monitor")
_FIRST_BACK_OFF_S = 0.25
_LONGEST_BACK_OFF_S = 30.0
_STEADY_NS = 10 * NS_PER_S
"""A monitor that lived this long starts with the shortest back-off again."""
_STALE_NS = 2 * NS_PER_S
"""A beat this much older than the period says nothing about now: the machine may be slow, but more
blindness than this is too much to keep anybody waiting on it."""
_START_NS = 15 * NS_PER_S
"""How long a first look may take: the driver may have to wake several GPUs."""
_STALE_PERIODS = 3
_HUNG_NS = 5 * NS_PER_S
"""And one this old will not come back: it is ended and started again."""
_REFRESH_NS = 100 * NS_PER_MS
"""How often an unchanged table is handed on: whoever decides sees that time passes."""
_GRACE_S = 0.5
_END_S = 2.0


@dataclass(slots=True)
class MonitorProcess:
    """Owns the process; hands tables to whoever decides, from a thread of its own."""

    on_table: Callable[[TaskTable], None] = lambda _: None
    on_news: Callable[[str | None], None] = lambda _: None
    """Called with a sentence when there is no information any more, and with None when there is."""
    command: Sequence[str] = _COMMAND
    process: "subprocess.Popen[bytes] | None" = None
    deaths: int = 0
    _handle: int = field(default_factory=make_memory)
    _reader: TableReader = field(init=False)
    _line: socket.socket | None = None
    _period_ns: int = IDLE_PERIOD_NS
    _fresh: bool | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self._reader = TableReader(self._handle)

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the process, then the thread."""
        self._stop.set()
        process = self.process
        if process is not None and process.poll() is None:
            process.terminate()
        if self._thread is not None:
            self._thread.join(2 * _END_S)
            self._thread = None

    @property
    def period_ns(self) -> int:
        """Asked for between two looks."""
        return self._period_ns

    def pulse(self) -> Pulse:
        """How the process does."""
        return self._reader.pulse()

    def look_every(self, period_ns: int) -> None:
        """How long to wait between two looks from now on; from any thread."""
        with self._lock:
            if period_ns == self._period_ns:
                return
            self._period_ns = period_ns
            self._send_period()

    def _send_period(self) -> None:
        if self._line is not None:
            with suppress(OSError):
                self._line.send(PERIOD.pack(self._period_ns))

    def _run(self) -> None:
        back_off_s = _FIRST_BACK_OFF_S
        while not self._stop.is_set():
            began_ns = time.monotonic_ns()
            try:
                reason = self._one_life()
            except OSError as error:
                reason = f"the monitor cannot be started ({error.strerror})"
            except Exception:  # noqa: BLE001, logged with its trace
                _log.exception("reading the monitor's table failed; it is started again")
                reason = "the monitor's table cannot be read"
            if self._stop.is_set():
                break
            self.deaths += 1
            self._set_fresh(False, reason)
            lived_ns = time.monotonic_ns() - began_ns
            back_off_s = _FIRST_BACK_OFF_S if lived_ns > _STEADY_NS else back_off_s
            _log.warning("%s; it is started again in %g s", reason, back_off_s)
            self._stop.wait(back_off_s)
            back_off_s = min(2 * back_off_s, _LONGEST_BACK_OFF_S)

    def _one_life(self) -> str:
        """Start a monitor and follow it to its end; how it ended."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                command = [*self.command, "--table", str(self._handle)]
                process = subprocess.Popen(
                    [*command, "--line", str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(self._handle, theirs.fileno()),
                    env={k: v for k, v in os.environ.items() if k != "LD_PRELOAD"},
                )
            self.process = process
            ours.setblocking(False)
            with self._lock:
                self._line = ours
                self._send_period()
            try:
                self._follow(ours)
            finally:
                with self._lock:
                    self._line = None
                _end(process)
        return f"the monitor ended ({_how(process.returncode)})"

    def _follow(self, line: socket.socket) -> None:
        """Hand on every new table, and an unchanged one now and then, until the line breaks."""
        poller = select.poll()
        poller.register(line.fileno(), select.POLLIN)
        started_ns = last_ns = time.monotonic_ns()
        looks = self._reader.pulse().looks
        while not self._stop.is_set():
            wait_ns = max(_REFRESH_NS, min(self._period_ns, NS_PER_S))
            ready = bool(poller.poll(wait_ns // NS_PER_MS))
            if ready and not _drain(line):
                return
            now_ns = time.monotonic_ns()
            pulse = self._reader.pulse()
            if pulse.beat_ns < started_ns:
                if now_ns - started_ns > _START_NS:
                    return
                continue
            late_ns = now_ns - pulse.beat_ns
            if late_ns > _STALE_NS + _STALE_PERIODS * self._period_ns:
                self._set_fresh(False, "the monitor does not look any more")
                if late_ns > _HUNG_NS + _STALE_PERIODS * self._period_ns:
                    return
                continue
            refresh = now_ns - last_ns >= wait_ns and pulse.looks != looks
            if not ready and not refresh:
                continue
            table = self._reader.read()
            if table is not None:
                last_ns, looks = now_ns, pulse.looks
                self._set_fresh(True, None)
                self.on_table(table)

    def _set_fresh(self, fresh: bool, reason: str | None) -> None:
        if fresh != self._fresh:
            self._fresh = fresh
            self.on_news(None if fresh else reason)


def _drain(line: socket.socket) -> bool:
    """Take all that was said; whether the other end is still there."""
    try:
        while line.recv(16):
            pass
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Give it time to end by itself, ask it to, make it; it holds nothing a kill could spoil."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_S)
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _how(code: int | None) -> str:
    if code is None:
        return "unknown"
    return f"signal {-code}" if code < 0 else f"exit code {code}"
