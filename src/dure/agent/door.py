"""Registration: the socket where tenant programs say hello, and the watch over their lives.

One thread, one selector. A client is over when its socket closes or its process ends, whichever
is seen first: children inherit sockets, so the close alone may never come.
"""

import logging
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from dure.agent.registry import Holder
from dure.agent.wire import (
    HELLO_BYTES,
    Hello,
    Peer,
    Welcome,
    peer_of,
    pidfd_of,
    pidfd_of_pid,
    start_time_of,
)

_log = logging.getLogger(__name__)

_BACKLOG = 128
_MUTE_NS = 5_000_000_000
"""Who connects and says nothing for so long is shown out."""
_ROUND_S = 0.1
"""The longest between two looks at what time alone changes."""
_MOST_WAITING = 256
"""Connections that have not said hello; more are closed at once."""


@dataclass(frozen=True, slots=True)
class ClientKey:
    """One registered client: its GPU, its slot, and which of the slot's users it is."""

    gpu: str
    slot: int
    turn: int


@dataclass(frozen=True, slots=True)
class Admission:
    """What became of a hello."""

    welcome: Welcome
    key: ClientKey | None = None
    descriptors: tuple[int, ...] = ()


class Host(Protocol):
    """What the door needs of the agent."""

    def admit(self, hello: Hello | None, peer: Peer) -> Admission:
        """Decide about a newcomer."""
        ...

    def client_left(self, key: ClientKey, *, alive: bool) -> None:
        """Its connection is gone; `alive`: its process still runs."""
        ...

    def client_died(self, key: ClientKey) -> None:
        """Its process ended."""
        ...

    def holder_died(self, tenant: str, holder: Holder) -> None:
        """A process that held a declaration ended."""
        ...

    def sweep(self) -> None:
        """Time passed."""
        ...


@dataclass(slots=True)
class _Visitor:
    """A connection, and what is watched of the process behind it."""

    connection: socket.socket | None
    peer: Peer
    since_ns: int
    pidfd: int | None = None
    key: ClientKey | None = None


