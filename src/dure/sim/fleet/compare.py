"""Runs a fleet scenario: every mode under the same load, one after the other or side by side."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from dure.domain.errors import InputError
from dure.kit.words import nearest
from dure.sim.benches.pool import spread
from dure.sim.benches.report import silent
from dure.sim.fleet.results import ExplanationSample, FleetResult, WaitSample
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

    def explanations(
        self, workload: str
    ) -> list[tuple[FleetResult, ExplanationSample | WaitSample]]:
        """Why a workload, or each of several alike, is where it is or waits.

        Mode by mode, workload by workload, in order of time.
        """
        names = _meant(self.scenario.setting, workload) or [workload]
        found: list[tuple[FleetResult, ExplanationSample | WaitSample]] = []
        for result in self.results:
            for name in names:
                samples: list[ExplanationSample | WaitSample] = [
                    *(each for each in result.waits if each.workload == name),
                    *(each for each in result.explanations if each.workload == name),
                ]
                found += ((result, each) for each in sorted(samples, key=_moment))
        return found


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
    wanted = [] if explain is None else _wanted(scenario, explain)
    setting = replace(scenario.setting, explain=frozenset(wanted))
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


def _moment(sample: ExplanationSample | WaitSample) -> tuple[int, bool]:
    """When it was; a wait comes before the placement that ended it."""
    if isinstance(sample, WaitSample):
        return sample.from_ns, False
    return sample.at_ns, True


def _meant(setting: Setting, name: str) -> list[str]:
    """The workload of that name, or those that are numbered under it."""
    known = [str(workload.id) for workload in setting.workloads]
    if name in known:
        return [name]
    numbered = (each for each in known if each.startswith(f"{name}-"))
    return sorted(
        (each for each in numbered if each[len(name) + 1 :].isdecimal()),
        key=lambda each: int(each[len(name) + 1 :]),
    )


def _wanted(scenario: Scenario, name: str) -> list[str]:
    """Workloads a name on the command line means; raises `InputError` for none or too many."""
    meant = _meant(scenario.setting, name)
    if len(meant) > _MOST_NAMED:
        raise InputError(
            f"'{name}' is {len(meant):,} workloads, {meant[0]} to {meant[-1]}",
            f"name one of them, as '{meant[0]}'",
            field="--explain",
        )
    if meant:
        return meant
    known = [str(workload.id) for workload in scenario.setting.workloads]
    near = nearest(name, known)
    if len(known) > _MOST_NAMED and not near.startswith("did"):
        near = "use a name of `workloads`, with its number where there are several, as 'jobs-3'"
    raise InputError(f"there is no workload '{name}'", near, field="--explain")
