"""Small simulated hosts for tests."""

from collections.abc import Callable
from pathlib import Path

import yaml

from dure.domain.containers import PauseWay
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.sim.agenda import Agenda
from dure.sim.node.containers import ContainerSpec, Holder, SimContainer
from dure.sim.node.model import GpuModel
from dure.sim.node.modes import MODES
from dure.sim.node.results import NodeResult
from dure.sim.node.run import Setting, run
from dure.sim.node.steps import Step, matmul
from dure.sim.node.world import START_NS, World

MS, S = NS_PER_MS, NS_PER_S
GB = 1000**3

Fields = dict[str, object]


def container(name: str, *steps: Step, **changes: object) -> ContainerSpec:
    return ContainerSpec(name, steps, **changes)  # type: ignore[arg-type]


def products(count: int, side: int = 19_456, **changes: object) -> tuple[ContainerSpec, ...]:
    """The paper's task, several at once."""
    return tuple(container(f"task-{n}", *matmul(side), **changes) for n in range(1, count + 1))


def outcome(*containers: ContainerSpec, mode: str = "plain", **setting: object) -> NodeResult:
    return run(Setting(containers, **setting), MODES[mode])  # type: ignore[arg-type]


class Bench:
    """A world without Dure whose containers are paused by hand."""

    def __init__(self, *containers: ContainerSpec, gpus: tuple[GpuModel, ...] = ()) -> None:
        self.agenda = Agenda()
        self.world = World(containers, gpus or (GpuModel(),), self.agenda)
        self.world.start()

    def at(self, time_ns: int, action: Callable[[int], None]) -> None:
        """Do something at a moment of the run."""
        self.agenda.note(START_NS + time_ns, lambda now_ns, _: action(now_ns))

    def freeze(self, name: str, from_ns: int, to_ns: int) -> None:
        one = self[name]
        self.at(from_ns, lambda now_ns: one.keep(now_ns, Holder.DURE, PauseWay.DOCKER))
        self.at(to_ns, one.let_go)

    def lock(self, name: str, from_ns: int, to_ns: int) -> list[int]:
        """Lock it for a while; the moments the lock took effect are added to the list."""
        one, effective = self[name], list[int]()

        def in_effect(now_ns: int) -> None:
            effective.append(now_ns - START_NS)
            one.keep(now_ns, Holder.DURE, PauseWay.CUDA_LOCK)

        self.at(from_ns, lambda now_ns: one.begin_lock(now_ns, in_effect))
        self.at(to_ns, one.let_go)
        return effective

    def run(self, until_ns: int = 3600 * S) -> None:
        self.agenda.run_until(START_NS + until_ns)

    def __getitem__(self, name: str) -> SimContainer:
        return next(each for each in self.world.containers if each.spec.name == name)

    def ended_ms(self, name: str) -> float | None:
        ended_ns = self[name].history.ended_ns
        return None if ended_ns is None else (ended_ns - START_NS) / MS


def written(folder: Path, fields: Fields) -> Path:
    """A scenario file with these fields."""
    path = folder / "scenario.yaml"
    path.write_text(yaml.safe_dump(fields, sort_keys=False), encoding="utf-8")
    return path
