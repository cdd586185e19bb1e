"""Where kernels of processes overlap, streams wait on the device in place of held threads."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from dure.devices.plane import PlaneDevice
from tests.emulator.driving import Emulator, finish, machine, read_line
from tests.native.compiling import native_build
from tests.shim.agents import StubAgent, member

PROMISE = 3
KERNELS = 40


@pytest.fixture(scope="session")
def lib(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything, built as it is installed."""
    folder = tmp_path_factory.mktemp("waits")
    native_build().build(folder, (), None)
    return folder


class Stage:
    """An emulated GPU whose processes run side by side, an agent, and programs under the shim."""

    def __init__(self, lib: Path, folder: Path, emulator: Emulator) -> None:
        device = PlaneDevice(132, 8, 80 << 30, b"\x44" * 16, side_by_side=True)
        self.agent = StubAgent(folder / "shim.sock", device)
        self.agent.segments.set_sample_every(16)
        self.emulator = emulator
        self._lib = lib
        web = member("web")
        trains = member("t", yields_to=(web.tenant,), inflight_ns=300_000)
        self.agent.publish(trains, web, protected=("web",))

    def environment(self, tenant: str) -> dict[str, str]:
        """That of a tenant's program."""
        return {
            "LD_PRELOAD": str(self._lib / "libdure.so"),
            "DURE_SOCKET": str(self.agent.path),
            "DURE_TENANT": tenant,
        }

    def program(self, tenant: str, name: str, *arguments: object) -> Popen[str]:
        """Start one of the emulator's programs as a tenant."""
        environment = {**self.environment(tenant), "PYTHONUNBUFFERED": "1"}
        return self.emulator.start_program(name, *arguments, **environment)

    def tenant(self, tenant: str, *arguments: object) -> Popen[str]:
        """Start `dure-tenant` as a tenant."""
        return self.emulator.start_tenant(*arguments, "--json", **self.environment(tenant))

    def waiter(self, kernels: int = KERNELS) -> Popen[str]:
        """A program that is about to launch so much, with one launch already behind it."""
        process = self.program("t", "waiting", kernels, 0.5)
        assert read_line(process) == "ready"
        return process

    def closed(self) -> int:
        """How many words are not 0."""
        return sum(word != 0 for word in self.agent.segments._rotation.words.closed)


@pytest.fixture
def stage(lib: Path) -> Iterator[Stage]:
    """A stage that is gone afterwards."""
    with _stage(lib) as made:
        yield made


@contextmanager
def _stage(lib: Path) -> Iterator[Stage]:
    settings = {
        "mode": "mps",
        "shared_fate": 0,
        "idle_exit_s": 2,
        "memory_mib": 8192,
        "context_mib": 64,
    }
    with (
        TemporaryDirectory(prefix="dure-w-", dir="/tmp") as folder,
        machine(lib, Path(folder) / "gpu", **settings) as emulator,
    ):
        made = Stage(lib, Path(folder), emulator)
        try:
            yield made
        finally:
            made.agent.close()


def go(process: Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def result(process: Popen[str]) -> dict[str, Any]:
    code, printed = finish(process)
    assert code == 0, printed
    return printed


def chased(kernels: int) -> int:
    word = 1
    for addend in range(kernels):
        word = (word * 1664525 + addend) & 0xFFFFFFFF
    return word


def test_a_tenant_with_a_promise_has_the_device_to_itself_and_results_are_right(
    stage: Stage,
) -> None:
    train = stage.tenant("t", "train", "--seconds", 2.5, "--kernels", 100, "--sync-every", 1)
    alone_ms = 1.0
    took = result(stage.program("web", "bursts", 80, 10, alone_ms / 10))["ms"]
    assert result(train)["correct"]
    assert took[len(took) // 2] < 1.3 * alone_ms  # beside it without a wait it takes twice as long
    counters = stage.agent.read(0).counters
    assert counters.held_for[stage.agent.tenants["web"]] > 0
    assert counters.gated_by_ns[PROMISE] > 0
    assert stage.closed() == 0


def test_launches_that_pass_lightly_count_for_what_they_took(stage: Stage) -> None:
    stage.agent.segments.set_gated(False)
    steps, kernels, kernel_us = 100, 100, 50
    size = ("--count", steps, "--kernels", kernels, "--work-us", kernel_us)
    assert result(stage.tenant("t", "train", *size, "--sync-every", 1))["correct"]
    counters = stage.agent.read(0).counters
    assert counters.launches > steps * kernels
    really_ns = steps * kernels * kernel_us * 1000
    assert counters.gpu_ns == pytest.approx(really_ns, rel=0.5)


def test_the_program_runs_ahead_of_a_wait_on_the_device(stage: Stage) -> None:
    waiter = stage.waiter()
    web = stage.program("web", "busy", 1.5)
    assert read_line(web) == "busy"
    go(waiter)
    seen, other = result(waiter), result(web)
    assert seen["word"] == chased(KERNELS)
    held_s = seen["ended"] - seen["began"]
    assert seen["launched"] - seen["began"] < held_s / 2, "8 ms of work are launched at once"
    assert seen["ended"] >= other["ended"] - 0.2
    assert stage.agent.read(0).counters.passes_open == 0
    assert stage.closed() == 0


def test_every_kind_of_program_is_right_behind_waits(stage: Stage) -> None:
    web = stage.program("web", "bursts", 150, 4, 0.5)
    kinds = (
        ("graph", "--count", 15, "--kernels", 8),
        ("streams", "--count", 15),
        ("threads", "--count", 15, "--streams", 3),
        ("train", "--count", 20, "--legacy"),
        ("fork", "--children", 3),
    )
    for kind in kinds:
        assert result(stage.tenant("t", *kind)).get("errors", 0) == 0
    result(web)


@pytest.mark.faults
def test_nobody_waits_for_a_client_that_was_killed(stage: Stage) -> None:
    waiter = stage.waiter()
    web = stage.program("web", "busy", 30)
    assert read_line(web) == "busy"
    go(waiter)
    time.sleep(0.3)
    assert waiter.poll() is None
    web.kill()
    killed = time.monotonic()
    seen = result(waiter)
    assert seen["word"] == chased(KERNELS)
    assert seen["ended"] - killed < 3.0  # 0.1 s beside what it had in flight, on an idle machine


@pytest.mark.faults
def test_nobody_waits_when_the_agent_is_gone(stage: Stage) -> None:
    waiter = stage.waiter()
    web = stage.program("web", "busy", 4)
    assert read_line(web) == "busy"
    go(waiter)
    time.sleep(0.3)
    stage.agent.stop_beating()
    seen, other = result(waiter), result(web)
    assert seen["word"] == chased(KERNELS)
    assert seen["ended"] < other["ended"]
    assert stage.agent.read(0).counters.passes_open >= 1


@pytest.mark.faults
def test_nobody_waits_for_longer_than_the_longest_hold(stage: Stage) -> None:
    waiter = stage.waiter(kernels=1)
    web = stage.program("web", "busy", 4.5)
    assert read_line(web) == "busy"
    go(waiter)
    seen, other = result(waiter), result(web)
    assert seen["word"] == chased(1)
    assert seen["ended"] - seen["began"] > 1.5
    assert seen["ended"] < other["ended"]
    assert stage.agent.read(0).counters.passes_open >= 1
