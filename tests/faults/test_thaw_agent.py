"""The real agent, killed while it keeps containers from the GPU: they all go on, every time."""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dure.runtimes.cgroups import Freezer, freezer_of
from dure.runtimes.cuda_driver import CudaDriver, LockState
from dure.runtimes.cuda_lock import uses_cuda
from dure.runtimes.journal_records import Owed, read
from tests.docker_bed import Bed, docker_bed  # noqa: F401
from tests.emulator.driving import Emulator
from tests.faults.thaw_world import LIMIT_S, wait_for
from tests.faults.world import Jitter, show
from tests.gpu_bed import emulated

pytestmark = [pytest.mark.docker, pytest.mark.faults]

BACK_S = 2.0
PATIENCE_S = 90.0
CONTAINERS = 4
HUNDRED = (pytest.mark.slow, pytest.mark.timeout(3600))
"""A hundred starts of an agent take a quarter of an hour where others use the machine, too; every
wait within them has a limit of its own."""


class World:
    """Docker, an emulated GPU with a queue for it, and an agent."""

    def __init__(self, bed: Bed, emulator: Emulator, folder: Path) -> None:
        self.bed = bed
        self.emulator = emulator
        self.folder = folder
        # Keeps the broker outside of all containers, also while there are none: one that was
        # started inside would see no pids of the host.
        self._keeper = emulator.start_tenant("idle", "--seconds", 7200)
        self.start_containers()
        self.driver = CudaDriver()
        self.agent: subprocess.Popen[bytes] | None = None

    def start_containers(self) -> None:
        """Four of them, in place of those there were."""
        self.bed.clean()
        self.containers = [self._start(number) for number in range(CONTAINERS)]
        self.freezers = [self._freezer(container) for container in self.containers]

    def _start(self, number: int) -> Any:
        """Jobs one after another, so that newcomers have to queue all the time."""
        tenant = self.emulator.lib / "dure-tenant"
        job = f"{tenant} train --count 40 --kernels 20 --work-us 1000 > /dev/null"
        return self.bed.run(
            *("sh", "-c", f"while {job}; do sleep 0.1; done"),
            name=f"job-{number}",
            emulator=self.emulator.folder,
        )

    def _freezer(self, container: Any) -> Freezer:
        container.reload()
        freezer = freezer_of(int(container.attrs["State"]["Pid"]), container.id)
        assert freezer is not None
        return freezer

    def start_agent(self, way: str) -> None:
        """An agent, which starts its own watchdog where none runs; "none": it pauses nobody."""
        command = [
            *(sys.executable, "-c", "from dure.cli.main import main; main()", "agent"),
            *("--manage-containers", "--pause-with", "docker" if way == "none" else way),
            *("--strategy", "none" if way == "none" else "dure"),
        ]
        history = self.folder / "run" / "containers" / "history.json"
        history.unlink(missing_ok=True)  # what was learned of bursts under a load of kills is wrong
        with (self.folder / "agent.log").open("ab") as log:
            self.agent = subprocess.Popen(
                command,
                env=self.emulator.environment(
                    DURE_RUN_DIR=str(self.folder / "run"), DOCKER_HOST=self.bed.url
                ),
                stdout=log,
                stderr=log,
            )

    def kill_agent(self) -> None:
        assert self.agent is not None
        self.agent.kill()
        self.agent.wait()

    def owed(self) -> tuple[Owed, ...]:
        return read(self.folder / "run" / "containers" / "journal")

    def held(self) -> int:
        """How many are kept from the GPU, frozen or locked, whatever anybody says."""
        return sum(freezer.frozen() is True or self._locked(freezer) for freezer in self.freezers)

    def _locked(self, freezer: Freezer) -> bool:
        states = [self.driver.state(pid) for pid in freezer.pids() if uses_cuda(pid)]
        return LockState.LOCKED in states

    def owed_ids(self) -> set[str]:
        return {str(each.container) for each in self.owed()}

    def until_held(self, limit_s: float = LIMIT_S) -> None:
        """Until somebody is held; fails with the agent's words."""
        try:
            wait_for("somebody's pause", lambda: self.held() > 0, limit_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; the agent said:\n{self.log()[-4000:]}") from error

    def wait_for_held(self) -> Any:
        """A container that is held for certain."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            for container, freezer in zip(self.containers, self.freezers, strict=True):
                if freezer.frozen() or self._locked(freezer):
                    return container
            time.sleep(0.01)
        raise AssertionError("nobody is held")

    def status(self, container: Any) -> str:
        container.reload()
        return str(container.status)

    def statuses(self) -> set[str]:
        return {self.status(container) for container in self.containers}

    def watchdog_pid(self) -> int:
        return int((self.folder / "run" / "containers" / "watchdog.pid").read_text())

    def log(self) -> str:
        files = (self.folder / "agent.log", self.folder / "run" / "containers" / "watchdog.log")
        return "\n".join(file.read_text() for file in files if file.exists())

    def close(self) -> None:
        if self.agent is not None and self.agent.poll() is None:
            self.agent.terminate()
            self.agent.wait(30)
        self.driver.close()
        try:
            os.kill(self.watchdog_pid(), signal.SIGTERM)
        except (OSError, ValueError):
            return


@pytest.fixture
def world(
    docker_bed: Bed,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:
    folder = Path(tempfile.mkdtemp(prefix="dure-thaw-"))
    with emulated() as emulator:
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        made = World(docker_bed, emulator, folder)
        try:
            yield made
        finally:
            made.close()
            docker_bed.clean()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize(
    ("way", "kills"),
    [
        ("docker", 10),
        ("cuda-lock", 10),
        pytest.param("docker", 100, marks=HUNDRED),
        pytest.param("cuda-lock", 100, marks=HUNDRED),
    ],
)
def test_kills_of_the_agent_leave_no_container_behind(world: World, way: str, kills: int) -> None:
    by_person = world.bed.ticker(name="by-person")
    by_person.container.pause()
    chance = random.Random(kills)
    waits: list[float] = []
    hits = 0
    with Jitter() as jitter:
        for _ in range(kills):
            world.start_agent(way)
            with suppress(AssertionError):  # a busy machine may need none for long: kill it then
                world.until_held(PATIENCE_S)
            time.sleep(chance.uniform(0.0, 0.4))
            hits += world.held() > 0
            world.kill_agent()
            waits.append(wait_for("their return", lambda: world.held() == 0, 30))
            time.sleep(0.05)  # a pause that was under way would come now
            waits.append(wait_for("their return", lambda: world.held() == 0, 30))
    show(f"{hits} of {kills} kills hit a pause, all back after {max(waits):.3f} s at most")
    assert hits > kills / 4, "the kills hit nothing"
    assert max(waits) <= BACK_S + jitter.longest_s
    wait_for("an empty journal", lambda: not world.owed())
    assert [world.status(each) for each in world.containers] == ["running"] * CONTAINERS
    assert world.status(by_person.container) == "paused"
    assert "Traceback" not in world.log()


def _stopped_while_holding(world: World, agent: "subprocess.Popen[bytes]") -> bool:
    """Stop the agent, which would let go without its watchdog, unless nobody is held by then."""
    agent.send_signal(signal.SIGSTOP)
    time.sleep(0.05)  # what it asked of Docker before may come now
    if world.held() > 0 and world.owed():
        return True
    agent.send_signal(signal.SIGCONT)
    return False


def test_agent_and_watchdog_killed_together_are_made_up_for_at_the_next_start(
    world: World,
) -> None:
    world.start_agent("docker")
    assert world.agent is not None
    world.until_held()
    wait_for("one that stays held", partial(_stopped_while_holding, world, world.agent))
    os.kill(world.watchdog_pid(), signal.SIGKILL)
    world.kill_agent()
    time.sleep(0.3)
    assert world.held() > 0
    world.start_agent("none")
    wait_for("their return", lambda: world.held() == 0)
    wait_for("an empty journal", lambda: not world.owed())


@pytest.mark.parametrize("live_restore", [True, False])
def test_a_docker_that_is_killed_and_restarted_is_managed_again(
    world: World, live_restore: bool
) -> None:
    world.bed.kill_daemon()
    world.bed.start_daemon(live_restore=live_restore)
    if not live_restore:  # such a daemon ends what it finds when it starts
        world.start_containers()
    world.start_agent("docker")
    world.until_held()
    world.bed.kill_daemon()
    time.sleep(0.5)
    world.bed.start_daemon(live_restore=live_restore)
    if not live_restore:
        wait_for("a journal without the dead", lambda: not world.owed())
        world.start_containers()
    world.until_held()
    world.kill_agent()
    wait_for("their return", lambda: world.held() == 0)
    wait_for("Docker's own word", lambda: world.statuses() == {"running"})
    assert "Traceback" not in world.log()
    world.bed.kill_daemon()
    world.bed.start_daemon(live_restore=True)


@pytest.mark.parametrize("way", ["docker", "cuda-lock"])
def test_containers_that_are_stopped_removed_or_renamed_while_held_leave_nothing_behind(
    world: World, way: str
) -> None:
    world.start_agent(way)
    for act in ("rename", "stop", "remove"):
        container = world.wait_for_held()
        began = time.monotonic()
        match act:
            case "stop":
                container.stop(timeout=5)
            case "remove":
                container.remove(force=True)
            case _:
                container.rename(f"{container.name}-renamed")
        assert time.monotonic() - began < 15
        if act != "rename":
            wait_for("its records' end", lambda: container.id not in world.owed_ids())  # noqa: B023
    world.kill_agent()
    wait_for("their return", lambda: world.held() == 0)
    wait_for("an empty journal", lambda: not world.owed())
    assert "Traceback" not in world.log()
