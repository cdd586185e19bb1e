"""Runs of the month for `dure bench fleet`, each kept on disk so that it is not run again."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from dure.kit.files import write_text
from dure.sim.benches.pool import spread
from dure.sim.benches.report import Tell
from dure.sim.fleet.month import MonthCase, month_setting
from dure.sim.fleet.offline import offline_bound
from dure.sim.fleet.offline_case import Counted, offline_case
from dure.sim.fleet.run import run

BOUND = "offline bound"
LEAST_CARBON = "least carbon"
_CARBON_PER_TONNE = 50.0
"""Shadow price that carbon counts with in every total, USD; the default policy's."""
_GRAMS_ALONE = 1e6
"""Price of a tonne at which the bound counts one unit a gram."""


@dataclass(frozen=True, slots=True)
class MonthRun:
    """One case under one mode, or one of its bounds."""

    case: MonthCase
    mode: str

    @property
    def name(self) -> str:
        """Of its file, and for people who wait."""
        budget = self.case.carbon_budget_kg
        parts = [self.mode.replace(" ", "-"), f"load{self.case.load:g}", f"seed{self.case.seed}"]
        parts += [f"penalty{self.case.penalty:g}"] if self.case.penalty != 1.0 else []
        parts += [f"budget{budget:.0f}"] if budget is not None else []
        return "_".join(parts)


@dataclass(frozen=True, slots=True)
class MonthFigures:
    """What a run came to."""

    money: float
    """Rent, energy, transfers, penalties, work left undone."""
    kg_co2: float
    penalties: float
    unfinished: float
    jobs_on_time: float
    service_minutes_kept: float
    utilisation: float
    open_share: float
    moves: int
    expected_saving: float
    realised_saving: float
    wall_s: float

    @property
    def total(self) -> float:
        """Money, and carbon at its shadow price."""
        return self.money + self.kg_co2 / 1000.0 * _CARBON_PER_TONNE


def run_all(
    runs: Sequence[MonthRun], data: Path | None, keep: Path | None, *, workers: int, tell: Tell
) -> dict[MonthRun, MonthFigures]:
    """All runs, those kept by an earlier call left out."""
    found = kept_runs(runs, keep)
    missing = [each for each in runs if each not in found]
    work = partial(_run_and_keep, data=data, keep=keep)
    results = spread(work, missing, workers=workers, tell=tell, name=lambda each: each.name)
    found.update(zip(missing, results, strict=True))
    return found


def kept_runs(runs: Sequence[MonthRun], keep: Path | None) -> dict[MonthRun, MonthFigures]:
    """Those of these runs that an earlier call kept."""
    return {each: kept for each in runs if (kept := _kept(each, keep)) is not None}


def _run_and_keep(wanted: MonthRun, *, data: Path | None, keep: Path | None) -> MonthFigures:
    figures = _run(wanted, data)
    if keep is not None:
        write_text(keep / f"{wanted.name}.json", json.dumps(asdict(figures), indent=1))
    return figures


def _kept(wanted: MonthRun, keep: Path | None) -> MonthFigures | None:
    if keep is None or not (file := keep / f"{wanted.name}.json").is_file():
        return None
    return MonthFigures(**json.loads(file.read_text(encoding="utf-8")))


def _run(wanted: MonthRun, data: Path | None) -> MonthFigures:
    setting = month_setting(wanted.case, data)
    if wanted.mode == BOUND:
        return _bound_figures(
            offline_bound(offline_case(setting, Counted(_CARBON_PER_TONNE))).value
        )
    if wanted.mode == LEAST_CARBON:
        grams = offline_bound(offline_case(setting, Counted(_GRAMS_ALONE, money=False))).value
        return _bound_figures(0.0, grams / 1000.0)
    result = run(setting, wanted.mode)
    money, actions = result.money, result.actions
    return MonthFigures(
        money=money.total,
        kg_co2=result.kg_co2,
        penalties=money.late_jobs + money.slow_services,
        unfinished=money.unfinished,
        jobs_on_time=result.jobs.on_time_share,
        service_minutes_kept=result.services.within_target_share,
        utilisation=result.utilisation,
        open_share=result.open_share,
        moves=actions.moves,
        expected_saving=actions.expected_saving,
        realised_saving=actions.realised_saving,
        wall_s=result.speed.wall_s,
    )


def _bound_figures(money: float, kg_co2: float = 0.0) -> MonthFigures:
    return MonthFigures(money, kg_co2, *(0.0,) * 6, 0, 0.0, 0.0, 0.0)
