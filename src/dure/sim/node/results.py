"""What came of a run: figures of every container, and of the host as a whole."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dure.domain.ids import ContainerId
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.sim.node.containers import SimContainer
from dure.sim.node.world import START_NS, World

if TYPE_CHECKING:
    from dure.sim.node.managing import Manager

_LOOK_NS = 10 * NS_PER_MS
"""How often the watch looks for GPUs that idle while containers are kept from them."""
_WAIT_TOLERANCE_NS = 100 * NS_PER_MS
"""A wait counts as past its label when it is longer by this: letting go takes time, too."""


@dataclass(frozen=True, slots=True)
class ContainerFigures:
    """One container."""

    name: str
    serves: bool
    outside: bool
    completion_s: float | None
    """From its start, or its release from a barrier, to its end; None: it failed or did not end."""
    failure: str | None
    """Why it did not do its work; None: it did."""
    out_of_memory: int
    unhealthy: int
    restarts: int
    pauses: int
    paused_s: float
    longest_wait_s: float
    past_label: bool
    """It waited longer than its `dure.max-wait`."""
    deadline_missed: bool | None
    """None: it states none."""
    requests: int
    p50_ms: float | None
    p95_ms: float | None
    phases_s: dict[str, float]
    """Time in each phase of its first process, waits of a pause included."""
    pause_spans_s: tuple[tuple[float, float, str], ...]
    """Its pauses: from, to, by which way."""
    held_at_end: bool


@dataclass(frozen=True, slots=True)
class NodeResult:
    """One mode."""

    mode: str
    containers: tuple[ContainerFigures, ...]
    makespan_s: float
    """From the first begin of a job to the end of the last."""
    mean_s: float | None
    """Mean completion of jobs that did their work."""
    p95_s: float | None
    spread_s: float | None
    """Between the slowest and the fastest."""
    unfinished: int
    failed: int
    out_of_memory: int
    """Times a program ended because memory ran out."""
    past_labels: int
    """Containers that waited longer than their label allows."""
    deadlines_missed: int
    unhealthy: int
    pauses: int
    failed_actions: int
    """Pauses and resumes that did not work."""
    overdue: int
    """Pauses the watchdog had to end because their deadline had passed."""
    idle_while_paused_s: float
    """Time a GPU did nothing while a container was kept from it."""
    longest_stall_s: float
    """Longest such time with everybody on that GPU kept from it."""
    told: tuple[tuple[float, str, str], ...]
    """What the machine said: when, of which container, what."""
    decisions: tuple[tuple[float, str, str], ...]
    """Every pause and resume the machine asked for, with its reason."""


class Watch:
    """Looks for GPUs that do nothing while somebody is kept from them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.idle_ns = 0
        self.longest_stall_ns = 0
        self._stalled_ns = [0] * len(world.gpus)

    def start(self) -> None:
        """Look from now on."""
        self._world.agenda.note(START_NS, self._look)

    def _look(self, now_ns: int, _: object) -> None:
        for number, gpu in enumerate(self._world.gpus):
            there = [
                each
                for each in self._world.containers
                if each.running and each.processes and gpu.uuid in each.gpus
            ]
            held = [each for each in there if each.held_by_dure]
            if not held or gpu.computing:
                self._stalled_ns[number] = 0
                continue
            self.idle_ns += _LOOK_NS
            self._stalled_ns[number] += _LOOK_NS if len(held) == len(there) else 0
            self.longest_stall_ns = max(self.longest_stall_ns, self._stalled_ns[number])
        if self._world.unfinished:
            self._world.agenda.note(now_ns + _LOOK_NS, self._look)


