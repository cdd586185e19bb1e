"""Pauses and resumes, each container's one after another, different containers' side by side.

A pause by Docker takes tens of milliseconds and one by the CUDA lock as long as the copy that runs,
so none of them is done in the thread that decides. What a container is asked is done in order; a
pause that was overtaken by its own end before it began is not begun.
"""

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dure.agent.containers.ports import PauseJournal, Pauser
from dure.domain.containers import Container, PauseWay
from dure.domain.errors import DureError
from dure.domain.ids import ContainerId
from dure.runtimes.docker_errors import AlreadyPausedError, PauseUnsupportedError
from dure.runtimes.errors import RestlessError, StillHeldError

_log = logging.getLogger(__name__)

_MOST_WORKERS = 64
OVERTAKEN = "let go again before the pause began"


@dataclass(frozen=True, slots=True)
class PauseAsked:
    """Keep a container from the GPU by the first of the ways that works."""

    container: Container
    ways: tuple[PauseWay, ...]
    resume_by_ns: int
    by_person: bool = False
    """Not Dure's to undo: frozen, it is left to the person, in no journal."""


@dataclass(frozen=True, slots=True)
class ResumeAsked:
    """Let a container go, by the way it is held; nothing where it is not held by then."""

    container: Container
    by_person: bool = False
    """Also where somebody else has frozen it."""


Asked = PauseAsked | ResumeAsked


@dataclass(frozen=True, slots=True)
class Done:
    """What became of it."""

    asked: Asked
    way: PauseWay
    error: str | None = None
    paused_by_others: bool = False
    """It could not be paused since somebody else had done so."""
    unable: bool = False
    """It never can be: its runtime does not know how."""
    still_held: bool = False
    """It could not be paused as asked, and is (or may be) held by this way: it is to be let go."""
    restless: bool = False
    """It could not be paused since it did not come to rest in time: soon it may."""


