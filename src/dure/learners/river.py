"""Detectors of the library river, as stand-ins for Dure's own: `pip install '.[learn]'`.

The library is imported when the first detector is made, never by importing this module: it takes
a second or two and some 100 MB, which an agent that does not ask for it must not pay. One value
takes ten to a hundred microseconds; nothing here belongs into a control loop.
"""

import importlib
import math
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from dure.domain.errors import DureError
from dure.telemetry.ports import Detector, Finding

_SEED = 7
_WARM = 300
"""Values before trees have seen enough to say what is odd."""
_CHANCE = 0.0005


def river_detector(name: str, chance: float = _CHANCE) -> Detector:
    """A detector by name: one of `RIVER_DETECTORS`; `chance`: how rarely it may be mistaken."""
    return RIVER_DETECTORS[name](chance)


def library(part: str) -> ModuleType:
    """A part of the library, imported when it is first asked for."""
    try:
        return importlib.import_module(f"river.{part}")
    except ImportError as error:
        raise DureError(
            "the library river is not installed", "install it with `pip install '.[learn]'`"
        ) from error


@dataclass(slots=True)
class RiverChange:
    """ADWIN: a window whose halves differ by more than chance is cut."""

    chance: float = _CHANCE
    _model: Any = field(init=False)
    _before: float = math.nan

    def __post_init__(self) -> None:
        self._model = library("drift").ADWIN(delta=self.chance)

    def observe(self, value: float) -> Finding | None:
        """Take in a value; a finding when the window was cut."""
        if not math.isfinite(value):
            return None
        before = self._before
        self._model.update(value)
        self._before = float(self._model.estimation)
        if not self._model.drift_detected:
            return None
        return Finding(1.0 - self.chance, 1.0, before, self._before)


@dataclass(slots=True)
class RiverAnomaly:
    """Half-space trees over a value and its step from the one before, with a learned quantile."""

    chance: float = _CHANCE
    _model: Any = field(init=False)
    _scores: Any = field(init=False)
    _last: float | None = None
    _seen: int = 0

    def __post_init__(self) -> None:
        trees = library("anomaly").HalfSpaceTrees(n_trees=15, height=6, window_size=150, seed=_SEED)
        self._model = library("preprocessing").MinMaxScaler() | trees
        self._scores = library("stats").Quantile(1.0 - self.chance)

    def observe(self, value: float) -> Finding | None:
        """Take in a value; a finding if it is odder than nearly all before."""
        if not math.isfinite(value):
            return None
        before = self._last if self._last is not None else value
        features = {"value": value, "step": value - before}
        score = float(self._model.score_one(features))
        bound = self._scores.get() if self._seen > _WARM else None
        self._model.learn_one(features)
        self._scores.update(score)
        self._last = value
        self._seen += 1
        if bound is None or score <= bound:
            return None
        return Finding(1.0 - self.chance, score, before, value)


RIVER_DETECTORS: dict[str, type[RiverChange] | type[RiverAnomaly]] = {
    "river-adwin": RiverChange,
    "river-trees": RiverAnomaly,
}
