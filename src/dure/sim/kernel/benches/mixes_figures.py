"""The figures of made mixes: what every mode gave on every mix."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModeFigures:
    """One mode on one mix."""

    mode: str
    mean_jct_s: float
    weighted_goodput: float
    jain_index: float
    worst_late_share: float
    """Of the tenants with a latency target, the largest share of requests over it."""
    bubble_share: float
    protected_idle_share: float
    decision_us_median: float | None


@dataclass(frozen=True, slots=True)
class MixFigures:
    """One mix under all modes."""

    seed: int
    tenants: int
    demand: float
    feasible: bool
    promised_late_share: float
    """Worst late share of the SLO tenants among themselves, in the mode that does best by it."""
    promised_mode: str
    modes: tuple[ModeFigures, ...]

    def of(self, mode: str) -> ModeFigures:
        """The figures of a mode."""
        return next(figures for figures in self.modes if figures.mode == mode)
