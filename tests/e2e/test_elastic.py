"""Services that follow their load, with a real server, member, front and programs."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import httpx
import pytest

from dure.api.job_views import JobDocument
from dure.api.loads import LoadReport, SizeDocument
from dure.client.api import AgentUnreachableError, find_agent
from dure.client.fleet import calls
from dure.domain.fleet.lifecycle import JobPhase
from tests.e2e.beds import ANSWER, Fleet, Load, running
from tests.e2e.conftest import DURE, LIMIT_S
from tests.kube.ports import free_port

READY_S = 15.0
"""In which extra capacity must be ready after a step of the load."""
SHARED = """
nodes:
  - {{name: a, group: gpu, profile: h100, devices: 1, cpu: 32, memory: 64GiB, mode: mps,
      run_dir: {folder}/run, emulator_dir: {folder}/emulator}}
"""
SERVICE = {
    "requestsPerSecond": 15.0,
    "replicaRequestsPerSecond": 20.0,
    "latency": "1s",
    "serviceTime": "20ms",
    "warm": 1,
    "most": 8,
    "loadTime": "1s",
    "reference": "a100",
    "shrinkAfter": "4s",
    "keepForBursts": False,
}


class Shared(Fleet):
    """Whose nodes have an agent and a device that several share."""

    def add_cluster(self, name: str) -> None:
        (self.folder / "emulator").mkdir(exist_ok=True)
        text = SHARED.format(folder=self.folder)
        (self.folder / "nodes.yaml").write_text(text, encoding="utf-8")
        super().add_cluster(name)

    def close(self) -> None:
        super().close()
        with contextlib.suppress(AgentUnreachableError), find_agent(self.folder / "run") as client:
            os.kill(client.status().agent.pid, signal.SIGTERM)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with running(Fleet) as made:
        yield made


@pytest.fixture
def shared() -> Iterator[Fleet]:
    with running(Shared) as made:
        yield made


def environment(fleet: Fleet) -> dict[str, str]:
    token = (fleet.folder / "server" / "admin-token").read_text().strip()
    return {"DURE_SERVER": f"http://127.0.0.1:{fleet.rest}", "DURE_TOKEN": token}


def dure(fleet: Fleet, *words: str) -> str:
    done = subprocess.run(
        [*DURE, *words],
        env={**os.environ, **environment(fleet), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def serve(fleet: Fleet, **changes: Any) -> str:
    """A service of instances that answer at once."""
    (fleet.folder / "answer.py").write_text(ANSWER, encoding="utf-8")
    line = f"exec {sys.executable} {fleet.folder}/answer.py"
    resources = changes.pop("resources", {"memory": "1GiB", "whole": True})
    job = fleet.submit(
        "chat", line, kind="serving", work=None, port=8000,
        resources=resources, service=SERVICE | changes,
    )  # fmt: skip
    fleet.until_phase(job, JobPhase.RUNNING)
    return job


def size(found: JobDocument) -> SizeDocument:
    assert found.attempts[-1].size is not None
    return found.attempts[-1].size


@pytest.mark.slow
def test_capacity_for_a_step_of_three_times_the_load_is_ready_in_time_and_goes_again_in_steps(
    fleet: Fleet,
) -> None:
    job = serve(fleet)
    port = free_port()
    words = ("front", job, "--listen", f"127.0.0.1:{port}")
    fleet._start("front", *words, env=environment(fleet))
    url = f"http://127.0.0.1:{port}/"

    def answered() -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(url, timeout=LIMIT_S).is_success
        return False

    fleet.until("an answer", answered)
    with Load(url, 15.0) as steady:
        heard = lambda: (size(fleet.job(job)).requests_per_second or 0.0) > 12.0  # noqa: E731
        fleet.until("the load to be heard of", heard)
        fleet.until("a steady size", lambda: fleet.job(job).ready == fleet.job(job).wanted)
        before = fleet.job(job).ready
        assert before is not None
        stepped_s = time.monotonic()
        with Load(url, 30.0) as more:
            fleet.until("more instances", lambda: (fleet.job(job).ready or 0) >= before + 1)
            fleet.until("as many as wanted", lambda: fleet.job(job).ready == fleet.job(job).wanted)
            took_s = time.monotonic() - stepped_s
            fleet.until(
                "all of the load to be heard of",
                lambda: (size(fleet.job(job)).requests_per_second or 0.0) > 40.0,
            )
            fleet.until("its capacity", lambda: (fleet.job(job).ready or 0) >= 3)
            whole_s = time.monotonic() - stepped_s
            assert "requests/s need" in size(fleet.job(job)).why
        sizes = [fleet.job(job).ready or 0]
        while sizes[-1] > before:
            time.sleep(0.5)
            sizes.append(fleet.job(job).ready or 0)
            assert time.monotonic() - stepped_s < 4 * LIMIT_S, sizes
    assert took_s <= READY_S
    assert whole_s <= 2 * READY_S
    assert all(0 <= was - now <= 1 for was, now in pairwise(sizes)), sizes
    failed = [each for load in (steady, more) for each in load.answers if not each[2]]
    assert not failed
    listed = fleet.client.do(calls.list_events(subject=job, limit=1000))
    scaled = [int(str(each.data["serving"])) for each in listed.items if each.kind == "job.scaled"]
    assert max(scaled) >= 3
    assert scaled[-1] == before


@pytest.mark.slow
def test_a_person_says_what_is_asked_and_sees_what_came_of_it(fleet: Fleet) -> None:
    job = serve(fleet, standby=1)
    fleet.until("one kept warm", lambda: size(fleet.job(job)).standby == 1)
    said_s = time.monotonic()
    assert "told local" in dure(fleet, "load", job, "--rate", "45", "--queue", "3")
    fleet.until("its capacity", lambda: (fleet.job(job).ready or 0) >= 3)
    assert time.monotonic() - said_s <= READY_S
    listed = dure(fleet, "jobs", "--name", "chat")
    ready, wanted = fleet.job(job).ready, fleet.job(job).wanted
    assert f"{ready}/{wanted}" in listed
    explained = dure(fleet, "explain", job)
    assert "take requests, 1 kept warm beside them" in explained
    assert "45 requests/s and 3 that wait need" in explained
    assert "load: 45 requests/s, 3 wait" in explained
    told = json.loads(dure(fleet, "explain", job, "--json"))
    assert told["attempts"][0]["size"]["serving"] == wanted
    endpoints = fleet.client.do(calls.get_endpoints(job)).items
    assert sorted(each.weight > 0 for each in endpoints).count(False) >= 1


@pytest.mark.slow
def test_a_warning_gives_an_instance_more_of_its_device_while_it_runs_and_takes_it_back(
    shared: Fleet,
) -> None:
    job = serve(shared, resources={"memory": "2GiB"}, most=1, requestsPerSecond=1.0)

    def share() -> float | None:
        with find_agent(shared.folder / "run") as agent:
            (tenant,) = agent.tenants()
            return tenant.spec.sm_share

    small = share()
    assert small is not None
    name = shared.client.do(calls.get_endpoints(job)).items[0].address

    def say(latency: str) -> None:
        report = LoadReport(requests_per_second=1.0, latency=latency, source="test")
        with contextlib.suppress(Exception):
            shared.client.do(calls.report_load(job, report))

    said_s = time.monotonic()
    say("950ms")
    shared.until("a larger share", lambda: (share() or 0.0) > small)
    assert time.monotonic() - said_s <= READY_S
    assert "its slices grow by a step" in size(shared.job(job)).why
    assert shared.client.do(calls.get_endpoints(job)).items[0].address == name

    def calmed() -> bool:
        say("50ms")
        time.sleep(0.5)
        return share() == small

    shared.until("the former share", calmed)
    assert shared.client.do(calls.get_endpoints(job)).items[0].address == name
