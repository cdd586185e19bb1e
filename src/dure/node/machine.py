"""The node machine: events in, instructions out. No clock, no I/O, no randomness.

One instance looks after all containers of one host. After each event the strategy is shown the
scene, the safety rules take out what may not be, and what remains differs from what is in force by
the instructions returned.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any, ClassVar

from dure.domain.containers import NodeView, PauseWay
from dure.domain.errors import InputError, InvariantError
from dure.domain.ids import ContainerId
from dure.domain.node_events import (
    ContainerChanged,
    ContainerEnded,
    ContainerStarted,
    ContainerStopping,
    GpuRiskCleared,
    GpuRiskRaised,
    GuardChanged,
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
    PollEvery,
    Resume,
    Tell,
    WakeAt,
)
from dure.node import holding, safety, views
from dure.node.activity import Phase
from dure.node.history import History, ImageRecord
from dure.node.settings import NodeSettings
from dure.node.state import NodeState
from dure.node.strategies.base import Plan, Say, Scene, Strategy, Verdict
from dure.node.strategies.registry import make_strategy
from dure.node.tracks import Grip, Track
from dure.node.units import Unit, UnitKey


@dataclass(slots=True)
class NodeMachine:
    """Decides for the containers of one host."""

    settings: NodeSettings
    strategy: Strategy = field(init=False)
    state: NodeState = field(init=False)
    _plan: Plan = field(default_factory=Plan)
    _verdicts: dict[UnitKey, Verdict] = field(default_factory=dict)
    _poll_ns: int | None = None
    _wake_ns: int | None = None
    _lied: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.strategy = make_strategy(self.settings.strategy)
        self.state = NodeState(self.settings, History.of(self.settings.history))

    def handle(self, event: NodeEvent) -> tuple[NodeInstruction, ...]:
        """Take in one event; returns what is to be done about it."""
        if event.now_ns < self.state.now_ns:
            raise InvariantError(
                f"event at {event.now_ns} ns comes after one at {self.state.now_ns} ns",
                "feed events in the order of their time",
            )
        self.state.advance(event.now_ns)
        if self._wake_ns is not None and self._wake_ns <= event.now_ns:
            self._wake_ns = None
        asked = self._handlers[type(event)](self, event)
        return (*asked, *self._settle(isinstance(event, TableTaken)))

    def view(self, now_ns: int) -> NodeView:
        """Everything `dure node ps` shows."""
        return views.view(self.state, self.strategy.name, self._plan.queue, self._verdicts, now_ns)

    def why(self, container: ContainerId, now_ns: int) -> tuple[str, ...]:
        """In sentences, why a container is in the state it is in; raises `InputError`."""
        track = self.state.tracks.get(container)
        if track is None:
            raise InputError(f"there is no container '{container}'", "see `dure node ps`")
        return views.why(self.state, track, self._plan.queue, self._verdicts, now_ns)

    def history(self) -> tuple[ImageRecord, ...]:
        """What was learned of images, for `NodeSettings.history` of a later machine."""
        return self.state.history.records()

    # Containers

    def _started(self, event: ContainerStarted) -> list[NodeInstruction]:
        track = self.state.add(event.container, event.found)
        return _complain(track)

    def _changed(self, event: ContainerChanged) -> list[NodeInstruction]:
        track = self.state.tracks.get(event.container.id)
        if track is None:
            return []
        before = track.complaint
        self.state.retell(event.container)
        return _complain(track) if track.complaint != before else []

    def _ended(self, event: ContainerEnded) -> list[NodeInstruction]:
        self.state.drop(event.container)
        return []

    def _stopping(self, event: ContainerStopping) -> list[NodeInstruction]:
        track = self.state.tracks.get(event.container)
        if track is None:
            return []
        track.stopping, track.person_paused = True, False
        return self._release(track, "it is stopping")

    def _release(self, track: Track, reason: str) -> list[NodeInstruction]:
        """Let one container go at once, whoever had it paused through Dure."""
        if not track.gripped:
            return []
        asked = holding.release(track, reason)
        unit = self.state.unit_of(track)
        if not unit.gripped:
            asked += holding.let_go(self.state, unit, reason, launch=True)
            unit.activity.let_go(self.state.now_ns, launch=False)
        return asked

    # People

    def _paused_by_others(self, event: PausedByOthers) -> list[NodeInstruction]:
        track = self.state.tracks.get(event.container)
        if track is None:
            return []
        track.paused_by_others = True
        if track.grip is Grip.HELD and track.way is PauseWay.DOCKER:
            # Somebody unpaused and paused it again: that pause is theirs.
            track.grip, track.way, track.by_person = Grip.FREE, None, False
        return []

    def _resumed_by_others(self, event: ResumedByOthers) -> list[NodeInstruction]:
        track = self.state.tracks.get(event.container)
        if track is None:
            return []
        track.paused_by_others = track.person_paused = False
        track.hands_off_until_ns = event.now_ns + self.settings.hands_off_ns
        if track.grip is Grip.HELD and track.way is PauseWay.DOCKER:
            track.grip, track.way, track.by_person = Grip.FREE, None, False
            return []
        return self._release(track, "a person let it go")

    def _person_paused(self, event: PersonPaused) -> list[NodeInstruction]:
        track = self.state.tracks.get(event.container)
        if track is None:
            return []
        track.person_paused, track.hands_off_until_ns = True, 0
        refused = self._cannot_pause(track)
        if refused is not None:
            track.person_paused = False
            return [Tell(track.id, f"'{track.container.name}' is not paused: {refused}")]
        return []

    def _cannot_pause(self, track: Track) -> str | None:
        if not track.container.gpus:
            return "it was given no GPU"
        if track.container.unmanaged is not None:
            return track.container.unmanaged
        if track.stopping:
            return "it is stopping"
        return None if self.settings.ways else "no way to pause works on this host"

    def _person_resumed(self, event: PersonResumed) -> list[NodeInstruction]:
        track = self.state.tracks.get(event.container)
        if track is None:
            return []
        track.person_paused = False
        track.hands_off_until_ns = event.now_ns + self.settings.hands_off_ns
        return self._release(track, "a person let it go")

    def _person_exempted(self, event: PersonExempted) -> list[NodeInstruction]:
        track = self.state.tracks.get(event.container)
        if track is not None:
            track.exempted = event.exempt
        return []

    # The world

    def _table(self, event: TableTaken) -> list[NodeInstruction]:
        self.state.take(event.table)
        told: list[NodeInstruction] = []
        for load in event.table.gpus:
            if load.memory_used_bytes > load.memory_total_bytes and load.gpu not in self._lied:
                self._lied.add(load.gpu)
                text = f"NVML says that more than all memory of {load.gpu} is used"
                told.append(Tell(None, f"{text}; nobody waits for memory on it"))
        return told

    def _pause_ended(self, event: PauseEnded) -> list[NodeInstruction]:
        track = self.state.tracks.get(event.container)
        return holding.paused(self.state, track, event) if track is not None else []

    def _resume_ended(self, event: ResumeEnded) -> list[NodeInstruction]:
        track = self.state.tracks.get(event.container)
        return holding.resumed(self.state, track, event) if track is not None else []

    def _guard(self, event: GuardChanged) -> list[NodeInstruction]:
        self.state.missing = event.missing
        return []

    def _risk_raised(self, event: GpuRiskRaised) -> list[NodeInstruction]:
        said = self.state.strains.raised(event.now_ns, event.gpu, event.risk)
        return [Tell(None, said)] if said is not None else []

    def _risk_cleared(self, event: GpuRiskCleared) -> list[NodeInstruction]:
        said = self.state.strains.cleared(event.gpu, event.series, event.risk_kind)
        return [Tell(None, said)] if said is not None else []

    def _time(self, event: TimePassed) -> list[NodeInstruction]:
        return []

    # Deciding

    def _settle(self, updated: bool) -> list[NodeInstruction]:
        """Let the strategy decide, within the rules, and ask for what that changes."""
        asked: list[NodeInstruction] = [
            Tell(None, said) for said in self.state.strains.expire(self.state.now_ns)
        ]
        asked += self._overdue()
        self._plan = self.strategy.plan(self._scene(updated))
        self._verdicts = safety.overrule(self.state, self._plan)
        for track in self.state.tracks.values():  # before a pause that a person takes over ends
            if track.person_paused:
                asked += holding.hold_for_person(self.state, track)
        for unit in self.state.units.values():
            asked += self._apply(unit, self._verdicts.get(unit.key))
        return [*asked, *self._poll(), *self._wake()]

    def _scene(self, updated: bool) -> Scene:
        state = self.state
        touchable: list[Unit] = []
        bystanders: list[Unit] = []
        for unit in state.units.values():
            if unit.gpus:
                free = unit.untouchable(state.now_ns) is None
                (touchable if free else bystanders).append(unit)
        return Scene(
            now_ns=state.now_ns,
            updated=updated,
            units=tuple(touchable),
            bystanders=tuple(bystanders),
            gpus={uuid: gpu.state() for uuid, gpu in state.gpus.items()},
            history=state.history,
            settings=self.settings,
            crowded=state.strains.crowded(),
            filling=state.strains.filling(),
            freeze_ns=round(median(state.freezes_ns)) if state.freezes_ns else None,
        )

    def _overdue(self) -> list[NodeInstruction]:
        """Who is held as long as it may be, and who could not be let go before."""
        state, asked = self.state, list[NodeInstruction]()
        for unit in state.units.values():
            if unit.gripped and state.now_ns >= _due_ns(unit, self.settings):
                asked += holding.let_time_run_out(state, unit)
        for track in state.tracks.values():
            if track.retry_ns is not None and state.now_ns >= track.retry_ns:
                track.retry_ns = None
                asked.append(Resume(track.id, track.reason))
        return asked

    def _apply(self, unit: Unit, verdict: Verdict | None) -> list[NodeInstruction]:
        """Do with a unit what was decided."""
        now = self.state.now_ns
        if verdict is not None and verdict.say.holds:
            anew = verdict.to_tail and unit.turn_ns is not None
            asked = holding.hold(self.state, unit, verdict, self.strategy.prefers)
            if anew:
                unit.queue_up(now)
            return asked
        reason = verdict.reason if verdict is not None else "it need not wait"
        launch = verdict is None or verdict.say is not Say.PRIME
        asked = []
        if unit.gripped or unit.wait_ns is not None:
            asked = holding.let_go(self.state, unit, reason, launch=launch)
        if verdict is not None and verdict.say is Say.GO:
            if unit.turn_ns is None and unit.activity.active:
                unit.turn_ns, unit.carried_ns = now, 0
        elif launch:
            unit.end_turn(now)
        return asked

    def _poll(self) -> list[NodeInstruction]:
        """How often the monitor should look now."""
        state, settings = self.state, self.settings
        units = [unit for unit in state.units.values() if unit.gpus]
        coming = [unit for unit in units if _copies(unit)]
        company = safety.Company(state) if coming else None
        if company is not None and any(company.has(unit) for unit in coming):
            every_ns = settings.fast_poll_ns
        elif any(unit.gripped for unit in units):
            every_ns = settings.queue_poll_ns
        else:
            sharing = state.count(lambda _: True)
            crowded = any(sharing(unit) for unit in units)
            every_ns = settings.shared_poll_ns if crowded else settings.idle_poll_ns
        if every_ns == self._poll_ns:
            return []
        self._poll_ns = every_ns
        return [PollEvery(every_ns)]

    def _wake(self) -> list[NodeInstruction]:
        """Ask to be woken when time alone changes something."""
        state, settings, now = self.state, self.settings, self.state.now_ns
        times = [t for t in (self._plan.wake_ns, state.strains.next_ns()) if t is not None]
        queued = any(unit.gripped for unit in state.units.values())
        if queued:
            still = [gpu.still_ns for gpu in state.gpus.values()]
            times += [since + settings.idle_bound_ns for since in still if since is not None]
        for unit in state.units.values():
            if unit.gripped:
                times.append(_due_ns(unit, settings))
            elif queued and unit.activity.active:
                times.append(unit.activity.silent_at_ns(settings))
            if unit.must_go_until_ns > now and unit.contends:
                times.append(unit.must_go_until_ns)
        for track in state.tracks.values():
            if track.retry_ns is not None:
                times.append(track.retry_ns)
            times += (track.hands_off_until_ns, track.unpausable_until_ns)
        at_ns = min((time for time in times if time > now), default=None)
        if at_ns == self._wake_ns:
            return []
        self._wake_ns = at_ns
        return [WakeAt(at_ns)]

    _handlers: ClassVar[dict[type, Callable[["NodeMachine", Any], list[NodeInstruction]]]] = {
        ContainerStarted: _started,
        ContainerChanged: _changed,
        ContainerEnded: _ended,
        ContainerStopping: _stopping,
        PausedByOthers: _paused_by_others,
        ResumedByOthers: _resumed_by_others,
        TableTaken: _table,
        PauseEnded: _pause_ended,
        ResumeEnded: _resume_ended,
        PersonPaused: _person_paused,
        PersonResumed: _person_resumed,
        PersonExempted: _person_exempted,
        GuardChanged: _guard,
        GpuRiskRaised: _risk_raised,
        GpuRiskCleared: _risk_cleared,
        TimePassed: _time,
    }


def _copies(unit: Unit) -> bool:
    """Whether a unit brings its input: it is to be held before its launch, at the right moment."""
    activity = unit.activity
    return activity.phase is Phase.INPUT and not activity.launched and not unit.gripped


def _due_ns(unit: Unit, settings: NodeSettings) -> int:
    """When a unit that is held has to be let go."""
    due_ns = NEVER_NS
    for track in unit.tracks:
        if track.resume_by_ns < due_ns and track.gripped and not track.by_person:
            due_ns = track.resume_by_ns
    return due_ns - settings.release_margin_ns


def _complain(track: Track) -> list[NodeInstruction]:
    """Say once that a label cannot be understood."""
    if track.complaint is None or not track.container.gpus:
        return []
    return [Tell(track.id, f"'{track.container.name}' is unmanaged: {track.complaint}")]
