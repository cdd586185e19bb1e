"""What the bench of risks found, before it is laid out."""

from dataclasses import dataclass

from dure.sim.risk.ramp_runs import AdaptedRun, FrozenRun
from dure.sim.risk.recorded import ForecastScore
from dure.sim.risk.scoring import Score


@dataclass(frozen=True, slots=True)
class RiskFigures:
    """Everything that was found."""

    drawn: int
    ramps: tuple[FrozenRun, ...]
    steps: tuple[FrozenRun, ...]
    quiet: tuple[FrozenRun, ...]
    wandering: tuple[FrozenRun, ...]
    recorded: tuple[FrozenRun, ...]
    adapted: tuple[AdaptedRun, ...]
    stepped: tuple[AdaptedRun, ...]
    alarms: tuple[Score, ...]
    recorded_alarms: tuple[Score, ...]
    series: tuple[tuple[str, tuple[Score, ...]], ...]
    forecasts: tuple[ForecastScore, ...]
