"""The agent in virtual time: feeds the node machine what a host sees, and does what it asks."""

from collections.abc import Sequence

from dure.domain.containers import PauseWay, TaskTable
from dure.domain.ids import ContainerId
from dure.domain.node_events import (
    ContainerEnded,
    ContainerStarted,
    ContainerStopping,
    GpuRiskCleared,
    GpuRiskRaised,
    GuardChanged,
    Missing,
    NodeEvent,
    PausedByOthers,
    PauseEnded,
    PersonExempted,
    PersonPaused,
    PersonResumed,
    ResumedByOthers,
    ResumeEnded,
    TableTaken,
    TimePassed,
)
from dure.domain.node_instructions import (
    NEVER_NS,
    NodeInstruction,
    Pause,
    PollEvery,
    Resume,
    Tell,
    WakeAt,
)
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.node.history import ImageRecord
from dure.node.machine import NodeMachine
from dure.node.settings import NodeSettings
from dure.sim.node.containers import SimContainer
from dure.sim.node.faults import Deed, Fault, FaultKind
from dure.sim.node.model import HostModel
from dure.sim.node.runtime import SimRuntime
from dure.sim.node.world import START_NS, World

_REFRESH_NS = 100 * NS_PER_MS
"""How often the machine is shown a table that says the same as the last one."""
_MOST_TOLD = 200
"""Messages that are kept; all are counted."""


