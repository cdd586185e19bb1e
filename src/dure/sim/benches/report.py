"""What a bench found: tables to read, verdicts on what was to be shown, and data for programs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any

Tell = Callable[[str, float], None]
"""Told what is being done, and the share of the whole bench that is over."""


def silent(_what: str, _share: float) -> None:
    """Nobody wants to know how far a bench is."""


@dataclass(frozen=True, slots=True)
class Grid:
    """One table; the first column names the row, the others hold figures."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One thing that was to be shown, and what came out."""

    claim: str
    found: str
    passed: bool | None
    """None: reported only, nothing was promised."""

    @property
    def word(self) -> str:
        """The outcome in a word."""
        if self.passed is None:
            return "note"
        return "pass" if self.passed else "FAIL"


@dataclass(frozen=True, slots=True)
class BenchReport:
    """A finished bench."""

    name: str
    title: str
    about: str
    """What was run and how its figures are meant, in a paragraph."""
    grids: tuple[Grid, ...]
    verdicts: tuple[Verdict, ...]
    simulated: bool = True
    """False: the wall time of this machine is the figure."""
    subject: str = "GPU"
    """What is simulated."""
    measured_on: str = ""
    """The real machine the figures come from, where nothing is simulated."""
    figures: dict[str, Any] = field(default_factory=dict)
    """Every figure, for programs."""

    def data(self) -> dict[str, Any]:
        """Everything as plain data; what is not a finite number is None."""
        verdicts = [
            {"claim": verdict.claim, "found": verdict.found, "passed": verdict.passed}
            for verdict in self.verdicts
        ]
        plain: dict[str, Any] = _plain(
            {
                "bench": self.name,
                "title": self.title,
                "simulated": self.simulated and not self.measured_on,
                **self.figures,
                "verdicts": verdicts,
            }
        )
        return plain


def number(value: float | None, digits: int = 1) -> str:
    """A figure for a table; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.{digits}f}"


def percent(share: float | None, digits: int = 1) -> str:
    """A share for a table, in per cent."""
    return "–" if share is None else f"{number(100.0 * share, digits)} %"


def mean(values: Sequence[float]) -> float:
    """The mean; not a number where there is nothing."""
    return sum(values) / len(values) if values else math.nan


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
