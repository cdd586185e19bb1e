"""A small agent for tests of the shim: real shared memory and a real socket, no decisions."""

import array
import contextlib
import ctypes
import socket
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from dure.devices import layout
from dure.devices.plane import CounterReading, PlaneDevice, PlaneSegments
from dure.domain.ids import PlanEpoch, TenantId
from dure.domain.plan import Plan, SmSet, Squad, SquadMember

BEAT_S = 0.02


@dataclass(slots=True)
class Words:
    """The slow-moving words of one tenant."""

    clients: int = 0
    memory_limit_bytes: int = 0
    memory_reserve_bytes: int = 0
    copy_bytes_per_s: int = 0
    target_ns: int = 0
    free: bool = False


@dataclass(slots=True)
class StubAgent:
    """Lets every client in, beats, and publishes what a test says."""

    path: Path
    device: PlaneDevice = field(
        default_factory=lambda: PlaneDevice(
            sms=132, group_sms=8, memory_bytes=80 << 30, uuid=b"\x44" * 16
        )
    )
    refuse: int = 0
    version: int = layout.VERSION
    tenants: dict[str, int] = field(default_factory=dict)
    words: dict[str, Words] = field(default_factory=dict)
    hellos: list[layout.Hello] = field(default_factory=list)
    segments: PlaneSegments = field(init=False)
    _connections: list[socket.socket] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _epoch: int = 0
    _live: int = 0

    def __post_init__(self) -> None:
        self.segments = PlaneSegments(self.device)
        self.segments.beat(time.monotonic_ns())
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(str(self.path))
        listener.listen(64)
        listener.settimeout(0.05)
        self._threads = [
            threading.Thread(target=self._let_in, args=(listener,)),
            threading.Thread(target=self._beat),
        ]
        for thread in self._threads:
            thread.start()

    def _beat(self) -> None:
        while not self._stop.wait(BEAT_S):
            self.segments.beat(time.monotonic_ns())
            self.segments.turn_over(time.monotonic_ns())

    def _let_in(self, listener: socket.socket) -> None:
        with listener:
            while not self._stop.is_set():
                with contextlib.suppress(TimeoutError):
                    connection, _ = listener.accept()
                    self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(5)
        hello = layout.Hello.from_buffer_copy(connection.recv(ctypes.sizeof(layout.Hello)))
        client = len(self.hellos)
        self.hellos.append(hello)
        welcome = layout.Welcome(magic=layout.MAGIC, version=self.version, status=self.refuse)
        if self.refuse:
            welcome.reason = b"the test says no"
            connection.send(bytes(welcome))
            connection.close()
            return
        name = hello.tenant.decode()
        with self._lock:
            tenant = self.tenants.setdefault(name, len(self.tenants))
        welcome.client, welcome.tenant = client, tenant
        self.words.setdefault(name, Words()).clients |= 1 << client
        self.segments.set_tenant(tenant, self.words[name])
        self._live |= 1 << client
        self.segments.set_live_clients(self._live)
        descriptors = array.array("i", self.segments.descriptors_for(client))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)]
        connection.sendmsg([bytes(welcome)], rights)
        self._connections.append(connection)

    def set_words(self, name: str, words: Words) -> None:
        """The tenant's words, before or after it came."""
        with self._lock:
            index = self.tenants.setdefault(name, len(self.tenants))
        words.clients |= self.words.get(name, Words()).clients
        self.words[name] = words
        self.segments.set_tenant(index, words)

    def publish(self, *members: SquadMember, protected: tuple[str, ...] = ()) -> None:
        """Gate, with one squad."""
        self._epoch += 1
        with self._lock:
            for member in members:
                self.tenants.setdefault(str(member.tenant), len(self.tenants))
        plan = Plan(
            epoch=PlanEpoch(self._epoch),
            policy="test",
            squads=(Squad(members, duration_ns=10**9),),
            protected=tuple(TenantId(name) for name in protected),
        )
        index = {TenantId(name): number for name, number in self.tenants.items()}
        self.segments.publish(plan, index)
        self.segments.turn_over(time.monotonic_ns())
        self.segments.set_gated(True)

    def read(self, client: int) -> CounterReading:
        """A client's words."""
        found = self.segments.read(client)
        assert found is not None
        return found

    def stop_beating(self) -> None:
        """As if killed: threads end, words stay as they are."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for connection in self._connections:
            connection.close()

    def close(self) -> None:
        """End, and give all memory back."""
        self.stop_beating()
        self.segments.close()
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()


WHOLE = SmSet(0, 132)


def member(name: str, **orders: object) -> SquadMember:
    """A member that may use the whole device unless told otherwise."""
    orders.setdefault("sms", WHOLE)
    return SquadMember(tenant=TenantId(name), **orders)  # type: ignore[arg-type]