@dataclass(slots=True)
class Door:
    """The registration socket of one agent."""

    path: Path
    mode: int
    host: Host
    _listener: socket.socket = field(init=False)
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    _visitors: dict[int, _Visitor] = field(default_factory=dict)
    """By the number of their connection; those that have not said hello."""
    _departed: dict[tuple[str, int], _Visitor] = field(default_factory=dict)
    """By GPU and slot: those whose connection is gone and whose process still runs."""
    _bell: int = field(default_factory=lambda: os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
    _errands: list[Callable[[], None]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopping: bool = False
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self._listener = listen(self.path, socket.SOCK_SEQPACKET, self.mode)
        self._selector.register(self._listener, selectors.EVENT_READ, self._arrive)
        self._selector.register(self._bell, selectors.EVENT_READ, self._run_errands)

    def start(self) -> None:
        """Begin to let clients in."""
        self._thread = threading.Thread(target=self._run, name="door", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening; clients notice by the heartbeat, not by their sockets."""
        self._stopping = True
        self._ring()
        if self._thread is not None:
            self._thread.join(5.0)

    def watch_holder(self, tenant: str, holder: Holder) -> bool:
        """Have the end of a holder told; whether it is still there."""
        fd = pidfd_of_pid(holder.pid)
        if fd is None or start_time_of(holder.pid) != holder.started:
            if fd is not None:
                os.close(fd)
            return False

        def ended() -> None:
            self._unwatch(fd)
            self.host.holder_died(tenant, holder)

        self._errand(lambda: self._watch(fd, ended))
        return True

    # Its thread

    def _run(self) -> None:
        while not self._stopping:
            for key, _ in self._selector.select(_ROUND_S):
                self._guarded(key.data)
            self._guarded(self.host.sweep)
            self._guarded(self._show_out_the_mute)
        self._listener.close()

    def _guarded(self, act: Callable[[], None]) -> None:
        """One visitor's trouble is not the others'."""
        try:
            act()
        except Exception:  # noqa: BLE001, logged with its trace
            _log.exception("registration met something unexpected and goes on")

    def _ring(self) -> None:
        os.eventfd_write(self._bell, 1)

    def _errand(self, act: Callable[[], None]) -> None:
        with self._lock:
            self._errands.append(act)
        self._ring()

    def _run_errands(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._bell)
        with self._lock:
            errands, self._errands = self._errands, []
        for act in errands:
            act()

    def _watch(self, fd: int, act: Callable[[], None]) -> None:
        self._selector.register(fd, selectors.EVENT_READ, act)

    def _unwatch(self, fd: int) -> None:
        with suppress(KeyError):
            self._selector.unregister(fd)
        os.close(fd)

    # Visitors

    def _arrive(self) -> None:
        connection, _ = self._listener.accept()
        connection.setblocking(False)
        if len(self._visitors) >= _MOST_WAITING:
            connection.close()
            return
        visitor = _Visitor(connection, peer_of(connection), time.monotonic_ns())
        self._visitors[connection.fileno()] = visitor
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._hear(visitor))

    def _hear(self, visitor: _Visitor) -> None:
        connection = visitor.connection
        assert connection is not None
        try:
            data = connection.recv(HELLO_BYTES + 1)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if visitor.key is None:
            self._visitors.pop(connection.fileno(), None)
            if data:
                self._answer(visitor, connection, data)
            else:
                self._close(visitor)
        elif not data:
            self._close(visitor)
            if visitor.pidfd is not None:
                self._departed[visitor.key.gpu, visitor.key.slot] = visitor
            self.host.client_left(visitor.key, alive=visitor.pidfd is not None)

    def _answer(self, visitor: _Visitor, connection: socket.socket, data: bytes) -> None:
        visitor.pidfd = pidfd_of(connection, visitor.peer)
        admission = self.host.admit(Hello.parse(data), visitor.peer)
        try:
            socket.send_fds(connection, [admission.welcome.pack()], list(admission.descriptors))
        except OSError as error:
            _log.warning("process %d went away while registering (%s)", visitor.peer.pid, error)
            if admission.key is not None:
                self.host.client_died(admission.key)
            admission = Admission(admission.welcome)
        if admission.key is None:
            self._close(visitor)
            if visitor.pidfd is not None:
                os.close(visitor.pidfd)
            return
        visitor.key = admission.key
        before = self._departed.pop((admission.key.gpu, admission.key.slot), None)
        if before is not None and before.pidfd is not None:
            self._unwatch(before.pidfd)  # the same process is back: one watch over it is enough
            before.pidfd = None
        if visitor.pidfd is not None:
            self._watch(visitor.pidfd, lambda: self._died(visitor))

    def _died(self, visitor: _Visitor) -> None:
        fd, visitor.pidfd = visitor.pidfd, None
        if fd is not None:
            self._unwatch(fd)
        self._close(visitor)
        if visitor.key is not None:
            place = (visitor.key.gpu, visitor.key.slot)
            if self._departed.get(place) is visitor:
                del self._departed[place]
            self.host.client_died(visitor.key)

    def _close(self, visitor: _Visitor) -> None:
        if visitor.connection is None:
            return
        with suppress(KeyError):
            self._selector.unregister(visitor.connection)
        visitor.connection.close()
        visitor.connection = None

    def _show_out_the_mute(self) -> None:
        limit_ns = time.monotonic_ns() - _MUTE_NS
        for number, visitor in list(self._visitors.items()):
            if visitor.since_ns < limit_ns:
                del self._visitors[number]
                self._close(visitor)


def listen(path: Path, kind: socket.SocketKind, mode: int) -> socket.socket:
    """A listening UNIX socket in place of whatever was there, with this mode from the start."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, kind)
    before = os.umask(0o777 & ~mode)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    path.chmod(mode)
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener
