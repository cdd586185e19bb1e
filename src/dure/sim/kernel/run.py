"""One run: a load on a modelled GPU under one mode, the machine in the loop where it has one."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dure.domain.accelerator import AcceleratorProfile
from dure.domain.adaptation import AdaptBy, Advice, Choice
from dure.domain.errors import InputError
from dure.domain.events import (
    Event,
    PolicyRequested,
    ProgressReported,
    ReadingsTaken,
    RiskRaised,
    TenantJoined,
    TenantLeft,
)
from dure.domain.instructions import (
    Instruction,
    PreviewPlan,
    PublishPlan,
    RaiseSignal,
    RequestRefused,
    WeightAdapted,
)
from dure.domain.plan import Plan
from dure.domain.risks import Risk
from dure.domain.signals import Signal
from dure.kernel.advisor import Advisor, AdvisorSettings
from dure.kernel.chooser import Chooser, EveryPolicy
from dure.kernel.machine import KernelMachine, MachineSettings
from dure.sim.kernel.advising import Advising
from dure.sim.kernel.availability import WINDOW_NS
from dure.sim.kernel.load import TenantLoad
from dure.sim.kernel.modes import Mode, sharing_of
from dure.sim.kernel.physics import Physics
from dure.sim.kernel.state import NEVER
from dure.sim.kernel.world import TICK_NS, World
from dure.telemetry.watch import RiskWatch

Recorder = Callable[[Event, tuple[Instruction, ...]], None]
"""Takes down every event with what the machine answered: the journal."""
Progress = Callable[[float], None]
"""Told the share of virtual time that has passed."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a run takes place in, the same for every mode."""

    accelerator: AcceleratorProfile
    loads: tuple[TenantLoad, ...]
    duration_ns: int
    drain_ns: int = 0
    """How much longer a run may go on for work that arrived in time to be finished."""
    physics: Physics = field(default_factory=Physics)
    picture_ns: tuple[int, int] = (0, 0)
    """Window of which every kernel is kept."""


@dataclass(slots=True)
class Outcome:
    """What happened in one run, before it is summed up."""

    mode: Mode
    setting: Setting
    end_ns: int
    finished: NDArray[np.void]
    edges: NDArray[np.void]
    spans: NDArray[np.void]
    tenants: NDArray[np.void]
    device: NDArray[np.void]
    windows: NDArray[np.float64]
    """By one-second window and tenant: work done (as time alone) and busy time so far, longest
    hold in the window."""
    decisions_s: list[float]
    plans: list[tuple[int, Plan]]
    signals: list[tuple[int, Signal]]
    risks: list[tuple[int, Risk]]
    """What was foreseen, whether or not weights heed it."""
    adaptations: list[tuple[int, WeightAdapted]]
    previews: list[tuple[int, str]]
    """What each switch of policy was said to change, by a dry run just before it."""
    prediction_error: float
    wall_s: float
    advice: list[Advice] = field(default_factory=list)
    """What the advisor proposed or did, with its reasons."""
    dry_runs: int = 0


class _Loop:
    """The control loop of the agent, in virtual time."""

    def __init__(
        self, mode: Mode, setting: Setting, record: Recorder | None, chooser: Chooser
    ) -> None:
        self.world = World(
            setting.accelerator,
            setting.physics,
            setting.loads,
            sharing_of(mode, setting.accelerator, setting.loads),
        )
        self.machine: KernelMachine | None = None
        self.decisions_s: list[float] = []
        self.plans: list[tuple[int, Plan]] = []
        self.signals: list[tuple[int, Signal]] = []
        self.risks: list[tuple[int, Risk]] = []
        self.adaptations: list[tuple[int, WeightAdapted]] = []
        self.previews: list[tuple[int, str]] = []
        self._record = record
        self._setting = setting
        self._watch = RiskWatch(setting.accelerator.memory_bytes)
        if mode.policy is not None:
            self.machine = KernelMachine(machine_settings(mode, setting))
        self.advising: Advising | None = None
        if mode.policy is not None and mode.adapt is not AdaptBy.OFF:
            inforce = Choice(mode.policy, mode.parameters)
            self.advising = Advising(
                Advisor(inforce, AdvisorSettings(adapt=mode.adapt), chooser=chooser)
            )
        self._changes = sorted(self._scheduled(mode), key=lambda change: change.now_ns)

    def _scheduled(self, mode: Mode) -> Iterable[Event]:
        """Everything that happens at a time known before: arrivals, departures, switches."""
        for load in self._setting.loads:
            yield TenantJoined(load.joins_ns, load.tenant)
            if load.leaves_ns is not None:
                yield TenantLeft(load.leaves_ns, load.tenant.id)
        for switch in mode.switches:
            for dry_run in (True, False):
                yield PolicyRequested(switch.at_ns, switch.policy, switch.parameters, dry_run)

    def next_change_ns(self) -> int:
        return self._changes[0].now_ns if self._changes else NEVER

    def apply_changes(self) -> None:
        """Hand the machine what is due."""
        while self._changes and self._changes[0].now_ns <= self.world.now_ns:
            self.feed(self._changes.pop(0))

    def tick(self) -> None:
        """Read the counters and let the machine decide."""
        if self.machine is None:
            return
        now_ns = self.world.now_ns
        for index, load in enumerate(self._setting.loads):
            if load.reports_progress and load.tenant.id in self.machine.tracks:
                done, total = self.world.job_progress(index)
                if total > 0:
                    self.feed(ProgressReported(now_ns, load.tenant.id, done, total))
        readings, samples = self.world.read()
        event = ReadingsTaken(now_ns, readings, samples)
        started = time.perf_counter()
        instructions = self.machine.handle(event)
        self.decisions_s.append(time.perf_counter() - started)
        self._carry_out(event, instructions)
        self._ask_advisor(event)
        for told in self._watch.observe(now_ns, readings):
            if isinstance(told, RiskRaised):
                self.risks.append((now_ns, told.risk))
            self.feed(told)

    def feed(self, event: Event) -> None:
        """Give the machine one event and do what it says."""
        if self.machine is None:
            return
        if isinstance(event, TenantJoined):
            for told in self._watch.follow(event.now_ns, event.tenant):
                self.feed(told)
        elif isinstance(event, TenantLeft):
            self._watch.unfollow(event.tenant)
        self._carry_out(event, self.machine.handle(event))
        if not isinstance(event, PolicyRequested):
            self._ask_advisor(event)

    def _ask_advisor(self, event: Event) -> None:
        """Let the advisor hear what happened, and do what it wants."""
        if self.advising is not None and self.machine is not None:
            for wanted in self.advising.hear(event, self.machine):
                self.feed(wanted)

    def _carry_out(self, event: Event, instructions: tuple[Instruction, ...]) -> None:
        if self._record is not None:
            self._record(event, instructions)
        for instruction in instructions:
            if isinstance(instruction, PublishPlan):
                self.world.publish(instruction.plan)
                self.plans.append((self.world.now_ns, instruction.plan))
            elif isinstance(instruction, RaiseSignal):
                self.signals.append((self.world.now_ns, instruction.signal))
            elif isinstance(instruction, WeightAdapted):
                self.adaptations.append((self.world.now_ns, instruction))
            elif isinstance(instruction, PreviewPlan):
                self.previews.append((self.world.now_ns, instruction.reason))
            elif isinstance(instruction, RequestRefused):
                raise InputError(instruction.reason, "change the scenario")


def machine_settings(mode: Mode, setting: Setting) -> MachineSettings:
    """How the machine of a managed mode is started."""
    assert mode.policy is not None
    return MachineSettings(
        setting.accelerator,
        mode.policy,
        mode.parameters,
        side_by_side=mode.side_by_side,
        weights=mode.weights,
    )


def run(
    mode: Mode,
    setting: Setting,
    *,
    record: Recorder | None = None,
    progress: Progress | None = None,
    chooser: Chooser | None = None,
) -> Outcome:
    """Run a load under a mode to the end of its duration, and on until its work is done.

    `chooser`: what an advisor tries, where the mode has one; every policy unless stated.
    """
    started = time.perf_counter()
    loop = _Loop(mode, setting, record, chooser or EveryPolicy())
    world = loop.world
    if setting.picture_ns[1] > setting.picture_ns[0]:
        world.record_spans(*setting.picture_ns)
    limit = setting.duration_ns + setting.drain_ns
    loop.apply_changes()
    next_tick = TICK_NS
    windows = [world.look()]
    while world.now_ns < limit:
        until = min(next_tick, loop.next_change_ns(), limit, len(windows) * WINDOW_NS)
        world.advance(until)
        if world.now_ns >= len(windows) * WINDOW_NS:
            windows.append(world.look())
        if world.now_ns >= next_tick:
            loop.tick()
            next_tick += TICK_NS
            if progress is not None:
                progress(min(1.0, world.now_ns / setting.duration_ns))
        loop.apply_changes()
        if world.now_ns >= setting.duration_ns and world.all_done():
            break
    machine = loop.machine
    return Outcome(
        mode=mode,
        setting=setting,
        end_ns=world.now_ns,
        finished=np.concatenate(world.finished),
        edges=np.concatenate(world.edges),
        spans=world.state.spans[: int(world.state.device[0]["span_count"])].copy(),
        tenants=world.state.tenants,
        device=world.state.device,
        windows=np.stack(windows),
        decisions_s=loop.decisions_s,
        plans=loop.plans,
        signals=loop.signals,
        risks=loop.risks,
        adaptations=loop.adaptations,
        previews=loop.previews,
        advice=loop.advising.told if loop.advising is not None else [],
        dry_runs=loop.advising.dry_runs if loop.advising is not None else 0,
        prediction_error=machine.interference.error if machine else 0.0,
        wall_s=time.perf_counter() - started,
    )
