"""Letting go whatever a journal owes: by the runtime, else by its cgroup; locks after freezes.

Used when an agent starts, by the watchdog, and by `dure node thaw`. Nothing but what the journal
owes is touched, and of that only the life of a container that was paused: the first process must
still be the one that was written down. What a person paused is not in the journal.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path

from dure.agent.containers.sidework import side_by_side
from dure.domain.containers import PauseWay
from dure.domain.errors import DureError
from dure.domain.ids import ContainerId
from dure.runtimes.cgroups import started_ticks
from dure.runtimes.cuda_driver import CudaDriver
from dure.runtimes.cuda_lock import unlock_all
from dure.runtimes.docker import DockerRuntime
from dure.runtimes.docker_errors import ContainerGoneError, RuntimeUnreachableError
from dure.runtimes.inspection import GpuNames
from dure.runtimes.journal import Journal
from dure.runtimes.journal_records import NAME, Owed, read

_log = logging.getLogger(__name__)

ANSWER_S = 0.7
"""How long Docker may take to let one go before its cgroup is used: within the 2 s that a container
may stay frozen after the agent's death, with room for a slow machine."""
SETTLE_S = 3.0
"""A pause that was under way when its agent died may still take effect so much later."""
AGAIN_S = 1.0
"""How long what could not be let go waits for the next try."""
_UNSURE_AGAIN_S = 0.2
_SILENT_S = 0.9
_LOOK_S = 0.02
_AT_ONCE = 8
_STALL_S = 2.0
"""How long one that does not come back is waited for: longer than Docker takes for two answers."""
_NOT_BACK = "an earlier try has not come back yet"


class Outcome(Enum):
    """What became of a container that was owed."""

    RUNS = "runs"
    GONE = "gone"
    """It ended, or was started anew since."""
    LEFT = "is left as it is: a person paused it"
    UNTOLD = "runs, though its runtime could not be told yet"
    UNSURE = "runs, though a pause that was under way may still take effect"
    STUCK = "could not be let go"


@dataclass(frozen=True, slots=True)
class Thawed:
    """One record of the journal and what became of it."""

    owed: Owed
    outcome: Outcome
    how: str = ""
    """By what: "docker", "cgroup", "unlock"; empty where there was nothing to do."""
    error: str | None = None

    @property
    def settled(self) -> bool:
        """Whether nothing is owed any more."""
        return self.outcome in (Outcome.RUNS, Outcome.GONE, Outcome.LEFT)


@dataclass(frozen=True, slots=True)
class _Tried:
    """When a record was tried, and what came of it."""

    first_s: float
    last_s: float
    left: Outcome


