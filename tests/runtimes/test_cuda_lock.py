"""The CUDA lock on a driver that misbehaves as one says, and on the emulator in real containers."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from dure.domain.containers import Container
from dure.domain.errors import DureError
from dure.domain.ids import ContainerId
from dure.runtimes import cuda_driver, cuda_lock
from dure.runtimes.cgroups import Freezer, started_ticks
from dure.runtimes.cuda_driver import CudaDriver, DriverHangsError, LockState
from dure.runtimes.cuda_lock import CudaLockPauser, mps_runs, unlock_all
from dure.runtimes.docker import DockerRuntime, Place
from dure.runtimes.errors import RestlessError, StillHeldError
from dure.runtimes.inspection import GpuNames
from tests.docker_bed import Bed, docker_bed  # noqa: F401
from tests.emulator.driving import Emulator
from tests.gpu_bed import emulated, start_gpu_ticker

DRIVER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A driver whose lock does what the file $FAKE_DRIVER/how says; states are files by pid. */
static const char *folder(void) { return getenv("FAKE_DRIVER"); }

static void how(char *word)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/how", folder());
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%63s", word) != 1)
        strcpy(word, "fine");
    if (file != NULL)
        fclose(file);
}

static void state_path(char *path, size_t size, int pid)
{
    snprintf(path, size, "%s/locked-%d", folder(), pid);
}

int cuInit(unsigned flags) { (void)flags; return 0; }
int cuDriverGetVersion(int *version) { *version = VERSION; return 0; }
#ifndef BARE
int cuCheckpointProcessGetState(int pid, int *state)
{
    char path[4096];
    state_path(path, sizeof path, pid);
    *state = access(path, F_OK) == 0;
    return 0;
}
int cuCheckpointProcessLock(int pid, void *args)
{
    (void)args;
    char path[4096], word[64];
    how(word);
    if (strcmp(word, "refuse") == 0)
        return 600;
    state_path(path, sizeof path, pid);
    fclose(fopen(path, "w"));
    if (strcmp(word, "hang") == 0 || strcmp(word, "keep") == 0)
        sleep(1000);
    if (strcmp(word, "crash") == 0)
        abort();
    return 0;
}
int cuCheckpointProcessUnlock(int pid, void *args)
{
    (void)args;
    char path[4096], word[64];
    how(word);
    if (strcmp(word, "keep") == 0)
        return 999;
    state_path(path, sizeof path, pid);
    return unlink(path) == 0 ? 0 : 401;
}
#endif
"""


