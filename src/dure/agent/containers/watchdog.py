"""The watchdog: a process of its own that lets containers go when their agent cannot.

It follows the journal and keeps a connection to the agent. It lets go
  everything, at once, when the agent dies: the connection ends with it;
  everything, when the agent hangs: its beats stop, though the connection lasts;
  one container, when its pause is past its deadline and the agent did not keep to it.
It never pauses. Without a connection to it the agent pauses nothing either. When its folder is
removed nobody can find it any more: it lets go what it knows of, and ends.
"""

import argparse
import fcntl
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from dure.agent.containers.thawing import SETTLE_S, Thawed, Thawer, settle
from dure.agent.lock import AlreadyRunningError
from dure.domain.containers import PauseWay
from dure.domain.errors import DureError, InputError
from dure.runtimes.journal import Journal, JournalBusyError, JournalLock
from dure.runtimes.journal_records import Follower, Owed

_log = logging.getLogger(__name__)

SOCKET_NAME = "watchdog.sock"
PID_NAME = "watchdog.pid"
LOG_NAME = "watchdog.log"
BEAT = b"beat"
HERE = b"here"

HUNG_S = 3.0
"""A beat comes four times a second; an agent that is this late hangs."""
LATE_S = 0.5
"""How far past its deadline a pause may be before the watchdog steps in: the agent's own turn."""
ADOPT_S = 3.0
"""How long a process that holds the journal may go without a connection here: it is starting."""
LEAVE_S = 5.0
"""A watchdog that an agent started for itself ends so long after it."""
LEAVE_UNTOLD_S = 600.0
"""The same where a runtime that is away could not be told yet."""

_TICK_S = 0.1
_ALERT_TICK_S = 0.02
"""While something is owed and no agent is connected."""
_START_S = 30.0
_MEND_AGAIN_NS = 1_000_000_000
_BACKLOG = 4
_MESSAGE_BYTES = 64
_OOM_SCORE = "-900"
_NICENESS = -10


@dataclass(slots=True)
class _Peer:
    """A connected agent."""

    connection: socket.socket
    beat_ns: int


