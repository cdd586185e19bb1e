"""The two messages of registration, as `native/abi.h` lays them out, and who sent them."""

import os
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from dure.devices.layout import MAGIC, VERSION

_HELLO = struct.Struct("=QIIII16s64s64s")
_WELCOME = struct.Struct("=QIIII128s")
_CREDENTIALS = struct.Struct("=iII")
_SO_PEERPIDFD = 77
"""Of asm-generic/socket.h, Linux 6.5; Python has no name for it."""

HELLO_BYTES = _HELLO.size
WELCOME_BYTES = _WELCOME.size


class Verdict(IntEnum):
    """DURE_WELCOME and DURE_REFUSED_*."""

    WELCOME = 0
    VERSION = 1
    TENANT = 2
    FULL = 3
    DEVICE = 4


@dataclass(frozen=True, slots=True)
class Hello:
    """A client's first message."""

    magic: int
    version: int
    plan_bytes: int
    slot_bytes: int
    uuid: bytes
    tenant: str
    program: str

    @classmethod
    def parse(cls, data: bytes) -> "Hello | None":
        """The message; None where it has not even the size of one."""
        if len(data) != HELLO_BYTES:
            return None
        magic, version, plan_bytes, slot_bytes, _, uuid, tenant, program = _HELLO.unpack(data)
        return cls(magic, version, plan_bytes, slot_bytes, uuid, _text(tenant), _text(program))

    def pack(self) -> bytes:
        """As it is sent; for tests and tools."""
        return _HELLO.pack(
            self.magic,
            self.version,
            self.plan_bytes,
            self.slot_bytes,
            0,
            self.uuid,
            self.tenant.encode(),
            self.program.encode(),
        )


@dataclass(frozen=True, slots=True)
class Welcome:
    """The agent's answer."""

    verdict: Verdict
    client: int = 0
    tenant: int = 0
    reason: str = ""

    def pack(self) -> bytes:
        """As it is sent; a long reason is cut, its last byte stays 0."""
        reason = self.reason.encode()[:127].decode(errors="ignore").encode()
        return _WELCOME.pack(MAGIC, VERSION, self.verdict, self.client, self.tenant, reason)

    @classmethod
    def parse(cls, data: bytes) -> "Welcome":
        """As it is received; for tests and tools."""
        _, _, verdict, client, tenant, reason = _WELCOME.unpack(data)
        return cls(Verdict(verdict), client, tenant, _text(reason))


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end of a UNIX socket, as this process sees it."""

    pid: int
    """0: in a pid namespace that this process cannot see."""
    uid: int


def peer_of(connection: socket.socket) -> Peer:
    """Who connected."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return Peer(pid, uid)


def pidfd_of(connection: socket.socket, peer: Peer) -> int | None:
    """A descriptor that becomes readable when the peer ends; None where there is no way."""
    with suppress(OSError):
        fd = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
        os.set_inheritable(fd, False)
        return fd
    return pidfd_of_pid(peer.pid)


def pidfd_of_pid(pid: int) -> int | None:
    """The same, by process id; None where there is no such process any more."""
    if pid <= 0:
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def start_time_of(pid: int) -> int | None:
    """When a process started, in clock ticks since boot: with its pid it names one process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[19])
