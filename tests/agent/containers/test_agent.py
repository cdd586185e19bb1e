"""The agent with and without what containers need: it says what is missing and goes on."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dure.client.api import AgentClient, AgentUnreachableError
from dure.client.containers import ContainersStatus
from dure.client.places import Places
from dure.domain.errors import InputError
from tests.agent.containers.stand import wait_for
from tests.emulator.conftest import emulator, lib, make_machine  # noqa: F401
from tests.emulator.driving import Emulator

DURE = [sys.executable, "-c", "from dure.cli.main import main; main()"]

Start = Callable[..., "subprocess.Popen[str]"]


class Host:
    """An emulated GPU, and a run folder for one agent."""

    def __init__(self, emulator: Emulator, folder: Path) -> None:  # noqa: F811
        self.emulator = emulator
        self.places = Places(folder / "run")
        self.docker = folder / "docker.sock"

    def agent(self, *options: str, **environment: str) -> "subprocess.Popen[str]":
        given = {"DURE_RUN_DIR": str(self.places.run_dir), "DOCKER_HOST": f"unix://{self.docker}"}
        return self.emulator.start([*DURE, "agent", *options], **(given | environment))

    def containers(self) -> ContainersStatus | None:
        try:
            with AgentClient(self.places, 20.0) as client:
                return client.containers()
        except AgentUnreachableError:
            return None

    def troubles(self) -> tuple[str, ...] | None:
        status = self.containers()
        return status.troubles if status is not None else None

    def watchdog(self) -> int | None:
        try:
            return int((self.places.containers_dir / "watchdog.pid").read_text())
        except (OSError, ValueError):
            return None


@pytest.fixture
def host(emulator: Emulator) -> Iterator[Host]:  # noqa: F811
    with tempfile.TemporaryDirectory(prefix="dure-host-", ignore_cleanup_errors=True) as folder:
        made = Host(emulator, Path(folder))
        yield made
        pid = made.watchdog()
        if pid is not None and Path(f"/proc/{pid}").exists():
            os.kill(pid, signal.SIGKILL)


def test_without_docker_the_agent_says_so_and_does_the_rest(host: Host) -> None:
    agent = host.agent("--manage-containers")
    wait_for("the sentence", lambda: any("there is no Docker" in t for t in host.troubles() or ()))
    wait_for("watchdog and monitor", lambda: len(host.troubles() or "  ") == 1)
    status = host.containers()
    assert status is not None
    assert (status.strategy, status.containers) == ("dure", ())
    with AgentClient(host.places, 20.0) as client:
        assert len(client.status().gpus) == 1
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(30) == 0


def test_without_permission_on_its_socket_the_sentence_says_what_to_do(host: Host) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may use every socket")
    host.docker.touch(mode=0)
    host.agent("--manage-containers")
    wait_for("the sentence", lambda: any("may not use" in t for t in host.troubles() or ()))


def test_an_agent_that_does_not_manage_containers_says_how_to(host: Host) -> None:
    host.agent()

    def refused() -> bool:
        try:
            return host.containers() is not None
        except InputError as error:
            return "dure agent --manage-containers" in str(error)

    wait_for("the refusal", refused)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--strategy", "magic"), "'magic' is not a strategy"),
        (("--sharing", "mps", "--pause-with", "cuda-lock"), "not used while an MPS daemon runs"),
    ],
)
def test_what_is_not_possible_is_refused_at_the_start(
    host: Host, options: tuple[str, ...], words: str
) -> None:
    agent = host.agent("--manage-containers", *options)
    _, err = agent.communicate(timeout=60)
    assert agent.returncode == 2
    assert words in err


def test_a_monitor_that_is_killed_is_a_trouble_until_it_is_back(host: Host) -> None:
    host.agent("--manage-containers")
    wait_for("a monitor", lambda: (s := host.containers()) is not None and s.monitor.looks)
    status = host.containers()
    assert status is not None
    assert status.monitor.pid is not None
    os.kill(status.monitor.pid, signal.SIGKILL)
    wait_for("its death", lambda: (s := host.containers()) is not None and s.monitor.deaths == 1)
    wait_for("its return", lambda: (s := host.containers()) is not None and s.monitor.pid)
    wait_for("no trouble with it", lambda: not any("monitor" in t for t in host.troubles() or "-"))


def test_a_watchdog_that_is_killed_is_started_again(host: Host) -> None:
    host.agent("--manage-containers")
    wait_for("a watchdog", lambda: host.troubles() and len(host.troubles() or ()) == 1)
    first = host.watchdog()
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_for("the trouble", lambda: any("watchdog" in t for t in host.troubles() or ()))
    wait_for("another one", lambda: host.watchdog() not in (None, first))
    wait_for("no trouble with it", lambda: not any("watchdog" in t for t in host.troubles() or ()))


def test_an_agent_told_to_start_no_watchdog_waits_for_the_one_of_a_service(host: Host) -> None:
    host.agent("--manage-containers", "--no-start-watchdog")
    missing = ("there is no Docker", "watchdog is not there")
    wait_for(
        "all else", lambda: _all_in(missing, host.troubles()) and len(host.troubles() or ()) == 2
    )
    assert host.watchdog() is None
    assert not (host.places.containers_dir / "watchdog.log").exists(), "one was started"
    host.emulator.start([*DURE, "node", "watchdog"], DURE_RUN_DIR=str(host.places.run_dir))
    wait_for("no trouble with it", lambda: len(host.troubles() or "  ") == 1)


def _all_in(words: tuple[str, ...], said: tuple[str, ...] | None) -> bool:
    return all(any(word in each for each in said or ()) for word in words)
