"""The fleet as a person uses it: a real server, a real member, real programs, and deaths."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from dure.api.clusters import ClusterKind, ClusterSpec, NodeDocument, PartitionDocument
from dure.api.job_views import JobDocument
from dure.api.jobs import JobSpec
from dure.api.tenancy import TenantSpec
from dure.client.fleet import FleetClient, calls
from dure.client.fleet.config import Context
from dure.domain.fleet.lifecycle import AttemptState, ClusterState, JobPhase, PartitionPhase
from tests.e2e.conftest import DURE, LIMIT_S

NODES = """
nodes:
  - {name: a, group: gpu, profile: a100, devices: 4, cpu: 32, memory: 64GiB}
  - {name: b, group: gpu, profile: a100, devices: 4, cpu: 32, memory: 64GiB}
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Fleet:
    """One server and one cluster of processes, each a process that can be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rest, self.grpc = free_port(), free_port()
        (folder / "nodes.yaml").write_text(NODES, encoding="utf-8")
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.start_server()
        token = folder / "server" / "admin-token"
        self.until("the first token", lambda: token.exists() and token.read_text())
        self.client = FleetClient(
            Context((f"http://127.0.0.1:{self.rest}",), token.read_text().strip())
        )
        self.until("the server to answer", self._answers)
        self.client.do(calls.put_tenant("acme", TenantSpec(), calls.CREATE))
        self.add_cluster("local")

    def add_cluster(self, name: str) -> None:
        """Declare a cluster of processes and start its member."""
        spec = ClusterSpec(kind=ClusterKind.PROCESS, region="kr")
        self.client.do(calls.put_cluster(name, spec, calls.CREATE))
        secret = self.client.do(calls.issue_member_token(name)).secret
        (self.folder / f"{name}.token").write_text(secret, encoding="utf-8")
        self.start_member(name)

    def _answers(self) -> bool:
        with contextlib.suppress(Exception):
            self.client.do(calls.who_am_i())
            return True
        return False

    def _start(self, name: str, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*DURE, *arguments],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **(env or {})},
            )

    def start_server(self) -> None:
        listen = ("--listen", f"127.0.0.1:{self.rest}", "--grpc", f"127.0.0.1:{self.grpc}")
        self._start("server", "server", "--data", str(self.folder / "server"), *listen)

    def start_member(self, cluster: str = "local") -> None:
        at = ("--cluster", cluster, "--server", f"http://127.0.0.1:{self.grpc}")
        state = self.folder / "state" / cluster
        files = ("--nodes", str(self.folder / "nodes.yaml"), "--state", str(state))
        token = ("--token-file", str(self.folder / f"{cluster}.token"))
        name = "member" if cluster == "local" else f"member-{cluster}"
        self._start(name, "member", "--kind", "process", *at, *token, *files)

    def kill(self, name: str, number: int = signal.SIGKILL) -> int:
        process = self._processes.pop(name)
        process.send_signal(number)
        return process.wait(LIMIT_S)

    def submit(self, name: str, line: str, **rest: Any) -> str:
        spec = JobSpec.model_validate_json(
            json.dumps(
                {
                    "name": name,
                    "kind": "batch",
                    "tenant": "acme",
                    "command": ["/bin/sh", "-c", line],
                    "resources": {"memory": "1GiB"},
                    "work": "1m",
                    "grace": "2s",
                    **rest,
                }
            )
        )
        (made,) = self.client.do(calls.submit(spec)).ids
        return made

    def job(self, job: str) -> JobDocument:
        return self.client.do(calls.get_job(job))

    def until(self, what: str, check: Callable[[], object]) -> None:
        end = time.monotonic() + LIMIT_S
        while not check():
            assert time.monotonic() < end, f"{what} did not happen\n{self.words()}"
            time.sleep(0.05)

    def until_phase(self, job: str, *phases: JobPhase) -> None:
        self.until(f"{job} in {phases}", lambda: self.job(job).phase in phases)

    def words(self) -> str:
        """The last of what server and member wrote."""
        said = [
            f"--- {file.name}\n{file.read_text(errors='replace')[-4000:]}"
            for file in sorted(self.folder.glob("*.log"))
        ]
        return "\n".join(said)

    def close(self) -> None:
        if hasattr(self, "client"):
            self.client.close()
        for process in self._processes.values():
            process.kill()
            process.wait(LIMIT_S)
        for begun in (self.folder / "state").glob("*/instances/*/begun"):
            with contextlib.suppress(ValueError, ProcessLookupError):
                os.kill(int(begun.read_text()), signal.SIGKILL)


@contextlib.contextmanager
def running_fleet() -> Iterator[Fleet]:
    """A fleet of its own; nothing of it is left afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="dure-fleet-"))
    made = Fleet.__new__(Fleet)
    made.folder, made._processes = folder, {}
    try:
        made.__init__(folder)  # type: ignore[misc]
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with running_fleet() as made:
        yield made


