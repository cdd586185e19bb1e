"""A fleet of real processes, each of which can be killed, a service for it and who asks that."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx

from dure.api.clusters import ClusterKind, ClusterSpec
from dure.api.job_views import JobDocument
from dure.api.jobs import JobSpec
from dure.api.tenancy import TenantSpec
from dure.client.fleet import FleetClient, calls
from dure.client.fleet.config import Context
from dure.domain.fleet.lifecycle import JobPhase
from dure.member.process.folders import Folder
from tests.e2e.conftest import DURE, LIMIT_S
from tests.kube.ports import free_port

NODES = """
nodes:
  - {name: a, group: gpu, profile: a100, devices: 4, cpu: 32, memory: 64GiB}
  - {name: b, group: gpu, profile: a100, devices: 4, cpu: 32, memory: 64GiB}
"""
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


class Fleet:
    """One server and one cluster of processes, each a process that can be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rest, self.grpc = free_port(), free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start server and member, and wait for them."""
        (self.folder / "nodes.yaml").write_text(NODES, encoding="utf-8")
        self.start_server()
        token = self.folder / "server" / "admin-token"
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
                os.kill(int(begun.read_text().partition(" ")[0]), signal.SIGKILL)
            folder = Folder(begun.parent)
            end = time.monotonic() + LIMIT_S
            while folder.supervised() and time.monotonic() < end:
                time.sleep(0.01)
            folder.kill_left_over()  # its program, too


_Kind = TypeVar("_Kind", bound=Fleet)


@contextlib.contextmanager
def running(kind: type[_Kind]) -> Iterator[_Kind]:
    """A fleet of its own; nothing of it is left afterwards, however far its start came."""
    folder = Path(tempfile.mkdtemp(prefix="dure-fleet-"))
    made = kind(folder)
    try:
        made.start()
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


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
