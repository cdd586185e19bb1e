"""What the machine asks for, done: who is kept from the GPU, until when, and by whose wish."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from dure.agent.containers.lanes import Done, Lanes, PauseAsked, ResumeAsked, ways_to_try
from dure.agent.containers.ports import PauseJournal, Pauser
from dure.domain.containers import Container, PauseWay
from dure.domain.ids import ContainerId
from dure.domain.node_events import (
    ContainerChanged,
    NodeEvent,
    PausedByOthers,
    PauseEnded,
    ResumedByOthers,
    ResumeEnded,
)
from dure.domain.node_instructions import Pause
from dure.domain.units import NS_PER_MS, format_duration

_log = logging.getLogger(__name__)

_LATE_NS = 500 * NS_PER_MS
"""A deadline this far past was missed by the machine: then it is kept without it."""
_WRITE_UP_NS = 500 * NS_PER_MS
"""Between two tries to write down what could not be written."""


@dataclass(frozen=True, slots=True)
class Held:
    """A container that is, or is being, kept from the GPU."""

    way: PauseWay
    resume_by_ns: int
    sure: bool = False
    """The pause took effect."""
    by_person: bool = False
    """`dure node pause`: only a person undoes it."""

    @property
    def stays(self) -> bool:
        """Whether it is left as it is when everything else is let go."""
        return self.by_person and self.way is PauseWay.DOCKER


@dataclass(slots=True)
class Hands:
    """Belongs to the manager's thread; workers report to it by `report`."""

    pausers: Mapping[PauseWay, Pauser]
    journal: PauseJournal
    clock: Callable[[], int]
    report: Callable[[Done], None]
    """Called in a worker's thread: has `take` called in the manager's."""
    answer: Callable[[NodeEvent], None]
    """Hands an event to the machine, later."""
    say: Callable[[str], None]
    """Tells people."""
    dry_run: bool = False
    containers: dict[ContainerId, Container] = field(default_factory=dict)
    """Everything that runs. `paused` is true only of what is not Dure's to let go."""
    _lanes: Lanes = field(init=False)
    _held: dict[ContainerId, Held] = field(default_factory=dict)
    _write_ns: int = 0

    def __post_init__(self) -> None:
        self._lanes = Lanes(self.pausers, self.journal, self.report)

    # Containers

    def keep(self, container: Container) -> Container:
        """Take down what the runtime says of a container."""
        ours = self._held.get(container.id)
        if container.paused and ours is not None and not ours.stays:
            container = replace(container, paused=False)
        self.containers[container.id] = container
        return container

    def set_paused(self, id_: ContainerId, paused: bool) -> None:
        """Somebody paused or unpaused a container by its runtime."""
        self.containers[id_] = replace(self.containers[id_], paused=paused)

    def forget(self, id_: ContainerId) -> bool:
        """A container is gone; whether it was known."""
        self._lanes.drop(id_)
        self._held.pop(id_, None)
        return self.containers.pop(id_, None) is not None

    def lose(self, id_: ContainerId) -> None:
        """Somebody else let a container go."""
        if self.frozen(id_) and not self.busy(id_):
            self._held.pop(id_)
            self._lanes.drop(id_)

    def frozen(self, id_: ContainerId) -> bool:
        """Whether it is frozen by a pause that was asked for here."""
        held = self._held.get(id_)
        return held is not None and held.sure and held.way is PauseWay.DOCKER and not self.dry_run

    def busy(self, id_: ContainerId) -> bool:
        """Whether something is under way for a container."""
        return self._lanes.busy(id_)

    def empty(self) -> bool:
        """Whether nothing is held any more that is not to stay so, and nothing is under way."""
        held = any(not each.stays for each in self._held.values())
        return not held and not self._lanes.under_way()

    def name(self, id_: ContainerId) -> str:
        """As people call it."""
        known = self.containers.get(id_)
        return known.name if known is not None else id_[:12]

    # Wishes

    def pause(self, asked: Pause) -> None:
        """Keep a container from the GPU; answered by `PauseEnded`."""
        container = self.containers.get(asked.container)
        if container is None or asked.way not in self.pausers:
            error = "it is gone" if container is None else f"{asked.way.value} does not work here"
            self.answer(PauseEnded(self.clock(), asked.container, asked.way, error))
            return
        left_ns = max(0, asked.resume_by_ns - self.clock())
        bound = "" if asked.by_person else f" for at most {format_duration(left_ns)}"
        words = f"{container.name} by {asked.way.value}{bound}: {asked.reason}"
        before = self._held.get(container.id)
        self._held[container.id] = Held(
            way=before.way if before is not None else asked.way,
            resume_by_ns=asked.resume_by_ns,
            sure=self.dry_run or (before is not None and before.sure),
            by_person=asked.by_person,
        )
        if self.dry_run:
            self.say(f"would pause {words}")
            self.answer(PauseEnded(self.clock(), asked.container, asked.way))
            return
        _log.info("pause %s", words)
        ways = ways_to_try(asked.way, tuple(self.pausers), container)
        self._lanes.ask(PauseAsked(container, ways, asked.resume_by_ns, asked.by_person))

    def resume(self, id_: ContainerId, reason: str) -> None:
        """Let a container go; answered by `ResumeEnded`."""
        container = self.containers.get(id_)
        if container is None or (id_ not in self._held and not self.busy(id_)):
            self.answer(ResumeEnded(self.clock(), id_))
        elif self.dry_run:
            self.say(f"would let {container.name} go: {reason}")
            self._held.pop(id_, None)
            self.answer(ResumeEnded(self.clock(), id_))
        else:
            _log.info("let %s go: %s", container.name, reason)
            self._lanes.ask(ResumeAsked(container))

    def let_all_go(self) -> None:
        """Everything but what a person paused."""
        for id_, held in list(self._held.items()):
            if not held.stays:
                self.resume(id_, "everything is let go")

    def thaw_for_person(self, id_: ContainerId) -> None:
        """End a pause that somebody made by the runtime itself."""
        container = self.containers.get(id_)
        if container is None or not container.paused or id_ in self._held or self.dry_run:
            return
        self._lanes.ask(ResumeAsked(container, by_person=True))

    def keep_deadlines(self, now_ns: int) -> None:
        """The machine lets go in time; where it does not, this does. What the journal could not be
        told before, a full disk, say, it is told now."""
        if now_ns >= self._write_ns:
            self._write_ns = now_ns + _WRITE_UP_NS
            self._lanes.write_up()
        for id_, held in list(self._held.items()):
            if now_ns > held.resume_by_ns + _LATE_NS and not self.busy(id_):
                _log.error("container %s is past its deadline and is let go", self.name(id_))
                # Where that fails it is due again, but not in every round.
                self._held[id_] = replace(held, resume_by_ns=now_ns)
                self.resume(id_, "its deadline is past")

    # Reports

    def take(self, done: Done) -> Iterator[NodeEvent]:
        """Something that was asked for is over: what the machine is to know of it."""
        id_, now_ns = done.asked.container.id, self.clock()
        if done.error is not None:
            _log.warning("%s: %s", done.asked.container.name, done.error)
        self._lanes.done(done)
        if id_ not in self.containers:
            self._lanes.drop(id_)  # it ended while it was being paused
        elif isinstance(done.asked, PauseAsked):
            yield from self._paused(done, done.asked, now_ns)
        else:
            if done.error is None:
                self._held.pop(id_, None)
                self.set_paused(id_, paused=False)
            if not done.asked.by_person:
                yield ResumeEnded(now_ns, id_, done.error)
            elif done.error is None:
                yield ResumedByOthers(now_ns, id_)

    def _paused(self, done: Done, asked: PauseAsked, now_ns: int) -> Iterator[NodeEvent]:
        id_ = asked.container.id
        if done.error is None:
            held = Held(done.way, asked.resume_by_ns, True, asked.by_person)
            self._held[id_] = held
            self.set_paused(id_, paused=held.stays)
        elif done.still_held:
            # No pause that anybody asked for: due at once, and until it is let go.
            self._held[id_] = Held(done.way, now_ns)
        elif not self.busy(id_):
            self._held.pop(id_, None)
        yield PauseEnded(now_ns, id_, done.way, done.error, done.still_held, done.restless)
        if done.still_held and asked.by_person:
            # The machine takes it for held by the person, who would have to let it go.
            yield ResumedByOthers(now_ns, id_)
        if done.unable:
            self.containers[id_] = replace(self.containers[id_], unmanaged=done.error)
            yield ContainerChanged(now_ns, self.containers[id_])
        if done.paused_by_others:
            self.set_paused(id_, paused=True)
            yield PausedByOthers(now_ns, id_)