@dataclass(slots=True)
class Watchdog:
    """Everything but the process around it."""

    folder: Path
    thawer: Thawer = field(default_factory=Thawer)
    leave: bool = False
    """End when the agent is gone and nothing is owed."""
    hung_s: float = HUNG_S
    _follower: Follower = field(init=False)
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    _listener: socket.socket = field(init=False)
    _peers: dict[socket.socket, _Peer] = field(default_factory=dict)
    _alone_since_ns: int = 0
    _to_mend: set[str] = field(default_factory=set)
    """Runtimes that may take containers for paused that run."""
    _mend_at_ns: int = 0
    _warm: bool = False
    _over: bool = False
    _home: os.stat_result = field(init=False)
    """The folder as it was at the start: one of the same name made since is another's."""

    def __post_init__(self) -> None:
        self._home = self.folder.stat()
        self._follower = Follower(self.folder)
        self._alone_since_ns = time.monotonic_ns()
        where = self.folder / SOCKET_NAME
        where.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.setblocking(False)
        self._listener.bind(str(where))
        where.chmod(0o600)
        self._listener.listen(_BACKLOG)
        self._selector.register(self._listener, selectors.EVENT_READ)

    def end(self) -> None:
        """Come to an end after the present turn; from any thread or a signal."""
        self._over = True

    def run(self) -> None:
        """Watch until told to end; then let go what nobody else looks after."""
        while not self._over:
            if not self._at_home():
                self._lose_home()
                return
            try:
                self._listen(self._tick_s())
                self.look(time.monotonic_ns())
                if self._may_leave():
                    break
            except Exception:  # noqa: BLE001, logged with its trace
                if self._at_home():
                    _log.exception("the watchdog met something unexpected and goes on")
                    time.sleep(_TICK_S)
        for peer in list(self._peers.values()):
            self._drop(peer)
        if self._follower.owed() and JournalLock(self.folder).free():
            self._thaw_for_good()

    def close(self) -> None:
        """Give everything back."""
        self._selector.close()
        self._listener.close()
        self._follower.close()
        if self._at_home():
            (self.folder / SOCKET_NAME).unlink(missing_ok=True)
        self.thawer.close()

    # Its folder

    def _at_home(self) -> bool:
        """Whether its folder is still there, and the journal where there was one."""
        try:
            same = os.path.samestat(self.folder.stat(), self._home)
        except OSError:
            return False
        return same and not self._follower.lost()

    def _lose_home(self) -> None:
        """Let go what was owed when the folder went; nobody could ask for it later."""
        _log.error("%s or its journal was removed: all is let go, the watchdog ends", self.folder)
        for peer in list(self._peers.values()):
            self._drop(peer)  # so that the agent pauses nothing more
        until = time.monotonic() + 2 * SETTLE_S
        owed = self._follower.owed()
        while owed and time.monotonic() < until:
            settled = {thawed.owed for thawed in self._thaw(owed) if thawed.settled}
            owed = tuple(each for each in owed if each not in settled)
            time.sleep(_ALERT_TICK_S)

    # The agent

    def _tick_s(self) -> float:
        alert = not self._peers and self._follower.owed()
        return _ALERT_TICK_S if alert else _TICK_S

    def _listen(self, wait_s: float) -> None:
        for key, _ in self._selector.select(wait_s):
            if key.fileobj is self._listener:
                self._accept()
            elif isinstance(key.fileobj, socket.socket):
                self._hear(self._peers[key.fileobj])

    def _accept(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            self._peers[connection] = _Peer(connection, time.monotonic_ns())
            self._selector.register(connection, selectors.EVENT_READ)
            _log.info("an agent is here")

    def _hear(self, peer: _Peer) -> None:
        try:
            while said := peer.connection.recv(_MESSAGE_BYTES):
                if said == BEAT:
                    peer.beat_ns = time.monotonic_ns()
                    peer.connection.send(HERE)
        except BlockingIOError:
            return
        except OSError:
            pass
        _log.info("the agent is gone")
        self._drop(peer)

    def _drop(self, peer: _Peer) -> None:
        self._selector.unregister(peer.connection)
        peer.connection.close()
        del self._peers[peer.connection]
        if not self._peers:
            self._alone_since_ns = time.monotonic_ns()
            self._to_mend |= self._follower.runtimes

    # What is owed

    def look(self, now_ns: int) -> None:
        """One turn: who is to be let go?"""
        for peer in list(self._peers.values()):
            if now_ns - peer.beat_ns > self.hung_s * 1e9:
                _log.error("the agent hangs; its containers are let go")
                self._drop(peer)  # so that it knows, when it goes on
                self._thaw(self._follower.owed())
        owed = self._follower.owed()
        self.thawer.keep(owed)
        self._get_warm(owed)
        if self._peers:
            self._thaw(each for each in owed if now_ns > each.resume_by_ns + LATE_S * 1e9)
        elif owed:
            self._look_after(owed, now_ns)
        elif self._to_mend and now_ns >= self._mend_at_ns:
            self._mend_at_ns = now_ns + _MEND_AGAIN_NS
            self._mend()

    def _look_after(self, owed: tuple[Owed, ...], now_ns: int) -> None:
        """Nobody is connected: let all go, in the agent's place where it is dead."""
        if JournalLock(self.folder).free():
            self._thaw_for_good()
        elif now_ns - self._alone_since_ns > ADOPT_S * 1e9:
            self._thaw(owed)

    def _thaw(self, owed: Iterable[Owed]) -> tuple[Thawed, ...]:
        """Let go beside a process that has the journal: nothing is written down."""
        results = self.thawer.thaw(each for each in owed if self.thawer.due(each))
        for thawed in results:
            if thawed.how or thawed.error:
                _log.warning("container %s: %s", thawed.owed.name, _words(thawed))
        return results

    def _thaw_for_good(self) -> None:
        """Let go as the one that has the journal: what is settled is written down."""
        if not any(map(self.thawer.due, self._follower.owed())):
            return
        try:
            journal = Journal(self.folder, lambda _: None)
        except JournalBusyError:
            return  # an agent came in between, and lets them go itself
        except DureError as error:
            _log.error("%s", error)
            self._thaw(self._follower.owed())  # a full disk is no reason to stay frozen
            return
        try:
            due = [each for each in journal.owed() if self.thawer.due(each)]
            settle(journal, self.thawer.thaw(due))
        finally:
            journal.close()

    def _mend(self) -> None:
        """Where the agent thawed by cgroup because Docker was away, and then died: tell Docker."""
        for url in tuple(self._to_mend):
            try:
                self.thawer.mend(url, self.folder)
            except JournalBusyError:
                self._to_mend.clear()  # an agent came, and does it itself
            except DureError as error:
                _log.debug("%s", error)
            else:
                self._to_mend.discard(url)

    def _get_warm(self, owed: tuple[Owed, ...]) -> None:
        if not self._warm and any(each.way is PauseWay.CUDA_LOCK for each in owed):
            self._warm = True
            threading.Thread(target=self.thawer.warm, name="warm", daemon=True).start()

    def _may_leave(self) -> bool:
        alone_s = (time.monotonic_ns() - self._alone_since_ns) / 1e9
        return (
            self.leave
            and not self._peers
            and alone_s > (LEAVE_UNTOLD_S if self._to_mend else LEAVE_S)
            and not self._follower.owed()
            and JournalLock(self.folder).free()
        )


def _words(thawed: Thawed) -> str:
    said = f"{thawed.outcome.value} ({thawed.how})" if thawed.how else thawed.outcome.value
    return f"{said}: {thawed.error}" if thawed.error else said


def run(folder: Path, *, leave: bool = False) -> None:
    """Be the watchdog of a folder until SIGTERM or SIGINT."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        held = os.open(folder / PID_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written ({error.strerror})",
            "name a folder of your own in DURE_RUN_DIR",
        ) from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.pread(held, 32, 0).decode(errors="replace").strip() or "?"
        os.close(held)
        raise AlreadyRunningError(
            f"a watchdog (process {pid}) already runs in {folder}", "use that one"
        ) from None
    try:
        os.ftruncate(held, 0)
        os.pwrite(held, f"{os.getpid()}\n".encode(), 0)
        _be_spared()
        watchdog = _make(folder, leave=leave)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: watchdog.end())
        _log.info("watching over %s", folder)
        try:
            watchdog.run()
        finally:
            watchdog.close()
    finally:
        os.close(held)


def _make(folder: Path, *, leave: bool) -> Watchdog:
    try:
        return Watchdog(folder, leave=leave)
    except OSError as error:
        raise InputError(
            f"{folder / SOCKET_NAME} cannot be listened at ({error.strerror or error})",
            "name a folder of your own with a short path in DURE_RUN_DIR",
        ) from error


def _be_spared() -> None:
    """Ask the kernel to take others first when memory or time is short."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE, encoding="ascii")
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)


def start(folder: Path) -> None:
    """A watchdog in a session of its own and nobody's child, which ends some time after the agent
    that started it. Where one runs already, the new one ends at once."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    environment = {name: text for name, text in os.environ.items() if name != "LD_PRELOAD"}
    with (folder / LOG_NAME).open("ab") as log:
        subprocess.run(
            [sys.executable, "-m", "dure.agent.containers.watchdog", str(folder), "--leave"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            timeout=_START_S,
            check=False,
        )


def main() -> None:
    """`python -m dure.agent.containers.watchdog FOLDER [--leave]`; with --leave, in the background
    and only for as long as there is an agent."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--leave", action="store_true")
    options = parser.parse_args()
    if options.leave:
        if os.fork() > 0:
            os._exit(0)
        os.setsid()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        run(options.folder, leave=options.leave)
    except DureError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
