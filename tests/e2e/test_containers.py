"""Containers on a real Docker daemon and an emulated GPU, managed by a real agent."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dure.client.api import AgentClient, AgentUnreachableError
from dure.client.containers import ContainersStatus, ContainerStatus
from dure.client.places import Places
from tests.docker_bed import LIB, Bed, docker_bed  # noqa: F401
from tests.emulator.driving import Emulator, build, machine

pytestmark = pytest.mark.docker

LIMIT_S = 90.0
"""Generous: the machine may be slow and busy."""
DURE = [sys.executable, "-c", "from dure.cli.main import main; main()"]
TENANT = LIB / "dure-tenant"


class Yard:
    """A Docker daemon, an emulated GPU, and an agent that manages what runs on both."""

    def __init__(self, bed: Bed, emulator: Emulator, folder: Path) -> None:
        self.bed = bed
        self.emulator = emulator
        self.places = Places(folder / "run")
        self.environment = emulator.environment(
            DURE_RUN_DIR=str(self.places.run_dir), DOCKER_HOST=bed.url
        )
        self.log = folder / "agent.log"
        self.gate = folder / "go"
        self.gate.mkdir()
        self.agent: subprocess.Popen[bytes] | None = None
        # The broker must be outside of all containers, so that it sees the host's pids.
        self._keeper = emulator.start_tenant("idle", "--seconds", 600)

    def manage(self, *options: str) -> None:
        """Start an agent, and wait until it may pause."""
        command = [*DURE, "agent", "--manage-containers", *options]
        with self.log.open("ab") as log:
            self.agent = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        self.until("all is well", lambda status: not status.troubles)

    def job(self, name: str, *, work_s: float = 1.5, memory_mib: int = 200, **more: Any) -> Any:
        """A container that computes for so long, alone, from the moment `go` is called.

        Its kernels are long, so that the GPU is busy also where the host hardly gets round.
        """
        command = [TENANT, "train", "--count", max(1, round(work_s / 0.1)), "--kernels", 2]
        command += ["--work-us", 50_000, "--sync-every", more.pop("ahead", 2)]
        command += ["--memory-mib", memory_mib, "--json"]
        wait = "while [ ! -e /go/now ]; do sleep 0.05; done"
        return self.bed.run(
            "sh",
            "-c",
            f"{wait}; exec {' '.join(map(str, command))}",
            name=name,
            emulator=self.emulator.folder,
            binds=[f"{self.gate}:/go"],
            **more,
        )

    def blocker(self, name: str = "first", **more: Any) -> Any:
        """A container that computes until it is killed, and has the GPU for itself so far."""
        self.go()
        labels = {"dure.weight": "100", **more.pop("labels", {})}
        job = self.job(name, work_s=3600, labels=labels, ahead=20, **more)
        self.until("it computes", lambda s: state(s, name) == "running")
        return job

    def go(self) -> None:
        """Let all jobs compute that are there, and those that come."""
        (self.gate / "now").touch()

    def wait(self) -> None:
        """Let those that come wait for `go`."""
        (self.gate / "now").unlink(missing_ok=True)

    def status(self) -> ContainersStatus | None:
        with AgentClient(self.places, 20.0) as client:
            try:
                return client.containers()
            except AgentUnreachableError:
                return None

    def until(
        self, what: str, check: Callable[[ContainersStatus], object], limit_s: float = LIMIT_S
    ) -> ContainersStatus:
        end = time.monotonic() + limit_s
        status = None
        while time.monotonic() < end:
            status = self.status()
            if status is not None and check(status):
                return status
            time.sleep(0.05)
        raise AssertionError(f"{what} did not happen; seen: {status}\n{self.said()}")

    def until_ended(self, *containers: Any) -> list[tuple[int, str]]:
        """Exit code and output of each, once all have ended."""
        ended = []
        for container in containers:
            code = container.wait(timeout=LIMIT_S)["StatusCode"]
            ended.append((code, container.logs().decode()))
        return ended

    def dure(self, *arguments: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [*DURE, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8") if self.log.exists() else ""

    def close(self) -> None:
        if self.agent is not None:
            self.agent.terminate()
            try:
                self.agent.wait(20)
            except subprocess.TimeoutExpired:
                self.agent.kill()
                self.agent.wait()
        with contextlib.suppress(OSError, ValueError):
            pid = int((self.places.containers_dir / "watchdog.pid").read_text())
            os.kill(pid, signal.SIGTERM)


def of(status: ContainersStatus, name: str) -> ContainerStatus:
    """One container; one that is not known is unlike any state."""
    for each in status.containers:
        if each.name == name:
            return each
    return ContainerStatus(id="", name=name, state="absent", reason="")


def state(status: ContainersStatus, name: str) -> str:
    return of(status, name).state


@pytest.fixture
def make_yard(docker_bed: Bed) -> Iterator[Callable[..., Yard]]:  # noqa: F811
    folder = Path(tempfile.mkdtemp(prefix="dure-yard-"))  # short: socket paths have a limit
    with contextlib.ExitStack() as stack:

        def make(**settings: object) -> Yard:
            number = len(list(folder.iterdir()))
            place = folder / str(number)
            place.mkdir()
            defaults: dict[str, object] = {"memory_mib": 8192, "context_mib": 64}
            emulator = stack.enter_context(
                machine(build(), place / "emulator", **(defaults | settings))
            )
            yard = Yard(docker_bed, emulator, place)
            stack.callback(yard.close)
            return yard

        yield make
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("way", ["docker", "cuda-lock"])
def test_five_containers_queue_and_all_finish(make_yard: Callable[..., Yard], way: str) -> None:
    yard = make_yard()
    yard.manage("--pause-with", way)
    jobs = [yard.job(f"job{number}", work_s=3) for number in range(5)]
    yard.until("all are known", lambda s: len(s.containers) == 5)
    yard.go()
    seen = yard.until("three wait", lambda s: sum(c.state == "queued" for c in s.containers) >= 3)
    waiting = [c for c in seen.containers if c.state == "queued"]
    assert all(c.way == way for c in waiting)
    # The next one may be let bring its input already: it runs, and has its place all the same.
    places = sorted(c.queue_place for c in seen.containers if c.queue_place is not None)
    assert places == list(range(1, len(places) + 1))
    assert all(c.queue_place is not None for c in waiting)
    ended = yard.until_ended(*jobs)
    assert [code for code, _ in ended] == [0] * 5
    assert all(json.loads(out.splitlines()[-1])["correct"] for _, out in ended)
    yard.until("nobody is left", lambda s: not s.containers)


def test_who_would_not_fit_waits_and_succeeds_where_plain_sharing_fails(
    make_yard: Callable[..., Yard],
) -> None:
    yard = make_yard(memory_mib=2048)
    wishes: dict[str, Any] = {"memory_mib": 1200, "labels": {"dure.memory": "1300MiB"}}
    plain = [yard.job(f"plain{number}", work_s=3, **wishes) for number in range(2)]
    yard.go()
    codes = sorted(code for code, _ in yard.until_ended(*plain))
    assert codes == [0, 1], "one of the two runs out of memory"

    yard.wait()
    yard.manage()
    managed = [yard.job(f"managed{number}", work_s=3, **wishes) for number in range(2)]
    waits = yard.until(
        "one waits", lambda s: any(c.state == "waiting for memory" for c in s.containers)
    )
    (waiting,) = [c for c in waits.containers if c.state == "waiting for memory"]
    assert waiting.expected_memory_bytes == 1300 << 20
    yard.go()
    assert [code for code, _ in yard.until_ended(*managed)] == [0, 0], yard.said()


def test_labels_are_honoured(make_yard: Callable[..., Yard]) -> None:
    yard = make_yard()
    yard.manage("--pause-with", "docker")
    first = yard.blocker()
    patient = yard.job("patient", labels={"dure.priority": "low"})
    yard.until("it waits", lambda s: state(s, "patient") == "queued")
    normal = yard.job("normal")
    yard.until(
        "the lower class is behind, though it came first",
        lambda s: (of(s, "normal").queue_place, of(s, "patient").queue_place) == (1, 2),
    )
    spared = yard.job("spared", labels={"dure.exempt": "true"})
    wrong = yard.job("wrong", labels={"dure.priority": "whenever"})
    assert [code for code, _ in yard.until_ended(spared, wrong)] == [0, 0], "nobody held them"
    first.kill()
    assert [code for code, _ in yard.until_ended(normal, patient)] == [0, 0]
    assert "pause spared" not in yard.said()
    assert "pause wrong" not in yard.said()
    assert "'wrong' is unmanaged: label dure.priority" in yard.said()
    assert _finished(normal) < _finished(patient)


def test_a_higher_class_goes_before_who_computes(make_yard: Callable[..., Yard]) -> None:
    yard = make_yard()
    yard.manage("--pause-with", "docker")
    first = yard.blocker()
    urgent = yard.job("urgent", work_s=3, labels={"dure.priority": "high"})
    yard.until("it makes room", lambda s: state(s, "first") == "queued")
    assert yard.until_ended(urgent)[0][0] == 0
    yard.until("it goes on", lambda s: state(s, "first") == "running")
    first.kill()


def test_no_wait_is_longer_than_its_label_allows(make_yard: Callable[..., Yard]) -> None:
    yard = make_yard()
    yard.manage("--pause-with", "docker")
    first = yard.blocker()
    hasty = yard.job("hasty", labels={"dure.max-wait": "2s"})
    held = of(yard.until("it waits", lambda s: state(s, "hasty") == "queued"), "hasty")
    assert held.resume_in_ns is not None
    assert held.resume_in_ns <= 2 * 10**9
    assert yard.until_ended(hasty)[0][0] == 0, "though the GPU is never free"
    first.kill()


def test_a_health_checked_container_stays_healthy_under_the_lock(
    make_yard: Callable[..., Yard],
) -> None:
    yard = make_yard()
    yard.manage("--pause-with", "cuda-lock")
    check = {
        "test": ["CMD", "true"],
        "interval": 500_000_000,
        "timeout": 20_000_000_000,
        "retries": 1,
    }
    first = yard.blocker()
    checked = yard.job("checked", work_s=1, healthcheck=check)
    yard.until("it waits", lambda s: of(s, "checked").way == "cuda-lock")
    checked.reload()
    before = checked.attrs["State"]["Health"]["Log"]
    deadline = time.monotonic() + LIMIT_S
    while True:
        checked.reload()
        health = checked.attrs["State"]["Health"]
        assert health["Status"] in ("starting", "healthy")
        new = [each for each in health["Log"] if each not in before]
        if health["Status"] == "healthy" and len(new) >= 3:
            break
        assert time.monotonic() < deadline, "checks do not go on"
        time.sleep(0.2)
    assert state(yard.until("a look", lambda _: True), "checked") == "queued"
    first.kill()
    assert yard.until_ended(checked)[0][0] == 0


def test_a_compose_project_is_held_and_let_go_as_one(make_yard: Callable[..., Yard]) -> None:
    yard = make_yard()
    yard.manage("--pause-with", "docker")
    first = yard.blocker()
    labels = {"com.docker.compose.project": "pair"}
    pair = [yard.job(f"pair{number}", labels=labels) for number in range(2)]
    yard.until("both wait", lambda s: {state(s, "pair0"), state(s, "pair1")} == {"queued"})
    first.kill()
    assert [code for code, _ in yard.until_ended(*pair)] == [0, 0]


def test_a_dry_run_pauses_nobody_and_shows_what_would_be(make_yard: Callable[..., Yard]) -> None:
    yard = make_yard()
    yard.manage("--pause-with", "docker", "--dry-run")
    jobs = [yard.blocker(), yard.job("other", work_s=3600)]
    yard.until("it would wait", lambda s: state(s, "other") == "queued")
    for job in jobs:
        job.reload()
        assert job.status == "running"
    code, out, _ = yard.dure("node", "ps")
    assert code == 0
    assert "dry run" in out
    assert "would pause other by docker" in yard.said()
    for job in jobs:
        job.kill()


def test_people_pause_ask_why_and_resume(make_yard: Callable[..., Yard]) -> None:
    yard = make_yard()
    yard.manage()
    job = yard.blocker("job")
    code, out, err = yard.dure("node", "pause", "job")
    assert (code, out.startswith("job is paused by a person")) == (0, True), (out, err)
    assert _status(job) == "paused"
    assert "paused by a person" in yard.dure("node", "why", job.id[:8])[1]
    (listed,) = json.loads(yard.dure("node", "ps", "--json")[1])["containers"]
    assert (listed["name"], listed["state"]) == ("job", "paused by a person")
    assert "job" in yard.dure("top", "--once")[1]
    yard.close()
    assert _status(job) == "paused", "it outlasts the agent"
    yard.manage()
    yard.until("it is known again", lambda s: state(s, "job") == "paused by a person")
    code, out, err = yard.dure("node", "resume", "job")
    assert code == 0, err
    assert _status(job) == "running"
    code, _, err = yard.dure("node", "pause", "nobody")
    assert (code, "no container 'nobody' is running" in err) == (2, True)
    job.kill()


def test_the_end_of_the_agent_lets_everybody_go(make_yard: Callable[..., Yard]) -> None:
    yard = make_yard()
    yard.manage("--pause-with", "docker")
    jobs = [yard.blocker(), *(yard.job(f"job{number}", work_s=3600) for number in range(2))]
    yard.until("two wait", lambda s: sum(c.state == "queued" for c in s.containers) == 2)
    yard.close()
    assert [_status(job) for job in jobs] == ["running"] * 3
    assert yard.dure("node", "thaw", "--all")[1] == "Dure has no container paused.\n"
    for job in jobs:
        job.kill()


def test_an_emergency_thaw_needs_no_agent(make_yard: Callable[..., Yard]) -> None:
    yard = make_yard()
    yard.manage("--pause-with", "docker")
    jobs = [yard.blocker(), yard.job("other", work_s=3600)]
    yard.until("it waits", lambda s: state(s, "other") == "queued")
    yard.until("its pause took effect", lambda _: _status(jobs[1]) == "paused")
    code, out, err = yard.dure("node", "thaw", "--all")
    assert (code, "other runs" in out) == (0, True), (out, err)
    assert _status(jobs[1]) == "running"
    yard.until("hands off", lambda s: state(s, "other") in ("running", "idle"))
    for job in jobs:
        job.kill()


@pytest.mark.parametrize("way", ["docker", "cuda-lock"])
def test_the_agent_costs_little(make_yard: Callable[..., Yard], way: str) -> None:
    yard = make_yard()
    yard.manage("--pause-with", way)
    assert yard.agent is not None
    time.sleep(1)
    assert _core_share(yard.agent.pid, 5.0) < 0.03, "while nothing happens"
    jobs = [yard.blocker(), *(yard.job(f"job{number}", work_s=3600) for number in range(3))]
    yard.until("three wait", lambda s: sum(c.state == "queued" for c in s.containers) == 3)
    assert _core_share(yard.agent.pid, 5.0) < 0.10, "while they queue"
    for job in jobs:
        job.kill()


def _status(container: Any) -> str:
    container.reload()
    return str(container.status)


def _core_share(agent: int, seconds: float) -> float:
    """Part of one core that an agent and its children use."""
    before, began = _used_s(agent), time.monotonic()
    time.sleep(seconds)
    return (_used_s(agent) - before) / (time.monotonic() - began)


def _used_s(agent: int) -> float:
    used = 0
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            pid = int(folder.name)
            stat = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            if agent in (pid, int(stat[1])):
                used += int(stat[11]) + int(stat[12])
    return used / os.sysconf("SC_CLK_TCK")


def _finished(container: Any) -> str:
    container.reload()
    return str(container.attrs["State"]["FinishedAt"])