@dataclass(slots=True)
class Lanes:
    """All containers' lanes; `ask` and `drop` belong to the thread that decides."""

    pausers: Mapping[PauseWay, Pauser]
    journal: PauseJournal
    report: Callable[[Done], None]
    """Called in a worker's thread."""
    held: dict[ContainerId, PauseWay] = field(default_factory=dict)
    """What is kept from the GPU now, and how."""
    _lanes: dict[ContainerId, deque[Asked]] = field(default_factory=dict)
    """What each container still has to be asked; one that is here has something under way."""
    _work: "queue.SimpleQueue[Asked]" = field(default_factory=queue.SimpleQueue)
    _workers: int = 0
    _idle: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _writing: threading.Lock = field(default_factory=threading.Lock)
    """The journal has one writer at a time."""
    _unwritten: dict[ContainerId, PauseWay | None] = field(default_factory=dict)
    """Who runs, or is gone, and is owed by the journal all the same, and by which way."""

    def ask(self, asked: Asked) -> None:
        """Do it when all that this container was asked before is done."""
        lane = self._lanes.get(asked.container.id)
        if lane is None:
            self._lanes[asked.container.id] = deque()
            self._begin(asked)
        else:
            lane.append(asked)

    def done(self, done: Done) -> None:
        """Something is over: begin what comes next. To be called with every report, in order."""
        id_, pausing = done.asked.container.id, isinstance(done.asked, PauseAsked)
        if pausing and (done.error is None or done.still_held):
            self.held[id_] = done.way
        elif done.error is None or (pausing and done.error != OVERTAKEN):
            self.held.pop(id_, None)
        lane = self._lanes.get(id_)
        if not lane:
            self._lanes.pop(id_, None)
            return
        following = lane.popleft()
        overtaken = isinstance(following, PauseAsked) and any(
            isinstance(later, ResumeAsked) for later in lane
        )
        if overtaken and isinstance(following, PauseAsked):
            self.report(Done(following, following.ways[0], OVERTAKEN))
        else:
            self._begin(following)

    def drop(self, container: ContainerId) -> None:
        """It is gone or was let go by somebody else: what is under way ends by itself, the rest
        is not begun."""
        lane = self._lanes.get(container)
        if lane is not None:
            lane.clear()
        if self.held.pop(container, None) is not None:
            self._try_to_forget(container)

    def forget(self, container: ContainerId) -> None:
        """Write down that nothing is owed to a container any more."""
        with self._writing:
            self.journal.forget(container)
            self._unwritten.pop(container, None)

    def _try_to_forget(self, container: ContainerId, way: PauseWay | None = None) -> None:
        """The same where it is no reason to stop: it is tried again, as what stays owed would be
        let go at its deadline, whoever has paused it by then."""
        try:
            self.forget(container)
        except DureError as error:
            _log.warning("container %s stays owed: %s", container[:12], error)
            with self._writing:
                self._unwritten[container] = way

    def write_up(self) -> None:
        """Try again to write down what could not be written."""
        if not self._unwritten:
            return
        with self._writing:
            for container in list(self._unwritten):
                try:
                    self.journal.forget(container)
                except DureError:
                    return  # the others cannot be written either
                del self._unwritten[container]

    def busy(self, container: ContainerId) -> bool:
        """Whether something is under way."""
        return container in self._lanes

    def waits(self, container: ContainerId) -> bool:
        """Whether more is to be done after what is under way."""
        return bool(self._lanes.get(container))

    def under_way(self) -> int:
        """Containers with something under way."""
        return len(self._lanes)

    def _begin(self, asked: Asked) -> None:
        with self._lock:
            if self._idle <= self._work.qsize() and self._workers < _MOST_WORKERS:
                self._workers += 1
                name = f"pause-{self._workers}"
                threading.Thread(target=self._run, name=name, daemon=True).start()
        self._work.put(asked)

    def _run(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            asked = self._work.get()
            with self._lock:
                self._idle -= 1
            self.report(self._do(asked))

    def _do(self, asked: Asked) -> Done:
        try:
            return self._pause(asked) if isinstance(asked, PauseAsked) else self._let(asked)
        except Exception as problem:  # noqa: BLE001, logged with its trace
            _log.exception("container %s: a pause or its end failed", asked.container.name)
            held = self.held.get(asked.container.id)
            way = asked.ways[0] if isinstance(asked, PauseAsked) else PauseWay.DOCKER
            error = f"{type(problem).__name__}: {problem}"
            return Done(asked, held or way, error, still_held=held is not None)

    def _pause(self, asked: PauseAsked) -> Done:
        """By the first way that works; written down before it is tried."""
        if asked.by_person and PauseWay.DOCKER in self.pausers:
            return self._freeze_for_person(asked)
        before = self.held.get(asked.container.id)
        locks_on = before is asked.ways[0] is PauseWay.CUDA_LOCK
        if before is not None and not locks_on:
            # Held by two ways it would be let go by one of them alone, and what is frozen already
            # would be taken for a person's.
            try:
                self.pausers[before].resume(asked.container)
            except DureError as error:
                return Done(asked, before, str(error), still_held=True)
            before = None
        errors: list[str] = []
        others = unable = restless = False
        for way in asked.ways:
            try:
                self._intend(asked, way, held=way is before)
                self._take(asked.container, way)
            except StillHeldError as error:
                # Still owed, so that the watchdog lets it go where this agent does not.
                return Done(asked, way, f"{way.value}: {error}", still_held=True)
            except DureError as error:
                errors.append(f"{way.value}: {error}")
                others = others or isinstance(error, AlreadyPausedError)
                unable = isinstance(error, PauseUnsupportedError)
                restless = restless or isinstance(error, RestlessError)
                self._try_to_forget(asked.container.id, way)
                continue
            self._write_done(asked.container, way)
            return Done(asked, way)
        return Done(asked, asked.ways[0], "; ".join(errors), others, unable, restless=restless)

    def _intend(self, asked: PauseAsked, way: PauseWay, *, held: bool) -> None:
        """Write down what comes; where that fails, what is held already stays owed as it is."""
        try:
            with self._writing:
                self.journal.intend(asked.container, way, asked.resume_by_ns)
                self._unwritten.pop(asked.container.id, None)  # it is owed for good again
        except DureError as error:
            if held:
                raise StillHeldError(error.what, error.remedy) from error
            raise

    def _take(self, container: Container, way: PauseWay) -> None:
        """Pause by one way; what fails as nobody foresaw may have taken effect."""
        try:
            self.pausers[way].pause(container)
        except DureError:
            raise
        except Exception as problem:
            _log.exception("container %s: a pause failed", container.name)
            raise StillHeldError(f"{type(problem).__name__}: {problem}") from problem

    def _write_done(self, container: Container, way: PauseWay) -> None:
        """It is owed by its intention already; without this it only takes longer to be sure."""
        try:
            with self._writing:
                self.journal.done(container.id, way)
        except DureError as error:
            _log.warning(
                "container %s is paused, which could not be noted: %s", container.name, error
            )

    def _freeze_for_person(self, asked: PauseAsked) -> Done:
        """As `docker pause` by hand: everybody sees it, and it outlasts the agent."""
        id_, way = asked.container.id, self.held.get(asked.container.id)
        try:
            if PauseWay.DOCKER in (way, self._unwritten.get(id_)):
                self.forget(id_)  # else the person's pause would be ended as one of Dure's
            else:
                if way is not None:
                    self.pausers[way].resume(asked.container)
                # To open a lock that is open does nothing; of a container that is not held, a
                # pause that failed may still be owed.
                self._try_to_forget(id_)
        except DureError as error:
            return Done(asked, way or PauseWay.DOCKER, str(error), still_held=way is not None)
        try:
            if way is not PauseWay.DOCKER:
                self.pausers[PauseWay.DOCKER].pause(asked.container)
        except AlreadyPausedError as error:
            return Done(asked, PauseWay.DOCKER, str(error), paused_by_others=True)
        except DureError as error:
            return Done(asked, PauseWay.DOCKER, str(error))
        return Done(asked, PauseWay.DOCKER)

    def _let(self, asked: ResumeAsked) -> Done:
        """By the way that holds it. What this did not pause it does not let go either: a person
        may have paused it."""
        way = self.held.get(asked.container.id)
        if way is None and asked.by_person and PauseWay.DOCKER in self.pausers:
            way = PauseWay.DOCKER
        if way is None:
            return Done(asked, PauseWay.DOCKER)
        try:
            self.pausers[way].resume(asked.container)
        except DureError as error:
            return Done(asked, way, str(error))
        # It runs: that this could not be written down is no reason to let it go again and again.
        self._try_to_forget(asked.container.id, way)
        return Done(asked, way)


def ways_to_try(
    asked: PauseWay, allowed: Sequence[PauseWay], container: Container
) -> tuple[PauseWay, ...]:
    """The way asked for, then the others that may be used; a container whose health is checked is
    not frozen in place of a lock, since it would be found unhealthy and restarted."""
    others = [
        way
        for way in allowed
        if way is not asked and not (way is PauseWay.DOCKER and container.health_checked)
    ]
    return (asked, *others)
