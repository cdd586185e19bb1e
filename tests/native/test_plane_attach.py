"""Registration: what a client maps, what it may not write, and every way it can be turned away."""

import errno
import gc
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dure.devices import layout
from dure.devices.plane import PlaneSegments
from dure.devices.plane_library import Launch, Plane, plane_library
from tests.native.compiling import ROOT
from tests.native.doors import DEVICE, attach, door, hello, let_in, welcome


@pytest.fixture
def segments() -> Iterator[PlaneSegments]:
    made = PlaneSegments(DEVICE)
    yield made
    made.close()


def _open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_client_is_let_in_and_introduces_itself(tmp_path: Path, segments: PlaneSegments) -> None:
    gc.collect()
    before = _open_descriptors()
    with door(tmp_path / "d", let_in(segments, client=3, tenant=5)) as heard:
        status, reason, plane = attach(tmp_path / "d", hello("web"))
        assert (status, reason) == (0, "")
        assert (plane.client, plane.tenant) == (3, 5)
        assert heard[0].tenant == b"web"
        reading = segments.read(3)
        assert reading is not None
        assert (reading.activity.pid, reading.activity.tenant) == (os.getpid(), 5)
        plane_library().dure_launched(plane, Launch(0, 1000), time.monotonic_ns())
        reading = segments.read(3)
        assert reading is not None
        assert reading.counters.launches == 1
        plane_library().dure_detach(plane)
        assert bytes(plane) == bytes(Plane())
    assert _open_descriptors() <= before


def test_the_segments_are_sealed_and_read_only_where_they_must_be(segments: PlaneSegments) -> None:
    plan, rotation, own, *slots = segments.descriptors_for(3)
    assert len(slots) == layout.CLIENTS
    for descriptor in (plan, rotation, own, *slots):
        with pytest.raises(OSError, match=r"Operation not permitted|Invalid argument"):
            os.ftruncate(descriptor, 0)
        assert not os.get_inheritable(descriptor)
        assert os.fstat(descriptor).st_mode & 0o777 == 0o600
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(plan, b"x")


_TRY_TO_WRITE = """
    import mmap, os, sys
    plan, rotation, own, *slots = map(int, sys.argv[2:])
    os.setuid(int(sys.argv[1]))
    def writable(fd):
        try:
            mmap.mmap(fd, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE).close()
        except PermissionError:
            return False
        return True
    def reopens(fd):
        try:
            again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
        except PermissionError:
            return False
        return writable(again)
    readable = [mmap.mmap(fd, 4096, prot=mmap.PROT_READ) for fd in (plan, *slots)]
    print([writable(plan), any(map(writable, slots)), writable(rotation), writable(own)])
    print([reopens(plan), any(map(reopens, slots))])
"""


def _tried(segments: PlaneSegments, uid: int) -> list[str]:
    descriptors = segments.descriptors_for(3)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_TRY_TO_WRITE), str(uid), *map(str, descriptors)],
        pass_fds=descriptors,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_tenant_cannot_write_the_plan_or_anothers_slot(segments: PlaneSegments) -> None:
    assert _tried(segments, os.getuid())[0] == "[False, False, True, True]"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")
def test_another_user_cannot_even_open_them_anew(segments: PlaneSegments) -> None:
    assert _tried(segments, 65534) == ["[False, False, True, True]", "[False, False]"]


def test_nobody_listens(tmp_path: Path) -> None:
    status, reason, _ = attach(tmp_path / "none")
    assert status == -errno.ENOENT
    assert reason == "no agent can be reached: No such file or directory"


def test_a_path_too_long_for_a_socket(tmp_path: Path) -> None:
    assert attach(tmp_path / ("x" * 200))[0] == -errno.ENAMETOOLONG


def test_an_agent_that_hangs_delays_a_program_by_half_a_second(tmp_path: Path) -> None:
    with door(tmp_path / "d", lambda _, __: None):
        began = time.monotonic()
        status, reason, plane = attach(tmp_path / "d")
        assert status == -errno.EAGAIN
        assert 0.3 < time.monotonic() - began < 5
        assert reason.startswith("the agent did not answer")
        assert not plane.control


