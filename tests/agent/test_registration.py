import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dure.agent.wire import Hello, Verdict, Welcome
from dure.client.schema import LatencyPromise, PolicyRequest, TenantSpec
from dure.devices import layout
from dure.devices.nvml import uuid_bytes
from dure.domain.errors import DureError, InputError
from tests.agent import stand
from tests.agent.conftest import Bench, first_line, wait_for

KEPT = TenantSpec(keep=True)


def _say_hello(bench: Bench, data: bytes) -> tuple[Welcome, int]:
    """The answer to raw bytes, and how many descriptors came with it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.settimeout(20.0)
        door.connect(str(bench.places.shim_socket))
        door.send(data)
        answer, fds, _, _ = socket.recv_fds(door, 4096, 128)
        for fd in fds:
            os.close(fd)
        return Welcome.parse(answer), len(fds)


def _hello(**changed: object) -> bytes:
    fields: dict[str, object] = {
        "magic": layout.MAGIC,
        "version": layout.VERSION,
        "plan_bytes": layout.CONTROL_BYTES,
        "slot_bytes": layout.SLOT_BYTES,
        "uuid": uuid_bytes(stand.UUIDS[0]),
        "tenant": "web",
        "program": "test",
    }
    return Hello(**{**fields, **changed}).pack()  # type: ignore[arg-type]


def test_a_process_of_a_declared_tenant_gets_a_slot_and_all_descriptors(bench: Bench) -> None:
    client = bench.start_agent()
    client.declare("web", KEPT)
    welcome, descriptors = _say_hello(bench, _hello())
    assert welcome.verdict is Verdict.WELCOME
    assert descriptors == 3 + layout.CLIENTS


def test_whoever_cannot_be_let_in_is_told_why(bench: Bench) -> None:
    client = bench.start_agent()
    client.declare("web", KEPT)
    client.declare("there", TenantSpec(keep=True, gpu="0"))
    cases = {
        _hello(tenant="nobody"): (Verdict.TENANT, "no tenant 'nobody' is declared"),
        _hello(version=layout.VERSION + 1): (Verdict.VERSION, "restart both"),
        _hello(plan_bytes=8): (Verdict.VERSION, "restart both"),
        _hello(magic=1): (Verdict.VERSION, "no hello of this version"),
        b"short": (Verdict.VERSION, "no hello of this version"),
        b"x" * 4000: (Verdict.VERSION, "no hello of this version"),
        _hello(uuid=b"\1" * 16): (Verdict.DEVICE, "not one of the agent's"),
    }
    for data, (verdict, reason) in cases.items():
        welcome, descriptors = _say_hello(bench, data)
        assert (welcome.verdict, descriptors) == (verdict, 0)
        assert reason in welcome.reason
    refused = [line for line in client.status().events if line.kind == "refused"]
    assert len(refused) == len(cases)


def test_a_tenant_of_one_gpu_is_refused_on_another(bench: Bench) -> None:
    bench.gpus = 2
    client = bench.start_agent()
    client.declare("web", TenantSpec(keep=True, gpu="1"))
    welcome, _ = _say_hello(bench, _hello())
    assert welcome.verdict is Verdict.DEVICE
    assert "declared for GPU 1" in welcome.reason
    welcome, _ = _say_hello(bench, _hello(uuid=uuid_bytes(stand.UUIDS[1])))
    assert welcome.verdict is Verdict.WELCOME


def test_a_tenant_of_no_gpu_is_seated_where_its_process_comes_up(bench: Bench) -> None:
    bench.gpus = 2
    client = bench.start_agent()
    client.declare("web", KEPT)
    assert [each.gpu for each in client.tenants()] == [None]
    with pytest.raises(InputError, match="more than the 131 GiB"):
        client.declare("big", TenantSpec(memory_limit_bytes=10**12))
    with pytest.raises(InputError, match="no GPU has more than 131 GiB unreserved"):
        client.declare("big", TenantSpec(memory_reserve_bytes=10**12))
    program = bench.start("web", "idle", gpu=1)
    assert first_line(program).startswith("ready")
    assert [each.gpu for each in client.tenants()] == [stand.UUIDS[1]]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_another_user_cannot_join_or_change_a_tenant_or_the_policy(bench: Bench) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        bench.folder = Path(folder) / "run"
        client = bench.start_agent()
        client.declare("web", KEPT)
        other = Bench(bench.folder)
        assert _as_nobody(lambda: _say_hello(other, _hello())[0].verdict) == str(Verdict.TENANT)
        assert "belongs to user 0" in _as_nobody(lambda: other.client().forget("web"))
        assert "taken by a tenant of user 0" in _as_nobody(
            lambda: other.client().declare("web", TenantSpec())
        )
        request = PolicyRequest(policy="jct")
        assert "may change the policy" in _as_nobody(lambda: other.client().set_policy(request))
        assert "environment" in _as_nobody(lambda: other.client().declare("own", KEPT))
        uids = {each.name: each.uid for each in client.tenants()}
        assert uids == {"web": 0, "own": 65534}


def _as_nobody(act: Callable[[], object]) -> str:
    """What an act gives or raises when another user does it, in words."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setuid(65534)
            os.write(write, str(act()).encode())
        except DureError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    with os.fdopen(read, encoding="utf-8") as said:
        return said.read()


