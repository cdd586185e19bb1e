"""The thread that manages containers: everything that happens goes to the machine, and everything
the machine asks for is done.

One thread owns the machine. Runtime, monitor, watchdog and people put what they know into its
inbox; pauses and their ends are done by others and reported back. Whatever goes wrong here lets
containers go: a machine that fails is replaced by a new one, and what the old one held is let go.
"""

import logging
import pickle
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from dure.agent.containers.hands import Hands
from dure.agent.containers.lanes import Done
from dure.agent.containers.ports import ContainerMachine, PauseJournal, Pauser
from dure.agent.events import EventLog
from dure.domain.containers import Container, NodeView, PauseWay, TaskTable
from dure.domain.errors import DureError
from dure.domain.events import RiskCleared, RiskRaised
from dure.domain.ids import ContainerId, GpuUuid
from dure.domain.node_events import (
    ContainerChanged,
    ContainerEnded,
    ContainerStarted,
    ContainerStopping,
    GpuRiskCleared,
    GpuRiskRaised,
    GuardChanged,
    Missing,
    NodeEvent,
    PausedByOthers,
    PersonResumed,
    ResumedByOthers,
    TableTaken,
    TimePassed,
)
from dure.domain.node_instructions import (
    NodeInstruction,
    Pause,
    PollEvery,
    Resume,
    Tell,
    WakeAt,
)
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.kit.taps import Tap
from dure.node.history import ImageRecord
from dure.runtimes.events import RuntimeEvent, RuntimeEventKind

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

NodeTap = Tap[tuple[NodeEvent, tuple[NodeInstruction, ...]]]

_ANSWER_S = 10.0
_LONGEST_WAIT_NS = 500 * NS_PER_MS
"""The thread comes round at least this often, so that others can tell that it lives."""
_END_S = 8.0
"""How long the orderly end waits for the last container to be let go."""
_FAILURES_TO_GIVE_UP = 5
_FAILURES_FORGOTTEN_NS = 60 * NS_PER_S
_MISSING = {"watchdog": Missing.WATCHDOG, "monitor": Missing.MONITOR}
"""Those of whose troubles the machine knows, the worse one first."""


