"""The fleet as a person uses it: a real server, a real member, real programs, and deaths."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dure.api.clusters import ClusterKind, ClusterSpec, NodeDocument, PartitionDocument
from dure.api.job_views import JobDocument
from dure.api.jobs import JobSpec
from dure.api.tenancy import TenantSpec
from dure.client.fleet import FleetClient, calls
from dure.client.fleet.config import Context
from dure.domain.fleet.lifecycle import JobPhase, PartitionPhase
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
        spec = ClusterSpec(kind=ClusterKind.PROCESS, region="kr")
        self.client.do(calls.put_cluster("local", spec, calls.CREATE))
        self.client.do(calls.put_tenant("acme", TenantSpec(), calls.CREATE))
        secret = self.client.do(calls.issue_member_token("local")).secret
        (folder / "token").write_text(secret, encoding="utf-8")
        self.start_member()

    def _answers(self) -> bool:
        with contextlib.suppress(Exception):
            self.client.do(calls.who_am_i())
            return True
        return False

    def _start(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*DURE, *arguments], stdout=log, stderr=log, start_new_session=True
            )

    def start_server(self) -> None:
        listen = ("--listen", f"127.0.0.1:{self.rest}", "--grpc", f"127.0.0.1:{self.grpc}")
        self._start("server", "server", "--data", str(self.folder / "server"), *listen)

    def start_member(self) -> None:
        at = ("--cluster", "local", "--server", f"http://127.0.0.1:{self.grpc}")
        files = ("--nodes", str(self.folder / "nodes.yaml"), "--state", str(self.folder / "state"))
        token = ("--token-file", str(self.folder / "token"))
        self._start("member", "member", "--kind", "process", *at, *token, *files)

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
        for begun in (self.folder / "state" / "instances").glob("*/begun"):
            with contextlib.suppress(ValueError, ProcessLookupError):
                os.kill(int(begun.read_text()), signal.SIGKILL)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    folder = Path(tempfile.mkdtemp(prefix="dure-fleet-"))
    made = Fleet.__new__(Fleet)
    made.folder, made._processes = folder, {}
    try:
        made.__init__(folder)  # type: ignore[misc]
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


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
    assert not list((fleet.folder / "state" / "instances").glob(f"{long}*"))


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
