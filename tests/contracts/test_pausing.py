"""What every way to pause promises, whatever it is made of."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import pytest

from dure.agent.containers.ports import Pauser
from dure.domain.containers import Container, PauseWay
from dure.domain.errors import DureError
from dure.domain.ids import ContainerId
from dure.runtimes.cuda_driver import CudaDriver
from dure.runtimes.cuda_lock import CudaLockPauser
from dure.runtimes.docker import DockerPauser, DockerRuntime
from dure.runtimes.inspection import GpuNames
from dure.runtimes.simulated import CUDA_LOCK_NS, SimulatedPauser, SimulatedRuntime
from tests.docker_bed import shared_bed
from tests.gpu_bed import emulated, start_gpu_ticker

NAMES = GpuNames((), environment_counts=True)


@dataclass(frozen=True)
class Bench:
    """One way to pause, with containers to try it on."""

    pauser: Pauser
    start: Callable[[], Container]
    end: Callable[[Container], None]
    works: Callable[[Container], bool]
    """Whether it gets at the GPU (again) within a generous time, seen from the container itself."""
    stands: Callable[[Container], bool]
    """Whether it does not get at it for a while."""


class CgroupThaw:
    """Docker pauses, the cgroup thaws, Docker is told afterwards: the emergency's way."""

    way = PauseWay.DOCKER

    def __init__(self, runtime: DockerRuntime) -> None:
        self._runtime = runtime

    def unsupported(self) -> str | None:
        return None

    def pause(self, container: Container) -> None:
        self._runtime.pause(container.id)

    def resume(self, container: Container) -> None:
        place = self._runtime.place(container)
        if place is not None:
            assert place.freezer is not None
            place.freezer.thaw()
        self._runtime.unpause(container.id)
        again = self._runtime.inspect(container.id)
        assert again is None or not again.paused, "Docker was not told"


def _simulated(way: PauseWay, takes_ns: int) -> Bench:
    runtime = SimulatedRuntime()
    numbers = itertools.count()

    def start() -> Container:
        id_ = ContainerId(f"{next(numbers):064x}")
        runtime.start(Container(id_, id_[-4:], "image", 0, ()))
        found = runtime.inspect(id_)
        assert found is not None
        return found

    pauser = SimulatedPauser(runtime, way, takes_ns)
    return Bench(
        pauser,
        start,
        lambda each: runtime.end(each.id),
        lambda each: runtime.runs(each.id),
        lambda each: not runtime.runs(each.id),
    )


def _docker(ends: ExitStack, make: Callable[[DockerRuntime], Pauser]) -> Bench:
    bed = shared_bed()
    ends.callback(bed.clean)
    runtime = DockerRuntime(bed.url, NAMES)
    ends.callback(runtime.close)
    tickers = {}

    def start() -> Container:
        ticker = bed.ticker()
        found = runtime.inspect(ContainerId(ticker.id))
        assert found is not None
        tickers[found.id] = ticker
        return found

    def works(container: Container) -> bool:
        return tickers[container.id].seconds_until_it_moves() >= 0

    def stands(container: Container) -> bool:
        return tickers[container.id].stands_still()

    def end(container: Container) -> None:
        tickers[container.id].container.remove(force=True)

    return Bench(make(runtime), start, end, works, stands)


def _cuda_lock(ends: ExitStack, monkeypatch: pytest.MonkeyPatch) -> Bench:
    bed = shared_bed()
    emulator = ends.enter_context(emulated())
    ends.callback(bed.clean)
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    runtime = DockerRuntime(bed.url, NAMES)
    driver = CudaDriver()
    pauser = CudaLockPauser(runtime.place, driver)
    for close in (runtime.close, driver.close, pauser.close):
        ends.callback(close)
    tickers = {}

    def start() -> Container:
        ticker = start_gpu_ticker(bed, emulator)
        found = runtime.inspect(ContainerId(ticker.id))
        assert found is not None
        tickers[found.id] = ticker
        return found

    def works(container: Container) -> bool:
        return tickers[container.id].moves("gpu")

    def stands(container: Container) -> bool:
        assert tickers[container.id].moves("cpu"), "the lock stopped more than CUDA"
        return tickers[container.id].stands_still("gpu", 0.5)

    def end(container: Container) -> None:
        tickers[container.id].container.remove(force=True)

    return Bench(pauser, start, end, works, stands)


@pytest.fixture(
    params=[
        "simulated docker",
        "simulated lock",
        pytest.param("docker", marks=pytest.mark.docker),
        pytest.param("cuda-lock", marks=pytest.mark.docker),
        pytest.param("cgroup thaw", marks=pytest.mark.docker),
    ]
)
def bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with ExitStack() as ends:
        match request.param:
            case "simulated docker":
                yield _simulated(PauseWay.DOCKER, 35_000_000)
            case "simulated lock":
                yield _simulated(PauseWay.CUDA_LOCK, CUDA_LOCK_NS)
            case "docker":
                yield _docker(ends, DockerPauser)
            case "cgroup thaw":
                yield _docker(ends, CgroupThaw)
            case _:
                yield _cuda_lock(ends, monkeypatch)


def test_it_works_here(bench: Bench) -> None:
    assert bench.pauser.unsupported() is None


def test_a_paused_container_does_not_get_at_the_gpu_and_a_resumed_one_does(bench: Bench) -> None:
    container = bench.start()
    for _ in range(2):
        bench.pauser.pause(container)
        assert bench.stands(container)
        bench.pauser.resume(container)
        assert bench.works(container)


def test_a_container_that_was_paused_twice_runs_after_one_resume(bench: Bench) -> None:
    container = bench.start()
    bench.pauser.pause(container)
    with suppress(DureError):
        bench.pauser.pause(container)
    assert bench.stands(container)
    bench.pauser.resume(container)
    assert bench.works(container)


def test_resuming_what_runs_or_is_gone_changes_nothing(bench: Bench) -> None:
    container = bench.start()
    bench.pauser.resume(container)
    assert bench.works(container)
    bench.end(container)
    bench.pauser.resume(container)


def test_a_container_that_is_gone_cannot_be_paused(bench: Bench) -> None:
    container = bench.start()
    bench.end(container)
    with pytest.raises(DureError):
        bench.pauser.pause(container)


def test_a_container_that_ends_while_paused_hangs_nobody(bench: Bench) -> None:
    container = bench.start()
    bench.pauser.pause(container)
    bench.end(container)
    began = time.monotonic()
    bench.pauser.resume(container)
    assert time.monotonic() - began < 10
    with pytest.raises(DureError):
        bench.pauser.pause(container)


def test_several_containers_are_paused_at_once_each_its_own(bench: Bench) -> None:
    containers = [bench.start() for _ in range(3)]
    errors: list[BaseException] = []

    def turn(container: Container) -> None:
        try:
            for _ in range(3):
                bench.pauser.pause(container)
                bench.pauser.resume(container)
            bench.pauser.pause(container)
        except DureError as error:
            errors.append(error)

    threads = [threading.Thread(target=turn, args=(each,)) for each in containers[:2]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert bench.works(containers[2])
    assert all(bench.stands(each) for each in containers[:2])
    for each in containers:
        bench.pauser.resume(each)
    assert all(bench.works(each) for each in containers)
