"""The agent's door in a few lines: answers one client after another from a thread."""

import ctypes
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dure.devices import layout
from dure.devices.plane import PlaneDevice, PlaneSegments
from dure.devices.plane_library import Plane, plane_library

UUID = bytes(range(16))
DEVICE = PlaneDevice(sms=132, group_sms=8, memory_bytes=1 << 36, uuid=UUID)

Answer = Callable[[socket.socket, layout.Hello], None]


def hello(tenant: str = "web") -> layout.Hello:
    """What a well-built client says."""
    said = layout.Hello(
        magic=layout.MAGIC,
        version=layout.VERSION,
        plan_bytes=layout.CONTROL_BYTES,
        slot_bytes=layout.SLOT_BYTES,
        tenant=tenant.encode(),
        program=b"test",
    )
    said.uuid[:] = list(UUID)
    return said


def welcome(client: int = 0, tenant: int = 0, **other: int | bytes) -> layout.Welcome:
    """The usual answer, or one with some fields otherwise."""
    answer = layout.Welcome(
        magic=layout.MAGIC, version=layout.VERSION, client=client, tenant=tenant
    )
    for name, value in other.items():
        setattr(answer, name, value)
    return answer


def let_in(segments: PlaneSegments, client: int = 0, tenant: int = 0) -> Answer:
    """Answer with everything a client gets."""

    def answer(connection: socket.socket, _: layout.Hello) -> None:
        descriptors = segments.descriptors_for(client)
        socket.send_fds(connection, [bytes(welcome(client, tenant))], descriptors)

    return answer


@contextmanager
def door(path: Path, answer: Answer) -> Iterator[list[layout.Hello]]:
    """Listen at a path; the hellos that were said."""
    heard: list[layout.Hello] = []
    kept: list[socket.socket] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(path))
        path.chmod(0o666)
        listening.listen(8)

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                kept.append(connection)
                heard.append(layout.Hello.from_buffer_copy(connection.recv(4096)))
                answer(connection, heard[-1])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield heard
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(5)
            for connection in kept:
                connection.close()


def attach(path: Path, said: layout.Hello | None = None) -> tuple[int, str, Plane]:
    """Attach as a client: status, reason, plane."""
    plane = Plane()
    reason = ctypes.create_string_buffer(128)
    status = plane_library().dure_attach(plane, str(path).encode(), said or hello(), reason)
    return int(status), reason.value.decode(), plane
