"""Runs a container scenario: every mode under the same load, and every container alone."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from dure.sim.benches.report import silent
from dure.sim.node.containers import ContainerSpec
from dure.sim.node.modes import MODES
from dure.sim.node.results import ContainerFigures, NodeResult
from dure.sim.node.run import Setting, run
from dure.sim.node.scenario import Scenario
from dure.sim.node.steps import meetings

Progress = Callable[[str, float], None]
"""Told what is being run, and the share of the whole comparison that is done."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every mode of a scenario."""

    scenario: Scenario
    alone: tuple[ContainerFigures, ...]
    """Each container with the host to itself (and its peers, if it has any)."""
    results: tuple[NodeResult, ...]

    def slowdown(self, result: NodeResult, index: int) -> float | None:
        """Completion over completion alone; of a service, 95th percentiles of its requests."""
        shared, alone = result.containers[index], self.alone[index]
        if shared.serves:
            pair = (shared.p95_ms, alone.p95_ms)
        else:
            pair = (shared.completion_s, alone.completion_s)
        return pair[0] / pair[1] if pair[0] is not None and pair[1] else None


def compare(scenario: Scenario, *, progress: Progress | None = None) -> Comparison:
    """Run every mode, one after the other."""
    tell = progress or silent
    tell("alone", 0.0)
    alone = alone_figures(scenario.setting)
    results = []
    for number, mode in enumerate(scenario.modes):
        tell(mode.name, number / len(scenario.modes))
        results.append(run(scenario.setting, mode))
    tell("done", 1.0)
    return Comparison(scenario, alone, tuple(results))


def alone_figures(setting: Setting) -> tuple[ContainerFigures, ...]:
    """Each container with the host to itself, and its peers, if it has any."""
    known: dict[object, ContainerFigures] = {}
    found = []
    for spec in setting.containers:
        key = (spec.steps, spec.gpus)
        if key not in known or meetings(spec.steps):
            known[key] = _alone(setting, spec)
        found.append(replace(known[key], name=spec.name))
    return tuple(found)


def _alone(setting: Setting, spec: ContainerSpec) -> ContainerFigures:
    mine = meetings(spec.steps)
    company = [
        replace(each, start_ns=0, release_ns=None)
        for each in setting.containers
        if each is spec or mine & meetings(each.steps)
    ]
    alone = replace(setting, containers=tuple(company), faults=(), acts=())
    figures = run(alone, MODES["plain"]).containers
    return next(each for each in figures if each.name == spec.name)