class FakeDriver:
    """A libcuda of our own in the path of helpers."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *defines: str) -> None:
        self.folder = folder
        source = folder / "driver.c"
        source.write_text(DRIVER, encoding="utf-8")
        flags = [f"-D{define}" for define in (defines or ("VERSION=13000",))]
        built = folder / "libcuda.so.1"
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-w", *flags, "-o", str(built), str(source)], check=True
        )
        monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
        monkeypatch.setenv("FAKE_DRIVER", str(folder))

    def behave(self, how: str) -> None:
        (self.folder / "how").write_text(how, encoding="utf-8")

    def forget(self, pid: int) -> None:
        """A process is gone, and its lock with it."""
        (self.folder / f"locked-{pid}").unlink()

    def locked(self) -> set[int]:
        return {int(file.name.partition("-")[2]) for file in self.folder.glob("locked-*")}


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    return FakeDriver(tmp_path, monkeypatch)


@pytest.fixture
def driver() -> Iterator[CudaDriver]:
    made = CudaDriver(answer_s=1.0)
    yield made
    made.close()


CONTAINER = Container(ContainerId("c" * 64), "web", "image", 1, ())


class Group:
    """A folder in place of a cgroup, with processes that have a "libcuda.so" mapped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "group"
        self.folder.mkdir()
        self.processes: list[subprocess.Popen[bytes]] = []
        self._library = folder / "libcuda.so.mapped"
        self._library.write_bytes(b"x" * 4096)

    def add(self, *, cuda: bool = True) -> int:
        program = (
            "import mmap, os, sys, time\n"
            "f = open(sys.argv[1], 'r+b'); m = mmap.mmap(f.fileno(), 0)\n"
            "print('x', flush=True); time.sleep(1000)"
        )
        plain = "import time; print('x', flush=True); time.sleep(1000)"
        process = subprocess.Popen(
            ["python3", "-c", program if cuda else plain, str(self._library)],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        process.stdout.readline()
        self.processes.append(process)
        self.write()
        return process.pid

    def write(self) -> None:
        pids = [str(each.pid) for each in self.processes if each.poll() is None]
        (self.folder / "cgroup.procs").write_text("\n".join(pids), encoding="ascii")

    def place(self, _: Container) -> Place:
        first = self.processes[0].pid
        return Place("", first, started_ticks(first) or 0, Freezer(self.folder, 2))

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    made = Group(tmp_path)
    yield made
    made.close()


def _pauser(group: Group, driver: CudaDriver) -> CudaLockPauser:
    return CudaLockPauser(group.place, driver, mps=lambda: False, wait_s=0.5)


def _soon(check: object, limit_s: float = 10.0) -> None:
    assert callable(check)
    until = time.monotonic() + limit_s
    while not check():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_every_cuda_process_is_locked_and_no_other(
    fake: FakeDriver, group: Group, driver: CudaDriver
) -> None:
    first, plain, second = group.add(), group.add(cuda=False), group.add()
    pauser = _pauser(group, driver)
    pauser.pause(CONTAINER)
    assert fake.locked() == {first, second}
    assert plain not in pauser.held_pids(CONTAINER.id)
    pauser.resume(CONTAINER)
    assert fake.locked() == set()
    pauser.close()


def test_a_process_that_comes_later_is_locked_and_unlocked_too(
    fake: FakeDriver, group: Group, driver: CudaDriver
) -> None:
    group.add()
    pauser = _pauser(group, driver)
    pauser.pause(CONTAINER)
    later = group.add()
    _soon(lambda: later in fake.locked())
    _soon(lambda: later in pauser.held_pids(CONTAINER.id))
    pauser.resume(CONTAINER)
    assert fake.locked() == set()
    group.add()
    time.sleep(0.1)
    assert fake.locked() == set(), "locked after it was let go"
    pauser.close()


def test_a_newcomer_that_cannot_be_locked_yet_is_tried_again(
    fake: FakeDriver, group: Group, driver: CudaDriver
) -> None:
    group.add()
    pauser = _pauser(group, driver)
    pauser.pause(CONTAINER)
    fake.behave("refuse")
    later = group.add()
    time.sleep(0.3)
    assert later not in pauser.held_pids(CONTAINER.id)
    fake.behave("fine")
    _soon(lambda: later in fake.locked())
    pauser.resume(CONTAINER)
    assert fake.locked() == set()
    pauser.close()


def test_who_does_not_come_to_rest_in_time_may_be_locked_soon(
    fake: FakeDriver, group: Group, driver: CudaDriver
) -> None:
    group.add()
    fake.behave("refuse")
    pauser = _pauser(group, driver)
    with pytest.raises(RestlessError, match="did not come to rest"):
        pauser.pause(CONTAINER)
    fake.behave("fine")
    pauser.pause(CONTAINER)
    pauser.resume(CONTAINER)
    assert fake.locked() == set()
    pauser.close()


def test_a_container_that_is_gone_is_forgotten(
    fake: FakeDriver, group: Group, driver: CudaDriver
) -> None:
    group.add()
    pauser = _pauser(group, driver)
    pauser.pause(CONTAINER)
    group.processes[0].kill()
    group.processes[0].wait()
    _soon(lambda: not pauser.held_pids(CONTAINER.id))
    pauser.resume(CONTAINER)
    pauser.close()


@pytest.mark.parametrize("how", ["hang", "crash", "refuse"])
def test_a_lock_that_goes_wrong_is_an_error_in_time_and_leaves_nothing_locked(
    fake: FakeDriver, group: Group, driver: CudaDriver, how: str
) -> None:
    group.add()
    group.add()
    fake.behave(how)
    pauser = _pauser(group, driver)
    began = time.monotonic()
    with pytest.raises(DureError):
        pauser.pause(CONTAINER)
    assert time.monotonic() - began < 10
    assert fake.locked() == set()
    assert pauser.held_pids(CONTAINER.id) == ()
    fake.behave("fine")
    pauser.pause(CONTAINER)
    assert len(fake.locked()) == 2
    pauser.resume(CONTAINER)
    pauser.close()


def test_a_hang_keeps_no_other_call_waiting(
    fake: FakeDriver, group: Group, driver: CudaDriver
) -> None:
    pid = group.add()
    assert driver.state(pid) is LockState.RUNNING
    fake.behave("hang")
    with pytest.raises(DriverHangsError, match="did not answer"):
        driver.lock(pid, 0.1)
    began = time.monotonic()
    assert driver.state(pid) is LockState.LOCKED
    assert driver.unlock(pid).ok
    assert time.monotonic() - began < 5


@contextmanager
def undying() -> Iterator[None]:
    """Helpers do not die when they are killed, as if they hung inside the driver."""
    kill, stuck = subprocess.Popen.kill, list[subprocess.Popen[bytes]]()

    def hang(process: "subprocess.Popen[bytes]") -> None:
        process.send_signal(signal.SIGSTOP)
        stuck.append(process)
        threads = Path(f"/proc/{process.pid}/task")
        _soon(lambda: all(b") T" in each.read_bytes() for each in threads.glob("*/stat")))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(subprocess.Popen, "kill", hang)
        try:
            yield
        finally:
            for process in stuck:
                kill(process)


def _nothing_is_stuck() -> bool:
    return all(thread.name != "lock-reaper" for thread in threading.enumerate())


def test_a_helper_that_does_not_die_keeps_nobody_waiting(
    fake: FakeDriver, group: Group, driver: CudaDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = group.add()
    fake.behave("hang")
    raised = threading.Event()

    def lock() -> None:
        with pytest.raises(DriverHangsError, match="did not answer"):
            driver.lock(pid, 0.1)
        raised.set()

    with undying(), monkeypatch.context() as patched:
        threading.Thread(target=lock, daemon=True).start()
        assert raised.wait(10.0), "it waits for the end of its helper"
        patched.setattr(cuda_driver, "_MOST_STUCK", 1)
        with pytest.raises(DriverHangsError, match="1 calls hang in the CUDA driver"):
            driver.unlock(pid)
    _soon(_nothing_is_stuck)
    assert driver.unlock(pid).ok, "helpers are started again once the stuck one is gone"


def test_a_lock_whose_call_hangs_in_the_driver_is_held_until_that_ended(
    fake: FakeDriver, group: Group, driver: CudaDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_lock, "_UNDO_S", 0.3)
    group.add()
    fake.behave("hang")
    pauser = _pauser(group, driver)
    with undying(), pytest.raises(StillHeldError, match="hangs in the driver"):
        pauser.pause(CONTAINER)
    _soon(_nothing_is_stuck)
    pauser.resume(CONTAINER)
    assert fake.locked() == set()
    assert pauser.held_pids(CONTAINER.id) == ()
    pauser.close()


def test_a_lock_that_cannot_be_undone_says_that_it_is_still_there(
    fake: FakeDriver, group: Group, driver: CudaDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_lock, "_UNDO_S", 0.3)
    pid = group.add()
    fake.behave("keep")
    pauser = _pauser(group, driver)
    with pytest.raises(StillHeldError, match="cannot be unlocked"):
        pauser.pause(CONTAINER)
    assert pauser.held_pids(CONTAINER.id) == (pid,)
    fake.behave("fine")
    pauser.resume(CONTAINER)
    assert fake.locked() == set()
    pauser.close()


def test_a_container_that_was_started_anew_while_it_was_held_is_held_and_let_go_anew(
    fake: FakeDriver, group: Group, driver: CudaDriver
) -> None:
    group.add()
    pauser = _pauser(group, driver)
    pauser._sweeper = threading.Thread()  # none looks while it starts anew
    pauser.pause(CONTAINER)
    before = group.processes.pop()
    before.kill()
    before.communicate()
    fake.forget(before.pid)
    again = group.add()
    pauser._sweeper = None
    pauser.pause(CONTAINER)
    assert fake.locked() == {again}
    time.sleep(1.0)  # the next close look comes after half a second
    assert pauser.held_pids(CONTAINER.id) == (again,), "dropped with its former life"
    pauser.resume(CONTAINER)
    assert fake.locked() == set()
    pauser.close()


def test_locks_nobody_remembers_are_opened_when_their_container_is_let_go(
    fake: FakeDriver, group: Group, driver: CudaDriver
) -> None:
    pid = group.add()
    first = _pauser(group, driver)
    first.pause(CONTAINER)
    first.close()
    assert fake.locked() == {pid}
    _pauser(group, driver).resume(CONTAINER)
    assert fake.locked() == set()


def helpers() -> int:
    """Of this process, by the kernel's list of its children."""
    found = 0
    for children in Path("/proc/self/task").glob("*/children"):
        for pid in children.read_text(encoding="ascii").split():
            with suppress(OSError):
                found += b"cuda_helper" in Path("/proc", pid, "cmdline").read_bytes()
    return found


def _no_helper_starts() -> bool:
    return all(thread.name != "lock-helper" for thread in threading.enumerate())


def test_helpers_that_are_expected_are_there_before_they_are_needed(
    fake: FakeDriver, driver: CudaDriver
) -> None:
    driver.expect(2)
    driver.expect(3)
    _soon(lambda: driver.ready == 3 and _no_helper_starts(), 20.0)
    assert driver.version().value == 13000
    assert helpers() == 3
    driver.expect(3)
    _soon(_no_helper_starts)
    assert helpers() == 3


def test_helpers_beyond_those_that_are_expected_end_when_they_have_answered(
    fake: FakeDriver, driver: CudaDriver
) -> None:
    driver.expect(3)
    _soon(lambda: driver.ready == 3, 20.0)
    driver.expect(0)
    for left in (2, 1, 1):
        assert driver.version().value == 13000
        assert helpers() == left


def test_no_helper_is_made_ready_once_the_driver_is_closed(
    fake: FakeDriver, driver: CudaDriver
) -> None:
    driver.expect(8)
    driver.close()
    _soon(_no_helper_starts, 20.0)
    assert helpers() == 0


def test_where_no_thread_can_start_helpers_are_started_when_one_can(
    fake: FakeDriver, driver: CudaDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, tried = threading.Thread.start, list[str]()

    def start_one(thread: threading.Thread) -> None:
        tried.append(thread.name)
        if len(tried) > 1:
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as short:
        short.setattr(threading.Thread, "start", start_one)
        driver.expect(3)
    _soon(lambda: driver.ready == 1, 20.0)
    assert helpers() == 1
    driver.expect(3)
    _soon(lambda: driver.ready == 3, 20.0)
    assert helpers() == 3


def test_helpers_end_with_their_parent_even_in_the_middle_of_a_call(
    fake: FakeDriver, group: Group
) -> None:
    pid = group.add()
    fake.behave("hang")
    program = (
        "import sys\n"
        "from dure.runtimes.cuda_driver import CudaDriver\n"
        "CudaDriver(60).lock(int(sys.argv[1]), 60)\n"
    )
    parent = subprocess.Popen(["python3", "-c", program, str(pid)], env=_with_source())
    _soon(lambda: pid in fake.locked())
    (helper,) = _children(parent.pid)
    parent.kill()
    parent.wait()
    _soon(lambda: started_ticks(helper) is None or _zombie(helper))


def _with_source() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(word) for word in text.split()]


def _zombie(pid: int) -> bool:
    try:
        return ") Z" in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return True


@pytest.mark.parametrize("defines", [("VERSION=12060",), ("VERSION=13000", "BARE")])
def test_an_old_driver_is_not_used_and_says_what_it_needs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    group: Group,
    driver: CudaDriver,
    defines: tuple[str, ...],
) -> None:
    FakeDriver(tmp_path, monkeypatch, *defines)
    assert "570 or newer" in (_pauser(group, driver).unsupported() or "")


def test_under_mps_it_is_off(fake: FakeDriver, group: Group, driver: CudaDriver) -> None:
    group.add()
    pauser = CudaLockPauser(group.place, driver, mps=lambda: True)
    assert "MPS" in (pauser.unsupported() or "")
    with pytest.raises(DureError, match="MPS"):
        pauser.pause(CONTAINER)
    assert fake.locked() == set()


def test_an_mps_daemon_is_found_among_all_processes(tmp_path: Path) -> None:
    folder = tmp_path / "42"
    folder.mkdir()
    (folder / "environ").write_bytes(b"A=1\0DURE_EMULATOR_DIR=/x\0")
    (folder / "comm").write_text("bash\n", encoding="utf-8")
    assert not mps_runs({}, tmp_path)
    (folder / "comm").write_text("nvidia-cuda-mps\n", encoding="utf-8")
    assert mps_runs({}, tmp_path)
    assert mps_runs({"DURE_EMULATOR_DIR": "/x"}, tmp_path)
    assert not mps_runs({"DURE_EMULATOR_DIR": "/y"}, tmp_path)


def test_whatever_is_locked_in_a_group_is_unlocked_by_somebody_who_never_locked_it(
    fake: FakeDriver, group: Group, driver: CudaDriver
) -> None:
    first, _, _ = group.add(), group.add(), group.add(cuda=False)
    pauser = _pauser(group, driver)
    pauser.pause(CONTAINER)
    pauser.close()
    assert first in fake.locked()
    assert unlock_all(driver, Freezer(group.folder, 2).pids()) == {}
    assert fake.locked() == set()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    with emulated() as made:
        for name, value in made.environment().items():
            monkeypatch.setenv(name, value)
        yield made


@pytest.mark.docker
def test_a_locked_container_stays_healthy_and_goes_on_unharmed(
    docker_bed: Bed,  # noqa: F811
    machine: Emulator,
    driver: CudaDriver,
) -> None:
    check = {"test": ["CMD", "true"], "interval": 500_000_000, "retries": 1}
    ticker = start_gpu_ticker(docker_bed, machine, healthcheck=check)
    runtime = DockerRuntime(docker_bed.url, GpuNames((), environment_counts=True))
    pauser = CudaLockPauser(runtime.place, driver)
    assert pauser.unsupported() is None
    container = runtime.inspect(ContainerId(ticker.id))
    assert container is not None
    assert container.health_checked
    pauser.pause(container)
    assert ticker.stands_still("gpu", 1.5)
    assert ticker.moves("cpu")
    ticker.container.reload()
    assert ticker.container.attrs["State"]["Health"]["Status"] == "healthy"
    pauser.resume(container)
    assert ticker.moves("gpu")
    pauser.close()
    runtime.close()


@pytest.mark.docker
def test_a_locked_container_can_be_stopped(
    docker_bed: Bed,  # noqa: F811
    machine: Emulator,
    driver: CudaDriver,
) -> None:
    ticker = start_gpu_ticker(docker_bed, machine)
    runtime = DockerRuntime(docker_bed.url, GpuNames((), environment_counts=True))
    pauser = CudaLockPauser(runtime.place, driver)
    container = runtime.inspect(ContainerId(ticker.id))
    assert container is not None
    pauser.pause(container)
    began = time.monotonic()
    ticker.container.stop(timeout=5)
    pauser.resume(container)
    assert time.monotonic() - began < 15
    assert runtime.inspect(container.id) is None
    _soon(lambda: not pauser.held_pids(container.id))
    pauser.close()
    runtime.close()
