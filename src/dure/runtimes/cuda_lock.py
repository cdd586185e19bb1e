"""The CUDA process lock as a way to pause: CUDA calls wait in the driver, all else goes on.

The lock belongs to a process, so a container is locked process by process, and one that comes later
is locked as soon as it is seen. A call that hangs costs a helper process, not the agent; whoever
asked gets an error and may freeze the container instead.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dure.domain.containers import Container, PauseWay
from dure.domain.errors import DureError
from dure.domain.ids import ContainerId
from dure.runtimes.cgroups import PROC, started_ticks
from dure.runtimes.cuda_driver import (
    CudaDriver,
    DriverHangsError,
    LockState,
    Result,
    explain,
)
from dure.runtimes.docker import Place
from dure.runtimes.errors import RestlessError, StillHeldError

_log = logging.getLogger(__name__)

LOCK_WAIT_S = 4.0
"""The lock waits for the copy that runs: 1.15 s measured for 19,456² float32 from pageable memory,
so three times that and some. It waits for the making of a CUDA context, too, of which twenty at
once take 3 to 4 s each: who does not come to rest in time is tried again soon (`RestlessError`)."""
OLDEST_DRIVER = 12080
"""CUDA 12.8, driver 570: the first with the process lock."""
_SWEEP_S = 0.08
"""Between two looks for newcomers: a process takes longer than this to make a CUDA context, and a
look at a held container in which nothing changed costs some 0.03 ms."""
_ASK_S = 0.15
"""Between two looks whether a process has come to use CUDA: that reads all its mappings (0.2 ms and
more), and its context takes 0.2 s."""
_OLD_S = 5.0
"""A process this long without CUDA is asked again only now and then."""
_OLD_SWEEP_S = 0.5
"""So long a container in which nothing changes is left out of the sweep, too."""
_LIBRARY_WORD = b"libcuda.so"
_UNDO_S = 60.0
"""How long a lock that went wrong is undone again and again before it is given up."""
_UNDO_PAUSE_S = 0.2
_MPS_FRESH_S = 10.0
"""Looking through all processes takes milliseconds, so not before each lock."""
_MPS_NAMES = ("nvidia-cuda-mps", "nvidia-cuda-mps-server", "nvidia-cuda-mps-control")
_UNDER_MPS = "the CUDA lock is not used while an MPS daemon runs"
_EMULATOR = "DURE_EMULATOR_DIR"


def mps_runs(environment: Mapping[str, str] = os.environ, proc: Path = PROC) -> bool:
    """Whether an MPS daemon runs on this host (on the emulator: one of the same machine)."""
    emulator = environment.get(_EMULATOR)
    ours = f"{_EMULATOR}={emulator}".encode()
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if (folder / "comm").read_text(encoding="utf-8").strip() not in _MPS_NAMES:
                continue
            if emulator is None or ours in (folder / "environ").read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False


def uses_cuda(pid: int, proc: Path = PROC) -> bool:
    """Whether a process has the driver's library loaded."""
    try:
        return _LIBRARY_WORD in (proc / str(pid) / "maps").read_bytes()
    except OSError:
        return False