def test_when_all_slots_are_taken_the_next_process_is_refused(bench: Bench) -> None:
    client = bench.start_agent()
    client.declare("web", KEPT)
    doors = []
    try:
        for expected in [Verdict.WELCOME] * layout.CLIENTS + [Verdict.FULL]:
            door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            doors.append(door)
            door.settimeout(20.0)
            door.connect(str(bench.places.shim_socket))
            door.send(_hello())
            answer, fds, _, _ = socket.recv_fds(door, 4096, 128)
            for fd in fds:
                os.close(fd)
            assert Welcome.parse(answer).verdict is expected
    finally:
        for door in doors:
            door.close()


def test_a_killed_process_gives_its_slot_back_within_a_second(bench: Bench) -> None:
    client = bench.start_agent()
    client.declare("web", KEPT)
    program = bench.start("web", "train")
    assert first_line(program).startswith("ready")
    program.send_signal(signal.SIGKILL)
    program.wait(20.0)
    wait_for("the slot's return", lambda: client.status().gpus[0].clients == 0, 1.0)


HEIR = """
import os, socket, sys, time
door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
door.connect(sys.argv[1])
door.send(bytes.fromhex(sys.argv[2]))
socket.recv_fds(door, 4096, 128)
heir = os.fork()
if heir == 0:
    time.sleep(60)
    os._exit(0)
print(heir, flush=True)
sys.stdin.read()
"""


def test_a_child_that_inherited_the_socket_does_not_keep_a_dead_process_registered(
    bench: Bench,
) -> None:
    client = bench.start_agent()
    client.declare("web", KEPT)
    command = [sys.executable, "-c", HEIR, str(bench.places.shim_socket), _hello().hex()]
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    bench.programs.append(parent)
    heir = int(first_line(parent))
    try:
        assert [each.pid for each in client.tenants()[0].clients] == [parent.pid]
        assert parent.stdin is not None
        parent.stdin.close()
        parent.kill()
        parent.wait(20.0)
        wait_for("the slot's return", lambda: not client.tenants()[0].clients)
        os.kill(heir, 0)
    finally:
        os.kill(heir, signal.SIGKILL)


def test_a_tenant_held_by_nobody_and_without_processes_is_forgotten(bench: Bench) -> None:
    client = bench.start_agent()
    client.declare("kept", KEPT)
    code = (
        "import sys; from pathlib import Path; from dure.client.api import AgentClient\n"
        "from dure.client.places import Places; from dure.client.schema import TenantSpec\n"
        "AgentClient(Places(Path(sys.argv[1]))).declare('web', TenantSpec())\n"
        "print('declared', flush=True); sys.stdin.read()"
    )
    runner = subprocess.Popen(
        [sys.executable, "-c", code, str(bench.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert runner.stdout is not None
    assert runner.stdin is not None
    assert runner.stdout.readline() == "declared\n"
    program = bench.start("web", "idle")
    assert first_line(program).startswith("ready")
    runner.stdin.close()
    runner.wait(20.0)
    runner.stdout.close()
    wait_for("a sweep", lambda: client.status().gpus[0].ticks > 20)
    assert {each.name for each in client.tenants()} == {"kept", "web"}
    program.kill()
    wait_for("the tenant's end", lambda: {each.name for each in client.tenants()} == {"kept"})


def test_a_promise_no_gpu_could_keep_is_refused(bench: Bench) -> None:
    client = bench.start_agent()
    with pytest.raises(InputError, match="shorter than one launch"):
        client.declare("web", TenantSpec(latency_slo=LatencyPromise(target_ns=1000)))
    with pytest.raises(InputError, match="more than the 131 GiB of NVIDIA H200"):
        client.declare("web", TenantSpec(memory_limit_bytes=10**12))
    with pytest.raises(InputError, match="unreserved"):
        client.declare("web", TenantSpec(memory_reserve_bytes=10**12))
    with pytest.raises(InputError, match="cannot be a tenant's name"):
        client.declare("-x", TenantSpec())
    with pytest.raises(InputError, match="no GPU '7'"):
        client.declare("web", TenantSpec(gpu="7"))
    assert client.tenants() == ()


def test_coming_and_going_leaves_no_descriptor_and_no_slot_behind(bench: Bench) -> None:
    client = bench.start_agent()
    client.declare("web", KEPT)
    assert bench.agent is not None
    open_files = Path(f"/proc/{bench.agent.pid}/fd")

    def settled() -> bool:
        return client.status().gpus[0].clients == 0

    for _ in range(3):
        assert _say_hello(bench, _hello())[0].verdict is Verdict.WELCOME
        _say_hello(bench, _hello(tenant="nobody"))
    wait_for("free slots", settled)
    before = len(list(open_files.iterdir()))
    slots = set()
    for _ in range(100):
        welcome, _ = _say_hello(bench, _hello())
        assert welcome.verdict is Verdict.WELCOME
        slots.add(welcome.client)
        _say_hello(bench, _hello(tenant="nobody"))
    wait_for("free slots", settled)
    assert len(slots) <= 2
    wait_for("closed descriptors", lambda: len(list(open_files.iterdir())) <= before + 1)
