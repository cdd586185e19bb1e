"""Recorded series, read by path: forecasts of prices, carbon and load; a real load in a made run.

Learning runs through the whole series as it would in production; only the last quarter, which
nothing was chosen on, is scored.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dure.domain.errors import InputError
from dure.domain.fleet.series import HOUR_NS
from dure.domain.units import NS_PER_S
from dure.fleet.forecasts import Forecaster
from dure.sim.fleet.azure import DEFAULT_FILE, read_azure
from dure.sim.fleet.series_files import read_hourly
from dure.sim.kernel.ramps import Ramp, Shape, make_ramp
from dure.sim.risk.ramp_runs import FrozenRun, observe_frozen, with_arrivals
from dure.telemetry.lines import Floats
from dure.telemetry.seasonal import SeasonalForecast

_HOURLY = {
    "price": "electricity-prices/price_usd_per_mwh_2023_hourly.csv",
    "carbon": "carbon-electricitymaps/ci_direct_gco2_per_kwh_2023_hourly.csv",
}
_HORIZONS_H = (1, 6, 24)
_HELD_OUT = 0.25
_SPEED_UP = 8.0
"""The hour of recorded requests is replayed so many times as fast: requests that took seconds
there take milliseconds here."""
_PERCENTILE = 90.0
"""Promised there: recorded requests come in bunches, of which one alone breaks a 99th."""
_LOAD_STEP_S = 10.0
_LOAD_HOPS = (1, 6)

GUESSES = ("Dure", "as now", "same hour yesterday", "of the fleet")


@dataclass(frozen=True, slots=True)
class ForecastScore:
    """Mean error over mean value, over all series of a kind."""

    kind: str
    series: int
    horizon: str
    errors: dict[str, float]


def score_forecasts(data: Path) -> tuple[ForecastScore, ...]:
    """Prices, carbon and load under a data folder."""
    if not data.is_dir():
        raise InputError(f"{data} is no folder", "name the folder with the recorded series")
    found = [each for kind, file in _HOURLY.items() for each in _hourly(kind, data / file)]
    return (*found, *_load(data / DEFAULT_FILE))


def _hourly(kind: str, path: Path) -> list[ForecastScore]:
    table = read_hourly(path)
    values = np.array([table.file.numbers(zone) for zone in table.zones]).T
    cut = round(len(values) * (1.0 - _HELD_OUT))
    own = [SeasonalForecast(24) for _ in table.zones]
    fleet = Forecaster(len(table.zones))
    errors: dict[tuple[int, str], list[Floats]] = {}
    for hour, row in enumerate(values):
        fleet.observe(hour * HOUR_NS, row)
        for forecast, value in zip(own, row, strict=True):
            forecast.observe(hour, float(value))
        if hour < cut:
            continue
        expected = fleet.ahead(hour * HOUR_NS, max(_HORIZONS_H) + 1).mean
        for ahead in _HORIZONS_H:
            if hour + ahead < len(values):
                guesses = (
                    np.array([forecast.ahead(ahead).mean for forecast in own]),
                    row,
                    values[hour + ahead - 24],
                    expected[:, ahead],
                )
                for name, guess in zip(GUESSES, guesses, strict=True):
                    errors.setdefault((ahead, name), []).append(
                        np.abs(guess - values[hour + ahead])
                    )
    size = np.abs(values[cut:]).mean(axis=0)
    return [
        ForecastScore(
            kind,
            len(table.zones),
            f"{ahead} h",
            {name: _relative(errors[ahead, name], size) for name in GUESSES},
        )
        for ahead in _HORIZONS_H
    ]


def _relative(errors: list[Floats], size: Floats) -> float:
    return float((np.mean(errors, axis=0) / size).mean())


def _load(path: Path) -> list[ForecastScore]:
    """Requests in steps of ten seconds of the one recorded hour: too short for seasons.

    Squared errors: most steps have no request, and a mean absolute error would reward to say so.
    """
    trace = read_azure(path)
    counts = trace.burst_profile(_LOAD_STEP_S)
    own = SeasonalForecast(round(86_400 / _LOAD_STEP_S))
    cut = round(len(counts) * (1.0 - _HELD_OUT))
    found = []
    errors: dict[tuple[int, str], list[float]] = {}
    for step, value in enumerate(counts):
        own.observe(step, float(value))
        for hop in _LOAD_HOPS:
            if step >= cut and step + hop < len(counts):
                truth = float(counts[step + hop])
                errors.setdefault((hop, GUESSES[0]), []).append(own.ahead(hop).mean - truth)
                errors.setdefault((hop, GUESSES[1]), []).append(float(value) - truth)
    for hop in _LOAD_HOPS:
        size = float(counts[cut:].mean())
        means = {
            name: float(np.sqrt(np.mean(np.square(errors[hop, name])))) / size
            for name in GUESSES[:2]
        }
        found.append(ForecastScore("load", 1, f"{hop * _LOAD_STEP_S:.0f} s", means))
    return found


def run_recorded_load(item: tuple[int, Path]) -> FrozenRun:
    """The recorded hour of requests, sped up, at a made service beside a made job."""
    seed, data = item
    ramp: Ramp = make_ramp(seed, Shape.STEADY)
    trace = read_azure(data / DEFAULT_FILE)
    at_ns = (trace.arrival_s / _SPEED_UP * NS_PER_S).astype(np.int64)
    end_ns = round(trace.length_s / _SPEED_UP * NS_PER_S)
    return observe_frozen(with_arrivals(ramp, at_ns, end_ns, _PERCENTILE))