@dataclass(slots=True)
class _Held:
    """One container that is kept from the GPU."""

    place: Place
    guard: threading.Lock = field(default_factory=threading.Lock)
    """Held while its processes are locked or unlocked."""
    locked: dict[int, int] = field(default_factory=dict)
    """Start time by pid, in the order they were locked."""
    strangers: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Processes without CUDA so far: when first seen, when to ask again."""
    listed: bytes = b""
    """Its processes as they were when the last look was done."""
    quiet_until_s: float = 0.0
    """While they stay the same it is not looked at closely before then."""
    over: bool = False


class CudaLockPauser:
    """Locks and unlocks the CUDA processes of containers."""

    way = PauseWay.CUDA_LOCK

    def __init__(
        self,
        place_of: Callable[[Container], Place | None],
        driver: CudaDriver,
        mps: Callable[[], bool] = mps_runs,
        wait_s: float = LOCK_WAIT_S,
    ) -> None:
        self._place_of = place_of
        self._driver = driver
        self._mps = mps
        self._wait_s = wait_s
        self._held: dict[ContainerId, _Held] = {}
        self._changed = threading.Condition()
        self._sweeper: threading.Thread | None = None
        self._closed = False
        self._mps_asked_s = -_MPS_FRESH_S
        self._mps_runs = False

    def unsupported(self) -> str | None:
        """Why this way does not work on this host at all."""
        if self._under_mps():
            return f"{_UNDER_MPS}; use --pause-with docker"
        try:
            answer = self._driver.version()
        except DureError as error:
            return str(error)
        if not answer.ok:
            return explain(answer)
        if answer.value < OLDEST_DRIVER:
            return "the driver has no process lock; it needs version 570 or newer"
        return None

    def pause(self, container: Container) -> None:
        """Returns when every CUDA process it has is locked; those that come are locked, too."""
        if self._under_mps():
            raise DureError(_UNDER_MPS)
        place = self._place_of(container)
        if place is None or place.freezer is None:
            raise DureError(f"the processes of {container.name} cannot be seen", "run as root")
        held = self._hold(container.id, place)
        try:
            self._lock_new(held)
        except DureError:
            self._undo(container.id, held)
            raise
        with self._changed:
            if self._sweeper is None:
                self._sweeper = threading.Thread(target=self._sweep, name="locks", daemon=True)
                self._sweeper.start()
            self._changed.notify()

    def resume(self, container: Container) -> None:
        """Returns when all of them are unlocked or gone, also those nothing is known of here."""
        held = self._held.get(container.id)
        if held is not None:
            self._let_go(container.id, held)
            return
        place = self._place_of(container)
        if place is not None and place.freezer is not None:
            _must_be_unlocked(unlock_all(self._driver, place.freezer.pids()))

    def held_pids(self, container: ContainerId) -> tuple[int, ...]:
        """Which processes of a container are locked."""
        held = self._held.get(container)
        return tuple(held.locked) if held is not None else ()

    def close(self) -> None:
        """Lock no more newcomers; what is locked stays so."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    # Locking

    def _hold(self, container: ContainerId, place: Place) -> _Held:
        """What is known of this life of a container. An earlier life took its locks with it, and
        would be dropped by the sweep together with those of this one."""
        with self._changed:
            held = self._held.get(container)
            if held is not None and not _same_life(held.place, place):
                held.over, held = True, None
            if held is None:
                held = self._held[container] = _Held(place)
            held.place, held.over = place, False
            return held

    def _lock_new(self, held: _Held) -> None:
        """Lock what is not locked yet; raises where one of them cannot be."""
        assert held.place.freezer is not None
        until = time.monotonic() + self._wait_s
        with held.guard:
            if held.over:
                return
            held.listed, held.quiet_until_s = b"", 0.0  # until this look is done
            listing = held.place.freezer.listing()
            pids = {int(word) for word in listing.split()}
            for known in (held.locked, held.strangers):
                for gone in known.keys() - pids:
                    del known[gone]
            for pid in sorted(pids - held.locked.keys()):
                if not self._ask(held, pid) or (ticks := started_ticks(pid)) is None:
                    continue
                held.locked[pid] = ticks  # also while its lock may still come to be
                held.strangers[pid] = (time.monotonic(), time.monotonic() + _OLD_SWEEP_S)
                try:
                    if self._lock_one(pid, max(0.1, until - time.monotonic())):
                        continue
                    held.strangers[pid] = (time.monotonic(), 0.0)
                except DriverHangsError:
                    raise  # it may be locked all the same
                except DureError:
                    del held.locked[pid]
                    raise
                del held.locked[pid]
            again = (s for pid, (_, s) in held.strangers.items() if pid not in held.locked)
            held.listed = listing
            held.quiet_until_s = min(again, default=time.monotonic() + _OLD_SWEEP_S)

    def _ask(self, held: _Held, pid: int) -> bool:
        """Whether a process is to be locked; asks seldom where it has long done without CUDA."""
        now = time.monotonic()
        first, again = held.strangers.get(pid, (now, 0.0))
        if now < again:
            return False
        if uses_cuda(pid):
            return True
        held.strangers[pid] = (first, now + (_OLD_SWEEP_S if now - first > _OLD_S else _ASK_S))
        return False

    def _lock_one(self, pid: int, wait_s: float) -> bool:
        """Whether it is locked now; False where it has no CUDA (yet), or is gone."""
        if self._driver.state(pid) is None:
            return False
        answer = self._driver.lock(pid, wait_s)
        if answer.ok or self._driver.state(pid) is LockState.LOCKED:
            return True
        if answer.code in (Result.INVALID_VALUE, Result.OPERATING_SYSTEM):
            return False
        said = f"process {pid} cannot be locked ({explain(answer)})"
        if answer.code == Result.NOT_READY:
            raise RestlessError(said)
        raise DureError(said)

    def _under_mps(self) -> bool:
        now = time.monotonic()
        if now - self._mps_asked_s >= _MPS_FRESH_S:
            self._mps_runs = self._mps()
            self._mps_asked_s = now
        return self._mps_runs

    # Unlocking

    def _undo(self, container: ContainerId, held: _Held) -> None:
        """After a lock that failed: nothing may stay locked, so this waits until nothing is."""
        until = time.monotonic() + _UNDO_S
        while True:
            try:
                self._let_go(container, held)
            except DureError as error:
                if time.monotonic() > until:
                    raise StillHeldError(error.what, error.remedy) from error
                time.sleep(_UNDO_PAUSE_S)
            else:
                return

    def _let_go(self, container: ContainerId, held: _Held) -> None:
        with held.guard:
            held.over = True
            failed = unlock(self._driver, reversed(tuple(held.locked.items())))
            for pid in tuple(held.locked):
                if pid not in failed:
                    del held.locked[pid]
            _must_be_unlocked(failed)
        with self._changed:
            if self._held.get(container) is held:
                del self._held[container]

    def _sweep(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._held or self._closed)
                if self._closed:
                    return
                all_held = tuple(self._held.items())
            now_s = time.monotonic()
            for container, held in all_held:
                if _unchanged(held, now_s):
                    continue
                if started_ticks(held.place.pid) != held.place.started_ticks:
                    with self._changed:  # it ended, and its locks with it
                        if self._held.get(container) is held:
                            del self._held[container]
                    continue
                try:
                    self._lock_new(held)
                except DureError as error:
                    _log.warning("container %s: a new process runs on: %s", container[:12], error)
            time.sleep(_SWEEP_S)