@pytest.mark.slow
def test_commands_of_the_host_run_to_their_ends_and_what_they_wrote_comes_back(
    fleet: Fleet,
) -> None:
    good = fleet.submit("good", "echo hello from $DURE_JOB attempt $DURE_ATTEMPT")
    bad = fleet.submit("bad", "echo oops >&2; exit 3")
    gang = fleet.submit("gang", "echo rank $DURE_RANK of $DURE_WORLD_SIZE", gang=2)
    long = fleet.submit("long", "echo up; exec sleep 600")
    fleet.until_phase(good, JobPhase.SUCCEEDED)
    fleet.until_phase(bad, JobPhase.FAILED)
    fleet.until_phase(gang, JobPhase.SUCCEEDED)
    fleet.until_phase(long, JobPhase.RUNNING)
    follow = fleet.client.logs(long, follow=True)
    assert next(follow) == b"up\n"
    follow.close()  # type: ignore[attr-defined]
    fleet.client.do(calls.cancel_job(long))
    fleet.until_phase(long, JobPhase.CANCELLED)
    said = b"".join(fleet.client.logs(good)).decode()
    assert said == f"hello from {good} attempt 1\n"
    assert b"".join(fleet.client.logs(bad)) == b"oops\n"
    assert not list((fleet.folder / "state").glob(f"*/instances/{long}*"))


@pytest.mark.slow
def test_nothing_is_lost_or_doubled_when_member_and_server_are_killed(fleet: Fleet) -> None:
    mark = fleet.folder / "mark"
    wait = f"while ! test -e {fleet.folder}/go; do sleep 0.05; done"
    line = f"echo {{}} >> {mark}; {wait}; echo done"
    jobs = {name: fleet.submit(name, line.format(name)) for name in ("a", "b", "c")}
    for job in jobs.values():
        fleet.until_phase(job, JobPhase.RUNNING)
    fleet.kill("member")
    fleet.start_member()
    fleet.kill("server")
    fleet.start_server()
    fleet.until("the server to answer", fleet._answers)
    late = fleet.submit("late", line.format("late"))
    fleet.until_phase(late, JobPhase.RUNNING)
    fleet.kill("server")
    fleet.kill("member")
    (fleet.folder / "go").touch()
    fleet.start_member()
    time.sleep(1.0)
    fleet.start_server()
    for job in (*jobs.values(), late):
        fleet.until_phase(job, JobPhase.SUCCEEDED)
        assert fleet.job(job).attempt == 1
    assert sorted(mark.read_text().split()) == ["a", "b", "c", "late"]
    assert fleet.kill("member", signal.SIGTERM) == 0


@pytest.mark.slow
def test_a_wish_to_divide_a_node_goes_down_to_its_member_and_its_answer_comes_back(
    fleet: Fleet,
) -> None:
    fleet.until("nodes", lambda: fleet.client.do(calls.get_cluster("local")).nodes)
    asked = fleet.client.do(calls.partition_node("local", "a", "all-1g.10gb"))
    assert asked.phase is PartitionPhase.ASKED

    def wish() -> PartitionDocument:
        (found,) = fleet.client.do(calls.get_cluster("local")).partitions
        return found

    fleet.until("an end", lambda: wish().phase.ended)
    assert wish().phase is PartitionPhase.REFUSED
    assert "a cluster of processes cannot divide devices anew" in wish().reason
    job = fleet.submit("after", "true")
    fleet.until_phase(job, JobPhase.SUCCEEDED)
    fleet.until("both nodes", lambda: all(node.up for node in nodes(fleet)))


def nodes(fleet: Fleet) -> list[NodeDocument]:
    return fleet.client.do(calls.get_cluster("local")).nodes


SERVICE = {
    "requestsPerSecond": 1.0,
    "replicaRequestsPerSecond": 100.0,
    "latency": "1s",
    "serviceTime": "10ms",
    "warm": 2,
    "most": 2,
    "loadTime": "1s",
}
ANSWER = """
import http.server, os
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{os.environ['DURE_ATTEMPT']} {os.getpid()}".encode())
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["DURE_PORT"])), Answer).serve_forever()
"""