def test_a_program_with_a_timer_waits_no_longer_for_an_agent_that_hangs(tmp_path: Path) -> None:
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: rung.append(number))
    try:
        with door(tmp_path / "d", lambda _, __: None):
            signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
            began = time.monotonic()
            status, _, plane = attach(tmp_path / "d")
            took = time.monotonic() - began
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert status in (-errno.EINTR, -errno.EAGAIN)
    assert 0.3 < took < 5
    assert rung
    assert not plane.control


def test_a_refusal_says_why(tmp_path: Path) -> None:
    refusal = welcome(status=2, reason=b"no tenant is called 'web'")
    with door(tmp_path / "d", lambda connection, _: connection.sendall(bytes(refusal))):
        assert attach(tmp_path / "d")[:2] == (2, "no tenant is called 'web'")


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        (b"", -errno.ECONNRESET, "the agent did not answer"),
        (b"hello there", -errno.EPROTO, "the agent did not answer"),
        (bytes(welcome(magic=1)), -errno.EPROTO, "the answer is not an agent's"),
        (bytes(welcome(version=9)), 1, "the agent is of another version"),
        (bytes(welcome()), -errno.EPROTO, "the agent's answer is incomplete"),
        (bytes(welcome(client=64)), -errno.EPROTO, "the agent's answer is incomplete"),
        (bytes(welcome(status=99)), -errno.EPROTO, ""),
    ],
)
def test_an_odd_answer_is_no_agent(tmp_path: Path, answer: bytes, status: int, reason: str) -> None:
    def reply(connection: socket.socket, _: layout.Hello) -> None:
        if answer:
            connection.sendall(answer)
        else:
            connection.shutdown(socket.SHUT_RDWR)

    with door(tmp_path / "d", reply):
        got_status, got_reason, plane = attach(tmp_path / "d")
    assert got_status == status
    assert got_reason.startswith(reason)
    assert not plane.slot


def test_memory_that_is_too_small_is_not_mapped(tmp_path: Path) -> None:
    gc.collect()
    before = _open_descriptors()

    def reply(connection: socket.socket, _: layout.Hello) -> None:
        small = os.memfd_create("small")
        os.ftruncate(small, 64)
        socket.send_fds(connection, [bytes(welcome())], [small] * (3 + layout.CLIENTS))
        os.close(small)

    with door(tmp_path / "d", reply):
        assert attach(tmp_path / "d")[0] == -errno.ENOMEM
    gc.collect()
    assert _open_descriptors() <= before


def test_a_plan_of_another_build_is_refused(tmp_path: Path, segments: PlaneSegments) -> None:
    segments._plan.words.plan_bytes += 8
    with door(tmp_path / "d", let_in(segments)):
        status, reason, plane = attach(tmp_path / "d")
    assert (status, reason) == (1, "the agent is of another build")
    assert not plane.control


_FORKS = """
    import os, sys, time
    from pathlib import Path
    from dure.devices.plane_library import Launch, plane_library
    from tests.native.doors import attach
    status, reason, plane = attach(Path(sys.argv[1]))
    assert status == 0, reason
    child = os.fork()
    if child == 0:
        plane_library().dure_detach(plane)
        plane_library().dure_launched(plane, Launch(0, 1000), time.monotonic_ns())
        inherited = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                     if os.path.exists(f"/proc/self/fd/{fd}")]
        mapped = Path("/proc/self/maps").read_text()
        os._exit(3 if "dure-" in mapped or any("dure-" in name for name in inherited) else 0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    plane_library().dure_launched(plane, Launch(0, 1000), time.monotonic_ns())
    sys.exit(code)
"""


def test_a_forked_child_is_no_client(tmp_path: Path, segments: PlaneSegments) -> None:
    """It has none of the mappings, detaches without harm, and its parent goes on counting."""
    with door(tmp_path / "d", let_in(segments)):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(_FORKS), str(tmp_path / "d")],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    reading = segments.read(0)
    assert reading is not None
    assert reading.counters.launches == 1