def _same_life(one: Place, other: Place) -> bool:
    """Whether both are of one life of a container."""
    return (one.pid, one.started_ticks) == (other.pid, other.started_ticks)


def _must_be_unlocked(failed: Mapping[int, str]) -> None:
    if failed:
        said = ", ".join(f"{pid}: {why}" for pid, why in sorted(failed.items()))
        raise DureError(f"processes cannot be unlocked ({said})")


def _unchanged(held: _Held, now_s: float) -> bool:
    """Whether a container has the processes it had, and none of them is to be asked again."""
    freezer = held.place.freezer
    if not held.listed or now_s >= held.quiet_until_s or freezer is None:
        return False
    return freezer.listing() == held.listed


def unlock(driver: CudaDriver, processes: Iterable[tuple[int, int]]) -> dict[int, str]:
    """Unlock processes given with their start time; why it failed, by pid."""
    failed: dict[int, str] = {}
    for pid, ticks in processes:
        if started_ticks(pid) != ticks:
            continue
        try:
            answer = driver.unlock(pid)
            runs = answer.ok or driver.state(pid) in (None, LockState.RUNNING)
            if runs and driver.may_lock(pid):
                failed[pid] = "a call that locks it hangs in the driver"
            elif not runs:
                failed[pid] = explain(answer)
        except DureError as error:
            failed[pid] = str(error)
    return failed


def unlock_all(driver: CudaDriver, pids: Iterable[int]) -> dict[int, str]:
    """Unlock whatever is locked among these processes; why it failed, by pid."""
    locked: list[tuple[int, int]] = []
    failed: dict[int, str] = {}
    for pid in pids:
        ticks = started_ticks(pid)
        if ticks is None or not uses_cuda(pid):
            continue
        try:
            if driver.state(pid) is LockState.LOCKED:
                locked.append((pid, ticks))
        except DureError as error:
            failed[pid] = str(error)
    return failed | unlock(driver, reversed(locked))