def result_of(
    mode: str, world: World, manager: "Manager | None", watch: Watch, now_ns: int
) -> NodeResult:
    """The figures of a run that ended at `now_ns`."""
    figures = tuple(_figures(container, now_ns) for container in world.containers)
    jobs = [each for each in figures if not each.serves and not each.outside]
    completions = [each.completion_s for each in jobs if each.completion_s is not None]
    return NodeResult(
        mode=mode,
        containers=figures,
        makespan_s=_makespan(world, now_ns),
        mean_s=sum(completions) / len(completions) if completions else None,
        p95_s=percentile(completions, 95.0),
        spread_s=max(completions) - min(completions) if completions else None,
        unfinished=len(world.unfinished),
        failed=sum(each.failure is not None for each in figures),
        out_of_memory=sum(each.out_of_memory for each in figures),
        past_labels=sum(each.past_label for each in figures),
        deadlines_missed=sum(each.deadline_missed is True for each in figures),
        unhealthy=sum(each.unhealthy for each in figures),
        pauses=sum(each.pauses for each in figures),
        failed_actions=manager.runtime.failures if manager is not None else 0,
        overdue=manager.runtime.overdue if manager is not None else 0,
        idle_while_paused_s=watch.idle_ns / NS_PER_S,
        longest_stall_s=watch.longest_stall_ns / NS_PER_S,
        told=_said(world, manager.told) if manager is not None else (),
        decisions=_said(world, manager.decisions) if manager is not None else (),
    )


def _said(
    world: World, entries: Sequence[tuple[int, ContainerId | None, str]]
) -> tuple[tuple[float, str, str], ...]:
    """Entries with the time of the run and the container's name."""
    return tuple(
        (
            (at_ns - START_NS) / NS_PER_S,
            world.by_id[who].spec.name if who in world.by_id else "",
            text,
        )
        for at_ns, who, text in entries
    )


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least this many per cent do not exceed."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(len(values) * share / 100.0) - 1)]


def _figures(container: SimContainer, now_ns: int) -> ContainerFigures:
    spec, history = container.spec, container.history
    begin_ns = START_NS + spec.begin_ns
    done = history.ended_ns is not None and history.failure is None
    completion_ns = history.ended_ns - begin_ns if done and history.ended_ns is not None else None
    longest_ns, paused_ns = history.longest_wait_ns, history.paused_ns
    if container.hold is not None and container.held_by_dure:
        waited_ns = now_ns - container.hold.since_ns
        longest_ns, paused_ns = max(longest_ns, waited_ns), paused_ns + waited_ns
    allowed_ns = spec.max_wait_ns
    deadline_missed = None
    if spec.deadline_ns is not None:
        due_ns = START_NS + spec.start_ns + spec.deadline_ns
        deadline_missed = not done or (history.ended_ns or 0) > due_ns
    failure = history.failure or (None if done else "did not end in time")
    return ContainerFigures(
        name=spec.name,
        serves=spec.serves,
        outside=spec.outside,
        completion_s=None if completion_ns is None else completion_ns / NS_PER_S,
        failure=failure,
        out_of_memory=history.out_of_memory,
        unhealthy=history.unhealthy,
        restarts=max(0, container.life - 1),
        pauses=history.pauses,
        paused_s=paused_ns / NS_PER_S,
        longest_wait_s=longest_ns / NS_PER_S,
        past_label=allowed_ns is not None and longest_ns > allowed_ns + _WAIT_TOLERANCE_NS,
        deadline_missed=deadline_missed,
        requests=len(history.latencies_ns),
        p50_ms=_ms(percentile(history.latencies_ns, 50.0)),
        p95_ms=_ms(percentile(history.latencies_ns, 95.0)),
        phases_s={kind: time_ns / NS_PER_S for kind, time_ns in history.phases_ns.items()},
        pause_spans_s=tuple(
            ((from_ns - START_NS) / NS_PER_S, (to_ns - START_NS) / NS_PER_S, way)
            for from_ns, to_ns, way in history.spans
        ),
        held_at_end=container.held_by_dure,
    )


def _makespan(world: World, now_ns: int) -> float:
    """From the first begin to the last end of jobs, or of everything where there are none."""
    ours = [each for each in world.containers if not each.spec.outside]
    counted = [each for each in ours if not each.spec.serves] or ours or world.containers
    first_ns = min(START_NS + each.spec.begin_ns for each in counted)
    return (max(_ends(counted, now_ns)) - first_ns) / NS_PER_S


def _ends(containers: Iterable[SimContainer], now_ns: int) -> list[int]:
    return [
        now_ns if each.history.ended_ns is None else each.history.ended_ns for each in containers
    ]


def _ms(value_ns: float | None) -> float | None:
    return None if value_ns is None else value_ns / NS_PER_MS