class Thawer:
    """Lets containers go, several at once, each with a bounded wait."""

    def __init__(self, driver: CudaDriver | None = None, answer_s: float = ANSWER_S) -> None:
        self._driver = driver or CudaDriver()
        self._answer_s = answer_s
        self._runtimes: dict[str, DockerRuntime] = {}
        self._tried: dict[Owed, _Tried] = {}
        self._silent_until_s: dict[str, float] = {}
        """Runtimes that just kept one container waiting: the others do not wait for them."""
        self._under_way: set[tuple[ContainerId, PauseWay]] = set()
        """What is being tried; it stays here while the driver does not come back."""
        self._lock = threading.Lock()

    def thaw(self, owed: Iterable[Owed]) -> tuple[Thawed, ...]:
        """One try for each; in each container the freeze goes before the lock. One that hangs
        keeps neither the others waiting nor whoever asks."""
        by_container: dict[ContainerId, list[Owed]] = defaultdict(list)
        for each in owed:
            by_container[each.container].append(each)
        tries = {id_: partial(self._one_container, each) for id_, each in by_container.items()}
        parts = side_by_side(tries, _AT_ONCE, _STALL_S)
        for id_ in by_container.keys() - parts.keys():
            late = (Thawed(each, Outcome.STUCK, error=_NOT_BACK) for each in by_container[id_])
            parts[id_] = [self._judge(each) for each in late]
        return tuple(thawed for id_ in by_container for thawed in parts[id_])

    def due(self, owed: Owed) -> bool:
        """Whether another try is worth it now; cheap."""
        with self._lock:
            tried = self._tried.get(owed)
        if tried is None:
            return True
        now_s = time.monotonic()
        if tried.left is Outcome.UNSURE and now_s - tried.first_s < SETTLE_S:
            freezer = owed.place.freezer
            if owed.way is PauseWay.DOCKER and freezer is not None:
                return freezer.frozen() is True
            return now_s - tried.last_s >= _UNSURE_AGAIN_S
        return now_s - tried.last_s >= AGAIN_S

    def mend(self, url: str, folder: Path) -> None:
        """Tell a runtime of containers that were thawed behind its back; raises where nobody
        answers, or where somebody else has the journal."""
        runtime = self._runtime(url)
        journal = Journal(folder, runtime.place)
        runtime.journal = journal
        try:
            runtime.containers()
        finally:
            runtime.journal = None
            journal.close()

    def keep(self, owed: Sequence[Owed]) -> None:
        """Forget the tries of all other records."""
        with self._lock:
            for gone in self._tried.keys() - set(owed):
                del self._tried[gone]

    def warm(self) -> None:
        """Have the CUDA driver ready, which may take a second the first time."""
        try:
            self._driver.version()
        except DureError as error:
            _log.warning("%s", error)

    def close(self) -> None:
        """Give everything back."""
        for runtime in self._runtimes.values():
            runtime.close()
        self._driver.close()

    def _one_container(self, owed: Sequence[Owed]) -> list[Thawed]:
        frozen_first = sorted(owed, key=lambda each: each.way is not PauseWay.DOCKER)
        return [self._judge(self._try(each)) for each in frozen_first]

    def _try(self, owed: Owed) -> Thawed:
        """A second thread for what hangs already would hang, too."""
        key = (owed.container, owed.way)
        with self._lock:
            if key in self._under_way:
                return Thawed(owed, Outcome.STUCK, error=_NOT_BACK)
            self._under_way.add(key)
        try:
            return self._one(owed)
        finally:
            with self._lock:
                self._under_way.discard(key)

    def _judge(self, thawed: Thawed) -> Thawed:
        """Take a pause that was under way for over only when it had its time to take effect."""
        now_s, runs = time.monotonic(), thawed.outcome is Outcome.RUNS
        with self._lock:
            before = self._tried.get(thawed.owed)
            first_s = before.first_s if before is not None else now_s
            if runs and not thawed.owed.done and now_s - first_s < SETTLE_S:
                thawed = replace(thawed, outcome=Outcome.UNSURE)
            self._tried[thawed.owed] = _Tried(first_s, now_s, thawed.outcome)
        return thawed

    def _one(self, owed: Owed) -> Thawed:
        try:
            if not _same_life(owed):
                return Thawed(owed, Outcome.GONE)
            if owed.way is PauseWay.DOCKER and owed.frozen_before and not owed.done:
                return Thawed(owed, Outcome.LEFT)
            if owed.way is PauseWay.DOCKER:
                return self._unfreeze(owed)
            return self._unlock(owed)
        except Exception as error:  # noqa: BLE001, one must not keep the others frozen
            _log.exception("container %s could not be let go", owed.name)
            return Thawed(owed, Outcome.STUCK, error=f"{type(error).__name__}: {error}")

    def _unfreeze(self, owed: Owed) -> Thawed:
        freezer = owed.place.freezer
        was_frozen = bool(freezer is not None and freezer.frozen())
        try:
            thawed = self._ask_runtime(owed, was_frozen)
            if freezer is None or not freezer.frozen():
                return thawed
            error = DureError("Docker let it go, but it is frozen")
        except ContainerGoneError:
            return Thawed(owed, Outcome.GONE)
        except DureError as problem:
            error = problem
        if freezer is None:
            return Thawed(owed, Outcome.STUCK, error=str(error))
        freezer.thaw()
        if freezer.frozen():
            return Thawed(owed, Outcome.STUCK, "cgroup", f"{error}; its cgroup stays frozen")
        untold = isinstance(error, RuntimeUnreachableError)
        how = "cgroup" if was_frozen else ""
        return Thawed(owed, Outcome.UNTOLD if untold else Outcome.RUNS, how, str(error))

    def _ask_runtime(self, owed: Owed, was_frozen: bool) -> Thawed:
        url = owed.place.runtime
        if time.monotonic() < self._silent_until_s.get(url, 0.0):
            raise RuntimeUnreachableError(f"Docker does not answer at {url}")
        runtime = self._runtime(url)
        try:
            found = runtime.inspect(owed.container)
            if found is None or found.started_ns != owed.started_ns:
                return Thawed(owed, Outcome.GONE)
            if not found.paused and not was_frozen:
                return Thawed(owed, Outcome.RUNS)
            runtime.unpause(owed.container)
        except RuntimeUnreachableError:
            self._silent_until_s[url] = time.monotonic() + _SILENT_S
            raise
        return Thawed(owed, Outcome.RUNS, "docker")

    def _unlock(self, owed: Owed) -> Thawed:
        if owed.place.freezer is None:
            return Thawed(owed, Outcome.STUCK, error="where its processes are was not known")
        failed = unlock_all(self._driver, owed.place.freezer.pids())
        if not failed:
            return Thawed(owed, Outcome.RUNS, "unlock")
        said = ", ".join(f"process {pid}: {why}" for pid, why in sorted(failed.items()))
        if owed.place.freezer.frozen():
            said += "; a person paused it, and it is unlocked when that ends"
        return Thawed(owed, Outcome.STUCK, "unlock", said)

    def _runtime(self, url: str) -> DockerRuntime:
        with self._lock:
            if url not in self._runtimes:
                self._runtimes[url] = DockerRuntime(url, GpuNames(()), self._answer_s)
            return self._runtimes[url]