@dataclass(slots=True)
class Manager:
    """Owns the machine; nobody else touches it."""

    make_machine: Callable[[], ContainerMachine]
    pausers: Mapping[PauseWay, Pauser]
    journal: PauseJournal
    look_every: Callable[[int], None]
    events: EventLog
    tenants: Callable[[], Mapping[int, str]]
    """Level-1 tenants by pid."""
    dry_run: bool = False
    expect: Callable[[int], None] = lambda _: None
    """Told how many containers may have to be held at a time; returns at once."""
    record: Callable[[NodeEvent, tuple[NodeInstruction, ...]], None] | None = None
    """Where every event and its answer is written down."""
    taps: list[NodeTap] = field(default_factory=list)
    """Recordings under way."""
    clock: Callable[[], int] = time.monotonic_ns
    last_round_ns: int = 0
    troubles: dict[str, str] = field(default_factory=dict)
    """Why nothing is paused at the moment, by who says so; empty: all is well."""
    _machine: ContainerMachine = field(init=False)
    _hands: Hands = field(init=False)
    _table: TaskTable | None = None
    _wake_ns: int | None = None
    _missing: Missing | None = Missing.WATCHDOG
    _given_up: bool = False
    _over: bool = False
    _failed_ns: list[int] = field(default_factory=list)
    _inbox: "queue.SimpleQueue[Callable[[], None] | None]" = field(
        default_factory=queue.SimpleQueue
    )
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self._machine = self.make_machine()
        self._hands = Hands(
            pausers=self.pausers,
            journal=self.journal,
            clock=self.clock,
            report=lambda done: self._inbox.put(lambda: self._done(done)),
            answer=lambda event: self._inbox.put(lambda: self._decide(event)),
            say=lambda text: self.events.add("container", text),
            dry_run=self.dry_run,
        )
        self.last_round_ns = self.clock()
        self.troubles["watchdog"] = "the watchdog is not there yet"
        self.troubles["monitor"] = "the monitor has not looked yet"

    @property
    def containers(self) -> dict[ContainerId, Container]:
        """Everything that runs; for the manager's own thread."""
        return self._hands.containers

    # From any thread

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name="containers", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Let everybody go, then end."""
        self._inbox.put(self._hands.let_all_go)
        until = time.monotonic() + _END_S
        while self._thread is not None and time.monotonic() < until:
            try:
                if self.call(self._hands.empty):
                    break
            except DureError:
                break
            time.sleep(0.01)
        self._inbox.put(None)
        if self._thread is not None:
            self._thread.join(_END_S)
        self._over = True

    def call(self, act: Callable[[], _T]) -> _T:
        """Have something done in the manager's thread; its result, or what it raised."""
        if self._over:
            raise DureError("managing containers has ended", "start the agent again")
        answer: Future[_T] = Future()

        def do() -> None:
            try:
                answer.set_result(act())
            except BaseException as error:  # noqa: BLE001, it belongs to whoever asked
                answer.set_exception(error)

        self._inbox.put(do)
        try:
            return answer.result(_ANSWER_S)
        except FutureTimeoutError as error:
            raise DureError(
                "the manager of containers is busy", "try again; see the agent's log"
            ) from error

    def take_list(self, running: tuple[Container, ...]) -> None:
        """Everything that runs, as the runtime tells it when it can be reached (again)."""
        self._inbox.put(lambda: self._reconcile(running))

    def take_event(self, event: RuntimeEvent, facts: Container | None) -> None:
        """Something happened to a container."""
        self._inbox.put(lambda: self._happened(event, facts))

    def take_table(self, table: TaskTable) -> None:
        """The monitor looked."""
        self._inbox.put(lambda: self._looked(table))

    def take_trouble(self, who: str, what: str | None) -> None:
        """Somebody this depends on is away, and why; None: he is back."""
        self._inbox.put(lambda: self._troubled(who, what))

    def take_risk(self, gpu: GpuUuid, event: RiskRaised | RiskCleared) -> None:
        """Something is foreseen on a GPU, or no longer."""

        def heed() -> None:
            now_ns = self.clock()
            if isinstance(event, RiskRaised):
                self._decide(GpuRiskRaised(now_ns, gpu, event.risk))
            else:
                self._decide(GpuRiskCleared(now_ns, gpu, event.series, event.kind))

        self._inbox.put(heed)

    def person(self, make: Callable[[int], NodeEvent]) -> None:
        """A person's wish, as an event of this moment; raises what the machine refuses."""
        self.call(lambda: self._carry_out(self._handle(make(self.clock()))))

    def person_resumes(self, id_: ContainerId) -> None:
        """`dure node resume`, which also ends a pause that Dure knows nothing of."""
        self.person(lambda now_ns: PersonResumed(now_ns, id_))
        self.call(lambda: self._hands.thaw_for_person(id_))

    def view(self) -> NodeView:
        """What there is to see."""
        return self.call(lambda: self._machine.view(self.clock()))

    def why(self, container: ContainerId) -> tuple[str, ...]:
        """Why a container stands where it does."""
        return self.call(lambda: self._machine.why(container, self.clock()))

    def history(self) -> tuple[ImageRecord, ...]:
        """What was learned of images."""
        return self.call(self._learned)

    def _learned(self) -> tuple[ImageRecord, ...]:
        return self._machine.history()

    def begin_record(self, tap: NodeTap) -> ContainerMachine:
        """Let a tap see everything from now on; a copy of the machine as it is now."""

        def begin() -> bytes:
            self.taps.append(tap)
            return pickle.dumps(self._machine)

        return cast("ContainerMachine", pickle.loads(self.call(begin)))

    def settled(self, container: ContainerId) -> bool:
        """Whether nothing is under way for a container."""
        return self.call(lambda: not self._hands.busy(container))

    def pids(self) -> set[int]:
        """GPU processes of containers that are known; for the manager's own thread."""
        tasks = self._table.tasks if self._table is not None else ()
        return {task.pid for task in tasks if task.container in self.containers}

    # The thread

    def _run(self) -> None:
        while True:
            steps: list[Callable[[], None]] = [self._wake, self._keep_deadlines]
            try:
                act = self._inbox.get(timeout=self._wait_s())
                if act is None:
                    return
                steps.insert(0, act)
            except queue.Empty:
                pass
            for step in steps:
                try:
                    step()
                except Exception:  # noqa: BLE001, logged with its trace
                    _log.exception("managing containers met something unexpected and goes on")
            self.last_round_ns = self.clock()

    def _wait_s(self) -> float:
        wait_ns = _LONGEST_WAIT_NS
        if self._wake_ns is not None:
            wait_ns = min(wait_ns, max(0, self._wake_ns - self.clock()))
        return wait_ns / NS_PER_S

    def _wake(self) -> None:
        now_ns = self.clock()
        if self._wake_ns is not None and now_ns >= self._wake_ns:
            self._wake_ns = None
            self._decide(TimePassed(now_ns))

    def _keep_deadlines(self) -> None:
        """In every round: a full inbox is no reason to be late."""
        self._hands.keep_deadlines(self.clock())

    def _decide(self, event: NodeEvent) -> None:
        """Hand an event to the machine; on failure let all go and begin anew.

        It happens now for the machine: answers wait in the inbox while others are decided on, and
        the machine's time does not go back.
        """
        if self._given_up:
            return
        event = replace(event, now_ns=self.clock())
        try:
            instructions = self._handle(event)
        except Exception as error:  # noqa: BLE001, no decision is worth a frozen container
            self._machine_failed(error, event.now_ns)
            return
        self._carry_out(instructions)

    def _handle(self, event: NodeEvent) -> tuple[NodeInstruction, ...]:
        """Ask the machine, before the eyes of those who record."""
        instructions = self._machine.handle(event)
        if self.taps:
            self.taps = [tap for tap in self.taps if tap.add((event, instructions))]
        if self.record is not None:
            try:
                self.record(event, instructions)
            except (OSError, ValueError) as error:
                self.record = None
                _log.warning("the recording ends: %s", error)
        return instructions

    def _machine_failed(self, error: Exception, now_ns: int) -> None:
        _log.error("deciding about containers failed", exc_info=error)
        for tap in self.taps:
            tap.end("deciding failed; see the log")
        self._hands.let_all_go()
        recent = [at for at in self._failed_ns if now_ns - at < _FAILURES_FORGOTTEN_NS]
        self._failed_ns = [*recent, now_ns]
        if len(self._failed_ns) >= _FAILURES_TO_GIVE_UP:
            self._given_up = True
            self.troubles["machine"] = "deciding failed again and again; see the log"
            self.events.add("container", "no container is managed: deciding fails; see the log")
            return
        self.events.add("container", f"deciding failed ({error}); all go on, it starts anew")
        self._machine = self.make_machine()
        self._wake_ns = None
        self._decide(GuardChanged(now_ns, self._missing))
        for container in list(self.containers.values()):
            self._decide(ContainerStarted(now_ns, container, found=True))

    def _carry_out(self, instructions: tuple[NodeInstruction, ...]) -> None:
        for instruction in instructions:
            match instruction:
                case Pause():
                    self._hands.pause(instruction)
                case Resume(container, reason):
                    self._hands.resume(container, reason)
                case PollEvery(every_ns):
                    self.look_every(every_ns)
                case WakeAt(at_ns):
                    self._wake_ns = at_ns
                case Tell(_, text):
                    self.events.add("container", text)

    def _done(self, done: Done) -> None:
        for event in self._hands.take(done):
            self._decide(event)

    # What others know

    def _reconcile(self, running: tuple[Container, ...]) -> None:
        """Bring what is known in line with what runs, after a time in which nothing was heard."""
        self._troubled("runtime", None)
        now = {container.id: container for container in running}
        for id_, before in list(self.containers.items()):
            after = now.get(id_)
            if after is None or after.started_ns != before.started_ns:
                self._ended(id_)
        for container in running:
            before_ = self.containers.get(container.id)
            if before_ is None:
                self._started(container, found=True)
                continue
            id_, ours = container.id, self._hands.frozen(container.id)
            after_ = self._hands.keep(container)
            if container.paused != ours and not self._hands.busy(id_):
                now_ns = self.clock()
                if ours:
                    self._resumed_by_others(id_)
                elif not before_.paused:
                    self._decide(PausedByOthers(now_ns, id_))
            elif after_ != before_:
                self._decide(ContainerChanged(self.clock(), after_))

    def _happened(self, event: RuntimeEvent, facts: Container | None) -> None:
        id_, known = event.container, self.containers.get(event.container)
        same_life = known is not None and facts is not None and facts.started_ns == known.started_ns
        match event.kind:
            case RuntimeEventKind.STARTED if facts is not None and not same_life:
                self._ended(id_)
                self._started(facts, found=False)
            case RuntimeEventKind.ENDED if not same_life:
                self._ended(id_)
            case RuntimeEventKind.CHANGED if facts is not None and same_life:
                self._decide(ContainerChanged(self.clock(), self._hands.keep(facts)))
            case _ if known is None or event.own:
                pass
            case RuntimeEventKind.STOPPING:
                self._decide(ContainerStopping(self.clock(), id_))
            case RuntimeEventKind.PAUSED:
                self._hands.set_paused(id_, paused=True)
                self._decide(PausedByOthers(self.clock(), id_))
            case RuntimeEventKind.RESUMED:
                self._resumed_by_others(id_)
            case _:
                pass

    def _started(self, container: Container, *, found: bool) -> None:
        self._hands.keep(container)
        self._decide(ContainerStarted(self.clock(), container, found=found))
        self.expect(sum(bool(each.gpus) for each in self.containers.values()))

    def _ended(self, id_: ContainerId) -> None:
        if self._hands.forget(id_):
            self._decide(ContainerEnded(self.clock(), id_))

    def _resumed_by_others(self, id_: ContainerId) -> None:
        """A person let go what Dure, or somebody else, had frozen."""
        self._hands.set_paused(id_, paused=False)
        self._hands.lose(id_)
        self._decide(ResumedByOthers(self.clock(), id_))

    def _looked(self, table: TaskTable) -> None:
        self._table = with_tenants(table, self.tenants())
        self._decide(TableTaken(self.clock(), self._table))

    def _troubled(self, who: str, what: str | None) -> None:
        """Without watchdog or monitor nothing is paused, which is the machine's to say."""
        before = self.troubles.get(who)
        if what is None:
            self.troubles.pop(who, None)
        else:
            self.troubles[who] = what
        if before != what:
            self.events.add(
                "container", f"{what}; nothing is paused" if what else f"{who} is there"
            )
        missing = next((each for key, each in _MISSING.items() if key in self.troubles), None)
        if missing != self._missing:
            self._missing = missing
            self._decide(GuardChanged(self.clock(), missing))


def with_tenants(table: TaskTable, tenants: Mapping[int, str]) -> TaskTable:
    """The table with the names of level-1 tenants filled in."""
    if not tenants:
        return table
    tasks = tuple(
        replace(task, tenant=tenants[task.pid]) if task.pid in tenants else task
        for task in table.tasks
    )
    return replace(table, tasks=tasks)
