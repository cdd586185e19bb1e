"""Runs a scenario: every tenant alone, then every mode under the same load."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from dure.domain.errors import InputError
from dure.domain.units import format_duration
from dure.sim.kernel.journal import open_journal
from dure.sim.kernel.modes import Mode
from dure.sim.kernel.results import Alone, ModeResult, measure_alone, summarise
from dure.sim.kernel.run import Outcome, Recorder, machine_settings, run
from dure.sim.kernel.scenario import Scenario
from dure.sim.kernel.verdicts import is_diverging

Progress = Callable[[str, float], None]
"""Told what is being run, and the share of the whole comparison that is done."""


@dataclass(frozen=True, slots=True)
class ModeRun:
    """One mode: its figures, what happened, and which tenants' queues grew without end."""

    result: ModeResult
    outcome: Outcome
    diverging: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every mode of a scenario, and the tenants alone."""

    scenario: Scenario
    alone: tuple[Alone, ...]
    runs: tuple[ModeRun, ...]
    notes: tuple[str, ...]


def compare(
    scenario: Scenario, *, journal: Path | None = None, progress: Progress | None = None
) -> Comparison:
    """Run the whole scenario.

    With `journal`, everything the machine of the one managed mode is told and answers is
    written there.
    """
    setting = scenario.setting
    tell = progress or (lambda _what, _share: None)
    steps = len(setting.loads) + len(scenario.modes)
    with ExitStack() as stack:
        record = None
        if journal is not None:
            mode = _journaled(scenario)
            record = stack.enter_context(open_journal(journal, machine_settings(mode, setting)))
        alone: list[Alone] = []
        for load in setting.loads:
            tell(f"{load.tenant.id} alone", len(alone) / steps)
            alone += measure_alone(replace(setting, loads=(load,), picture_ns=(0, 0)))
        runs = tuple(
            _run_mode(scenario, number, tuple(alone), record, tell)
            for number in range(len(scenario.modes))
        )
    tell("done", 1.0)
    notes = (*scenario.notes, *_notes(scenario, tuple(alone)), *_previews(runs))
    return Comparison(scenario, tuple(alone), runs, notes)


def _run_mode(
    scenario: Scenario,
    number: int,
    alone: tuple[Alone, ...],
    record: Recorder | None,
    tell: Progress,
) -> ModeRun:
    mode, setting = scenario.modes[number], scenario.setting
    before, steps = len(setting.loads) + number, len(setting.loads) + len(scenario.modes)
    tell(mode.name, before / steps)
    outcome = run(
        mode,
        setting,
        record=record if mode.policy is not None else None,
        progress=lambda share: tell(mode.name, (before + share) / steps),
    )
    diverging = tuple(
        is_diverging(outcome, index, alone[index]) for index in range(len(setting.loads))
    )
    return ModeRun(summarise(outcome, alone), outcome, diverging)


def _previews(runs: tuple[ModeRun, ...]) -> tuple[str, ...]:
    """What the dry run before each switch of policy said."""
    return tuple(
        f"{run.result.mode} at {format_duration(at_ns)}: {reason}"
        for run in runs
        for at_ns, reason in run.outcome.previews
    )


def _journaled(scenario: Scenario) -> Mode:
    """The one mode that has a machine to record."""
    managed = [mode for mode in scenario.modes if mode.policy is not None]
    if len(managed) == 1:
        return managed[0]
    if not managed:
        raise InputError(
            "there is nothing to record, since no mode has a policy",
            "add one with --modes, for example --modes slo",
            field="--journal",
        )
    names = ", ".join(mode.name for mode in managed)
    raise InputError(
        f"a journal is of one machine, and {len(managed)} modes have one ({names})",
        f"choose one, for example --modes {managed[0].name}",
        field="--journal",
    )


def _notes(scenario: Scenario, alone: tuple[Alone, ...]) -> tuple[str, ...]:
    """Promises that the tenant misses even by itself: no mode can be blamed for those."""
    found = []
    for load, figures in zip(scenario.setting.loads, alone, strict=True):
        promise = load.tenant.slo.latency
        if promise is not None and 1.0 - figures.on_time_share > promise.allowed_late_share:
            found.append(
                f"'{load.tenant.id}' misses its target of {format_duration(promise.target_ns)} "
                f"even alone: {1.0 - figures.on_time_share:.1%} of its requests are late"
            )
    return tuple(found)