def _same_life(owed: Owed) -> bool:
    """Whether the container still has the first process that was written down."""
    return started_ticks(owed.place.pid) == owed.place.started_ticks


def settle(journal: Journal, results: Iterable[Thawed]) -> tuple[Thawed, ...]:
    """Write down what is no longer owed, and say so in the log; what is left."""
    left: list[Thawed] = []
    for thawed in results:
        name = thawed.owed.name
        if thawed.how and thawed.outcome is not Outcome.STUCK:
            _log.info("container %s runs again (%s)", name, thawed.how)
        if thawed.settled:
            # Not what a running agent wrote anew while this let go.
            journal.forget_record(thawed.owed)
            continue
        left.append(thawed)
        if thawed.outcome is not Outcome.UNSURE:
            _log.warning("container %s: %s (%s)", name, thawed.outcome.value, thawed.error)
    return tuple(left)


def thaw_at_start(journal: Journal, thawer: Thawer, stop: threading.Event) -> tuple[Thawed, ...]:
    """Let go what an earlier agent left; what could not be settled is tried on in the background
    until it is, or until `stop`."""
    results = thawer.thaw(journal.owed())
    left = settle(journal, results)
    if left:
        owed = tuple(thawed.owed for thawed in left)
        threading.Thread(
            target=_go_on, args=(journal, thawer, stop, owed), name="thaw", daemon=True
        ).start()
    return results


def _go_on(journal: Journal, thawer: Thawer, stop: threading.Event, owed: tuple[Owed, ...]) -> None:
    while owed and not stop.wait(_LOOK_S):
        # A record that was written anew is the running agent's own.
        still = set(journal.owed())
        owed = tuple(each for each in owed if each in still)
        settle(journal, thawer.thaw(each for each in owed if thawer.due(each)))


def thaw_folder(folder: Path, limit_s: float = 2 * SETTLE_S) -> tuple[Thawed, ...]:
    """Let go everything the journal of a folder owes: `dure node thaw --all`.

    Where an agent runs it sees that others let its containers go, and keeps its hands off them.
    """
    thawer = Thawer()
    journal: Journal | None = None
    try:
        journal = Journal(folder, lambda _: None)
        owed = journal.owed()
    except DureError:  # an agent has it, or it cannot be written: it can still be read
        owed = read(folder / NAME)
    try:
        results = {thawed.owed: thawed for thawed in thawer.thaw(owed)}
        until = time.monotonic() + limit_s
        while journal is not None and time.monotonic() < until:
            left = settle(journal, results.values())
            if not left:
                break
            time.sleep(_LOOK_S)
            again = thawer.thaw(each.owed for each in left if thawer.due(each.owed))
            results |= {thawed.owed: thawed for thawed in again}
        return tuple(results.values())
    finally:
        if journal is not None:
            journal.close()
        thawer.close()
