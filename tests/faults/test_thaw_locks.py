"""Guaranteed thaw of CUDA locks: unlocked after the freeze is lifted, and only what Dure locked."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dure.domain.ids import ContainerId
from dure.runtimes.cgroups import Freezer
from dure.runtimes.cuda_driver import CudaDriver, LockState
from dure.runtimes.cuda_lock import uses_cuda
from dure.runtimes.docker import DockerRuntime
from dure.runtimes.inspection import GpuNames
from tests.docker_bed import Bed, docker_bed  # noqa: F401
from tests.faults.thaw_world import ThawWorld, kill, wait_for
from tests.faults.world import Jitter
from tests.gpu_bed import GpuTicker, emulated, start_gpu_ticker

pytestmark = [pytest.mark.docker, pytest.mark.faults]

BACK_S = 2.0


class LockWorld(ThawWorld):
    """The same with an emulated GPU."""

    def __init__(self, bed: Bed, folder: Path) -> None:
        super().__init__(bed, folder)
        self.driver = CudaDriver()
        self.runtime = DockerRuntime(bed.url, GpuNames(()))

    def freezer(self, ticker: GpuTicker) -> Freezer:
        container = self.runtime.inspect(ContainerId(ticker.id))
        assert container is not None
        place = self.runtime.place(container)
        assert place is not None
        assert place.freezer is not None
        return place.freezer

    def locked(self, freezer: Freezer) -> bool:
        states = {self.driver.state(pid) for pid in freezer.pids() if uses_cuda(pid)}
        return LockState.LOCKED in states

    def close(self) -> None:
        super().close()
        self.driver.close()
        self.runtime.close()


@pytest.fixture
def locks(
    docker_bed: Bed,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[LockWorld, list[GpuTicker]]]:
    folder = Path(tempfile.mkdtemp(prefix="dure-locks-"))
    with emulated() as emulator:
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        tickers = [start_gpu_ticker(docker_bed, emulator) for _ in range(2)]
        world = LockWorld(docker_bed, folder)
        yield world, tickers
        world.close()
        docker_bed.clean()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("ways", ["cuda-lock", "cuda-lock,docker"])
def test_a_kill_leaves_nothing_locked_whether_frozen_too_or_not(
    locks: tuple[LockWorld, list[GpuTicker]], ways: str
) -> None:
    world, tickers = locks
    freezers = [world.freezer(ticker) for ticker in tickers]
    world.start_watchdog()
    pauser = world.start_holding(tickers, ways)
    # Between two programs there is nothing to lock; the next one is locked when it comes.
    if "docker" not in ways:
        wait_for("their locks", lambda: all(world.locked(freezer) for freezer in freezers))
    assert all(freezer.frozen() == ("docker" in ways) for freezer in freezers)
    with Jitter() as jitter:
        kill(pauser)
        waited = wait_for(
            "their return",
            lambda: not any(each.frozen() or world.locked(each) for each in freezers),
            30,
        )
    assert waited <= BACK_S + jitter.longest_s
    assert all(ticker.moves("gpu") for ticker in tickers)
    wait_for("an empty journal", lambda: not world.owed())
    assert "Traceback" not in world.errors()


def test_a_person_who_paused_a_locked_container_finds_it_paused_and_no_longer_locked(
    locks: tuple[LockWorld, list[GpuTicker]],
) -> None:
    world, tickers = locks
    mine, other = tickers
    freezer = world.freezer(mine)
    world.start_watchdog()
    pauser = world.start_holding([mine], "cuda-lock")
    mine.container.pause()
    kill(pauser)
    wait_for("an empty journal", lambda: not world.owed())
    assert not world.locked(freezer)
    mine.container.reload()
    assert mine.container.status == "paused"
    mine.container.unpause()
    assert mine.moves("gpu")
    assert other.moves("gpu")


def test_a_lock_ends_at_its_deadline_by_the_watchdog_alone(
    locks: tuple[LockWorld, list[GpuTicker]],
) -> None:
    world, tickers = locks
    freezer = world.freezer(tickers[0])
    world.start_watchdog()
    world.start_holding(tickers[:1], "cuda-lock", DEADLINE_S="3")
    wait_for("its lock", lambda: world.locked(freezer))
    wait_for("its end", lambda: not world.locked(freezer), 30)
    assert tickers[0].moves("gpu")