class Manager:
    """The machine and everything around it: monitor, runtime events, pausers and watchdog."""

    def __init__(
        self,
        world: World,
        settings: NodeSettings,
        host: HostModel,
        faults: Sequence[Fault] = (),
    ) -> None:
        self.told: list[tuple[int, ContainerId | None, str]] = []
        self.decisions: list[tuple[int, ContainerId, str]] = []
        """Every pause and resume that was asked for, with its reason."""
        self.runtime = SimRuntime(world.agenda, host)
        self.runtime.when_overdue = self._watchdog_let_go
        self._world = world
        self._settings = settings
        self._host = host
        self._faults = faults
        self._machine: NodeMachine | None = None
        self._guarded = True
        self._poll_every_ns = settings.idle_poll_ns
        self._poll = 0
        """Numbers the monitor's timers; an older one is void."""
        self._next_poll_ns = 0
        self._fed: tuple[TaskTable | None, int] = (None, 0)
        """The last table the machine was shown, and when."""
        self._wake = 0
        self._known: dict[ContainerId, int] = {}
        """Containers the machine was told of, and which of their lives."""

    def start(self) -> None:
        """Begin at the start of the run, with everything that is to go wrong noted."""
        self._world.watcher = self
        agenda = self._world.agenda
        agenda.note(START_NS, self._begin)
        for fault in self._faults:
            agenda.note(START_NS + fault.at_ns, self._fault_begins, fault)
            agenda.note(START_NS + fault.at_ns + fault.length_ns, self._fault_ends, fault)

    def history(self) -> tuple[ImageRecord, ...]:
        """What the machine has learned of images."""
        return self._machine.history() if self._machine is not None else ()

    # Runtime events

    def container_started(self, now_ns: int, container: SimContainer) -> None:
        event = ContainerStarted(now_ns + self._host.event_ns, container.seen())
        self._world.agenda.note(event.now_ns, self._runtime_event, event)

    def container_ended(self, now_ns: int, container: SimContainer) -> None:
        event = ContainerEnded(now_ns + self._host.event_ns, container.id)
        self._world.agenda.note(event.now_ns, self._runtime_event, event)

    def _runtime_event(self, _now_ns: int, event: ContainerStarted | ContainerEnded) -> None:
        if self.runtime.docker_away or self._machine is None:
            return  # whoever lists the containers afterwards sees what they are by then
        match event:
            case ContainerStarted():
                container = self._world.by_id[event.container.id]
                self._known[container.id] = container.life
            case ContainerEnded():
                self._known.pop(event.container, None)
        self._feed(event)

    def _list_again(self, now_ns: int, *, found: bool) -> None:
        """Tell the machine of every container that came or went unseen."""
        running = {
            each.id: each
            for each in self._world.containers
            if each.running and not each.spec.outside
        }
        for gone in [
            known
            for known, life in self._known.items()
            if known not in running or running[known].life != life
        ]:
            del self._known[gone]
            self._feed(ContainerEnded(now_ns, gone))
        for container in running.values():
            if container.id not in self._known:
                self._known[container.id] = container.life
                self._feed(ContainerStarted(now_ns, container.seen(), found=found))

    # People

    def paused_by_others(self, now_ns: int, container: SimContainer) -> None:
        """A person paused it by the runtime."""
        self._runtime_told(PausedByOthers(now_ns, container.id))

    def resumed_by_others(self, now_ns: int, container: SimContainer) -> None:
        """A person unpaused it by the runtime."""
        self._runtime_told(ResumedByOthers(now_ns, container.id))

    def stopping(self, now_ns: int, container: SimContainer) -> None:
        """A person asked the runtime to stop it."""
        self._runtime_told(ContainerStopping(now_ns, container.id))

    def ordered(self, now_ns: int, container: SimContainer, deed: Deed) -> None:
        """A person used `dure node`."""
        match deed:
            case Deed.PAUSE:
                self._feed(PersonPaused(now_ns, container.id))
            case Deed.RESUME:
                self._feed(PersonResumed(now_ns, container.id))
            case Deed.EXEMPT:
                self._feed(PersonExempted(now_ns, container.id, exempt=True))

    # Foresight

    def foreseen(self, event: GpuRiskRaised | GpuRiskCleared) -> None:
        """Who watches the GPUs sees trouble come, or go."""
        self._feed(event)

    def _runtime_told(self, event: NodeEvent) -> None:
        if not self.runtime.docker_away:
            self._feed(event)

    # The machine

    def _begin(self, now_ns: int, _: object) -> None:
        self._machine = NodeMachine(self._settings)
        self._poll_every_ns = self._settings.idle_poll_ns
        self._fed = (None, 0)
        self._known.clear()
        self._feed(GuardChanged(now_ns, None if self._guarded else Missing.WATCHDOG))
        if not self.runtime.docker_away:
            self._list_again(now_ns, found=True)
        self._poll_at(now_ns)

    def _feed(self, event: NodeEvent) -> None:
        if self._machine is None:
            return
        for instruction in self._machine.handle(event):
            self._follow(event.now_ns, instruction)

    def _follow(self, now_ns: int, instruction: NodeInstruction) -> None:
        match instruction:
            case Pause():
                self._pause(now_ns, instruction)
            case Resume():
                self._resume(now_ns, instruction)
            case PollEvery():
                self._poll_every_ns = instruction.every_ns
                if now_ns + instruction.every_ns < self._next_poll_ns:
                    self._poll_at(now_ns + instruction.every_ns)
            case WakeAt():
                self._wake += 1
                if instruction.at_ns is not None:
                    at_ns = max(now_ns, instruction.at_ns)
                    self._world.agenda.note(at_ns, self._woken, self._wake)
            case Tell():
                if len(self.told) < _MOST_TOLD:
                    self.told.append((now_ns, instruction.container, instruction.text))

    def _pause(self, now_ns: int, wish: Pause) -> None:
        container = self._world.by_id[wish.container]
        most = (
            f" for at most {(wish.resume_by_ns - now_ns) / NS_PER_S:.1f} s"
            if wish.resume_by_ns < NEVER_NS
            else ""
        )
        what = f"pause by {wish.way.value}{most}: {wish.reason}"
        self.decisions.append((now_ns, wish.container, what))

        def answered(at_ns: int, way: PauseWay, error: str | None) -> None:
            self._feed(PauseEnded(at_ns, wish.container, way, error))

        self.runtime.pause(now_ns, container, wish, answered)

    def _resume(self, now_ns: int, wish: Resume) -> None:
        def answered(at_ns: int, _way: PauseWay, error: str | None) -> None:
            self._feed(ResumeEnded(at_ns, wish.container, error))

        self.decisions.append((now_ns, wish.container, f"let go: {wish.reason}"))
        self.runtime.resume(now_ns, self._world.by_id[wish.container], answered)

    def _watchdog_let_go(self, now_ns: int, container: SimContainer) -> None:
        self._feed(ResumedByOthers(now_ns, container.id))

    # Time

    def _poll_at(self, at_ns: int) -> None:
        self._poll += 1
        self._next_poll_ns = at_ns
        self._world.agenda.note(at_ns, self._look, self._poll)

    def _look(self, now_ns: int, poll: int) -> None:
        if poll != self._poll or self._machine is None:
            return
        look_ns = max((gpu.look_ns for gpu in self._world.gpus), default=0)
        # Set before the machine speaks, which may wish to look sooner.
        self._poll_at(now_ns + max(self._poll_every_ns, look_ns))
        self._world.agenda.note(now_ns + look_ns, self._looked, self._world.table(now_ns))

    def _looked(self, now_ns: int, table: TaskTable) -> None:
        """A look is over; what it found was so when it began."""
        fed, fed_ns = self._fed
        same = fed is not None and (table.gpus, table.tasks) == (fed.gpus, fed.tasks)
        if same and now_ns - fed_ns < _REFRESH_NS:
            return
        self._fed = table, now_ns
        self._feed(TableTaken(now_ns, table))

    def _woken(self, now_ns: int, wake: int) -> None:
        if wake == self._wake:
            self._feed(TimePassed(now_ns))

    # Faults

    def _fault_begins(self, now_ns: int, fault: Fault) -> None:
        match fault.kind:
            case FaultKind.AGENT:
                self._machine = None
                self._poll += 1
                self._wake += 1
                self.runtime.agent_died()
                if self._guarded:
                    at_ns = now_ns + self._host.watchdog_ns
                    self._world.agenda.note(at_ns, self._thaw_all)
            case FaultKind.DOCKER:
                self.runtime.docker_away = True
            case FaultKind.WATCHDOG:
                self._guarded = False
                self._feed(GuardChanged(now_ns, Missing.WATCHDOG))

    def _fault_ends(self, now_ns: int, fault: Fault) -> None:
        match fault.kind:
            case FaultKind.AGENT:
                self._thaw_all(now_ns, None)  # what the journal owns, first of all
                self._begin(now_ns, None)
            case FaultKind.DOCKER:
                self.runtime.docker_away = False
                if self._machine is not None:
                    self._list_again(now_ns, found=True)
            case FaultKind.WATCHDOG:
                self._guarded = True
                self._feed(GuardChanged(now_ns, None))

    def _thaw_all(self, now_ns: int, _: object) -> None:
        self.runtime.thaw_all(now_ns, self._world.containers)