@pytest.mark.slow
def test_a_service_is_reached_at_one_address_wherever_its_instances_are(fleet: Fleet) -> None:
    (fleet.folder / "answer.py").write_text(ANSWER, encoding="utf-8")
    port, token = free_port(), (fleet.folder / "server" / "admin-token").read_text().strip()
    centre = {"DURE_SERVER": f"http://127.0.0.1:{fleet.rest}", "DURE_TOKEN": token}
    fleet._start("front", "front", "chat", "--listen", f"127.0.0.1:{port}", env=centre)

    def ask() -> str:
        return httpx.get(f"http://127.0.0.1:{port}/", timeout=LIMIT_S).raise_for_status().text

    def listens() -> bool:
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"http://127.0.0.1:{port}/", timeout=LIMIT_S).status_code == 503
        return False

    fleet.until("the front to listen, before there is a service", listens)
    line = f"exec {sys.executable} {fleet.folder}/answer.py"
    first = fleet.submit("chat", line, kind="serving", work=None, port=8000, service=SERVICE)
    fleet.until_phase(first, JobPhase.RUNNING)

    def weights() -> list[tuple[str, int]]:
        found = fleet.client.do(calls.get_endpoints(first))
        return [(each.cluster, each.weight) for each in found.items]

    fleet.until("two instances of equal weight", lambda: weights() == [("local", 1000)] * 2)
    fleet.until("both instances answer", lambda: len({ask() for _ in range(8)}) == 2)
    # Instances that die are replaced; meanwhile the others answer. The centre is not needed.
    os.kill(int(ask().split()[1]), signal.SIGKILL)
    for _ in range(8):
        ask()
    fleet.kill("server")
    assert ask()
    fleet.start_server()
    fleet.until("the server to answer", fleet._answers)
    # Another job of the same name takes over when the first is gone.
    fleet.client.do(calls.cancel_job(first))
    fleet.until_phase(first, JobPhase.CANCELLED)
    fleet.submit("chat", line, kind="serving", work=None, port=8000, service=SERVICE)
    fleet.until("an answer", lambda: ask().split()[0] == "1")
    assert fleet.kill("front", signal.SIGTERM) == 0


class Load:
    """Requests at a steady rate, whether or not earlier ones are answered."""

    def __init__(self, url: str, per_s: float) -> None:
        self._url, self._period_s = url, 1 / per_s
        self._ending = threading.Event()
        self.answers: list[tuple[float, float, str]] = []
        """When it was asked, how long it took, and what was said; nothing: it failed."""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(LIMIT_S)

    async def _run(self) -> None:
        asked = set()
        async with httpx.AsyncClient(timeout=LIMIT_S) as client:
            at_s = time.monotonic()
            while not self._ending.is_set():
                asked.add(task := asyncio.create_task(self._ask(client)))
                task.add_done_callback(asked.discard)
                at_s += self._period_s
                await asyncio.sleep(max(0.0, at_s - time.monotonic()))
            await asyncio.gather(*asked)

    async def _ask(self, client: httpx.AsyncClient) -> None:
        began_s, said = time.monotonic(), ""
        with contextlib.suppress(httpx.HTTPError):
            told = await client.get(self._url)
            said = told.text if told.is_success else ""
        self.answers.append((began_s, time.monotonic() - began_s, said))

    def since(self, began_s: float) -> list[tuple[float, float, str]]:
        return [each for each in list(self.answers) if each[0] >= began_s]


@pytest.mark.slow
def test_nobody_who_asks_a_service_notices_that_it_moves(fleet: Fleet) -> None:
    (fleet.folder / "answer.py").write_text(ANSWER, encoding="utf-8")
    fleet.add_cluster("other")
    port, token = free_port(), (fleet.folder / "server" / "admin-token").read_text().strip()
    centre = {"DURE_SERVER": f"http://127.0.0.1:{fleet.rest}", "DURE_TOKEN": token}
    line = f"exec {sys.executable} {fleet.folder}/answer.py"
    job = fleet.submit("chat", line, kind="serving", work=None, port=8000, service=SERVICE)
    fleet.until_phase(job, JobPhase.RUNNING)
    old = fleet.job(job).cluster
    assert old is not None
    fleet._start("front", "front", job, "--listen", f"127.0.0.1:{port}", env=centre)
    url = f"http://127.0.0.1:{port}/"

    def answered() -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(url, timeout=LIMIT_S).is_success
        return False

    fleet.until("an answer", answered)
    with Load(url, 50.0) as load:
        fleet.until("answers of the first place", lambda: len(load.answers) > 100)
        fleet.client.do(calls.set_cluster_state(old, ClusterState.DRAINING))
        fleet.until("the new place", lambda: fleet.job(job).attempt == 2)
        fleet.until(
            "the old place to be gone",
            lambda: fleet.job(job).attempts[0].state is AttemptState.GONE,
        )
        fleet.until("more answers", lambda: len(load.since(time.monotonic() - 1.0)) > 20)
    said = [each[2].split()[0] if each[2] else "failed" for each in load.answers]
    assert said.count("failed") == 0
    assert {"1", "2"} == set(said)
    # In the middle of the move both answered.
    first, last = said.index("2"), len(said) - 1 - said[::-1].index("1")
    assert first < last
    assert said[-1] == "2"
