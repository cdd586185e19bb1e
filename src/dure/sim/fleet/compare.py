"""Runs a fleet scenario: every mode under the same load, one after the other or side by side."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from dure.domain.errors import InputError
from dure.sim.benches.pool import spread
from dure.sim.benches.report import silent
from dure.sim.documents import nearest
from dure.sim.fleet.results import ExplanationSample, FleetResult
from dure.sim.fleet.run import run
from dure.sim.fleet.scenario import Scenario
from dure.sim.fleet.setting import Setting

_MOST_NAMED = 20
"""Workloads that are listed when none was meant."""

Progress = Callable[[str, float], None]
"""Told what is being run, and the share of the whole comparison that is done."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every mode of a scenario."""

    scenario: Scenario
    results: tuple[FleetResult, ...]

    def explanations(self, workload: str) -> list[tuple[FleetResult, ExplanationSample]]:
        """Why a workload was placed where it was, mode by mode in order of time."""
        return [
            (result, sample)
            for result in self.results
            for sample in result.explanations
            if sample.workload == workload
        ]


@dataclass(frozen=True, slots=True)
class _Item:
    """One run, as it is handed to a process."""

    setting: Setting
    mode: str


def compare(
    scenario: Scenario,
    *,
    workers: int = 1,
    explain: str | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Run every mode; `explain` names a workload whose every placement is to be kept."""
    if explain is not None:
        _check_workload(scenario, explain)
    setting = replace(scenario.setting, explain=frozenset({explain} if explain else ()))
    tell = progress or silent
    if workers <= 1:
        count = len(scenario.modes)
        results = [_alone(setting, scenario.modes, number, tell) for number in range(count)]
    else:
        items = [_Item(setting, mode) for mode in scenario.modes]
        results = spread(_run, items, workers=workers, tell=tell, name=lambda item: item.mode)
    tell("done", 1.0)
    return Comparison(scenario, tuple(results))


def _alone(setting: Setting, modes: tuple[str, ...], number: int, tell: Progress) -> FleetResult:
    """One mode in this process, which can say how far it is."""
    mode, count = modes[number], len(modes)
    tell(mode, number / count)
    return run(setting, mode, lambda share: tell(mode, (number + share) / count))


def _run(item: _Item) -> FleetResult:
    return run(item.setting, item.mode)


def _check_workload(scenario: Scenario, name: str) -> None:
    known = [workload.id for workload in scenario.setting.workloads]
    if name not in known:
        near = nearest(name, known)
        if len(known) > _MOST_NAMED and not near.startswith("did"):
            near = "use a name of `workloads`, with its number where there are several, as 'jobs-3'"
        raise InputError(f"there is no workload '{name}'", near, field="--explain")
