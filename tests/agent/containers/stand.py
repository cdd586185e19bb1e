"""A manager on a simulated runtime, with the real machine and the real journal."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from dure.agent.containers.manager import Manager
from dure.agent.containers.ports import ContainerMachine, Pauser
from dure.agent.containers.watching import Watcher
from dure.agent.events import EventLog
from dure.domain.containers import (
    Container,
    ContainerView,
    GpuLoad,
    GpuTask,
    NodeView,
    PauseWay,
    TaskTable,
)
from dure.domain.ids import ContainerId, GpuUuid
from dure.domain.node_events import NodeEvent
from dure.domain.node_instructions import NodeInstruction
from dure.domain.units import GIB
from dure.node.history import ImageRecord
from dure.node.machine import NodeMachine
from dure.node.settings import NodeSettings
from dure.runtimes.journal import Journal
from dure.runtimes.journal_records import Owed, read
from dure.runtimes.simulated import SimulatedPauser, SimulatedRuntime

GPU = GpuUuid("GPU-00000000-1111-2222-3333-444444444444")
LIMIT_S = 20.0
"""Generous: the machine may be slow and busy."""


def container(number: int, **more: object) -> Container:
    """The n-th container, with a GPU unless said otherwise."""
    facts: dict[str, object] = {
        "id": ContainerId(f"{number:064x}"),
        "name": f"box{number}",
        "image": "job:1",
        "started_ns": 0,
        "gpus": (GPU,),
    }
    return Container(**(facts | more))  # type: ignore[arg-type]


def table(*busy: Container, idle: tuple[Container, ...] = ()) -> TaskTable:
    """A look at which these containers compute, and those hold memory alone."""
    tasks = [
        GpuTask(GPU, 1000 + index, index, each.id, 2 * GIB, 1.0 / len(busy))
        for index, each in enumerate(busy)
    ]
    tasks += [
        GpuTask(GPU, 2000 + index, 100 + index, each.id, 2 * GIB, 0.0)
        for index, each in enumerate(idle)
    ]
    used = 2 * GIB * len(tasks)
    load = GpuLoad(GPU, 80 * GIB, used, 1.0 if busy else 0.0, 600.0 if busy else 80.0, 700.0)
    return TaskTable(time.monotonic_ns(), (load,), tuple(tasks))


def wait_for(what: str, check: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Fails with words where a check does not come true in time."""
    until = time.monotonic() + limit_s
    while not check():
        assert time.monotonic() < until, f"{what} did not happen within {limit_s:g} s"
        time.sleep(0.005)


@dataclass
class Stand:
    """Everything a test of the manager needs; `stop` ends it."""

    folder: Path
    ways: tuple[PauseWay, ...] = (PauseWay.DOCKER,)
    strategy: str = "paper"
    dry_run: bool = False
    make_machine: Callable[[], ContainerMachine] | None = None
    pausers: dict[PauseWay, Pauser] = field(default_factory=dict)
    runtime: SimulatedRuntime = field(default_factory=SimulatedRuntime)
    events: EventLog = field(default_factory=EventLog)
    periods: list[int] = field(default_factory=list)
    tenants: Mapping[int, str] = field(default_factory=dict)
    manager: Manager = field(init=False)
    watcher: Watcher = field(init=False)

    def start(self) -> None:
        self.journal = Journal(self.folder, self.runtime.place)
        settings = NodeSettings(strategy=self.strategy, ways=self.ways)
        for way in self.ways:
            self.pausers.setdefault(way, SimulatedPauser(self.runtime, way))
        self.manager = Manager(
            make_machine=self.make_machine or (lambda: NodeMachine(settings)),
            pausers={way: self.pausers[way] for way in self.ways},
            journal=self.journal,
            look_every=self.periods.append,
            events=self.events,
            tenants=lambda: self.tenants,
            dry_run=self.dry_run,
        )
        self.watcher = Watcher(
            self.runtime,
            on_list=self.manager.take_list,
            on_event=self.manager.take_event,
            on_loss=lambda reason: self.manager.take_trouble("runtime", reason),
        )
        self.manager.start()
        self.watcher.start()
        wait_for("the first list", lambda: "runtime" not in self.manager.troubles)

    def guard(self, *, watchdog: bool = True, monitor: bool = True) -> None:
        self.manager.take_trouble("watchdog", None if watchdog else "the watchdog is gone")
        self.manager.take_trouble("monitor", None if monitor else "the monitor ended")

    def begin(self, *containers: Container) -> None:
        """Start containers, and wait until the manager knows them."""
        for each in containers:
            self.runtime.start(each)
            wait_for(f"{each.name} known", partial(self._knows, each))

    def _knows(self, each: Container) -> bool:
        return each.id in self.manager.containers

    def keeps(self, each: Container) -> bool:
        return not self.runtime.runs(each.id)

    def hold(self, first: Container, *others: Container) -> None:
        """Feed tables in which the first computes, until the others are kept from the GPU."""
        until = time.monotonic() + LIMIT_S
        while not all(self.keeps(each) for each in others):
            assert time.monotonic() < until, f"not held: {[v.reason for v in self.views()]}"
            self.manager.take_table(table(first, idle=others))
            time.sleep(0.02)

    def views(self) -> list[ContainerView]:
        return list(self.manager.view().containers)

    def state(self, each: Container) -> str:
        return next((v.state.value for v in self.views() if v.id == each.id), "absent")

    def owed(self) -> tuple[Owed, ...]:
        return read(self.folder / "journal")

    def said(self) -> str:
        return "\n".join(line.text for line in self.events.lines())

    def stop(self) -> None:
        self.manager.stop()
        self.watcher.stop()
        self.journal.close()


class ScriptedMachine:
    """Answers each event as a test says, to see what the process around it does."""

    def __init__(self, answer: Callable[[NodeEvent], tuple[NodeInstruction, ...]]) -> None:
        self.answer = answer
        self.seen: list[NodeEvent] = []

    def handle(self, event: NodeEvent) -> tuple[NodeInstruction, ...]:
        self.seen.append(event)
        return self.answer(event)

    def view(self, now_ns: int) -> NodeView:
        return NodeView(now_ns, "scripted")

    def why(self, container: ContainerId, now_ns: int) -> tuple[str, ...]:
        return ("because",)

    def history(self) -> tuple[ImageRecord, ...]:
        return ()
