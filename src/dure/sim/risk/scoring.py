"""How good alarms are: precision, recall, delay after the onset, lead before the harm."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Judged:
    """The alarms of one run beside the truth; times in seconds from its start."""

    alarms_s: tuple[float, ...]
    """When each began."""
    onset_s: float | None
    """When trouble began; None: there was none."""
    violation_s: float | None
    """When harm was done, where there was any."""
    length_s: float
    early_s: float = 0.0
    """How long before the onset an alarm is no false one."""
    late_s: float = 0.0
    """How long after the onset, or the harm where there is a time for that, one still counts."""

    @property
    def hit_s(self) -> float | None:
        """The first alarm that saw the trouble."""
        if self.onset_s is None:
            return None
        harm_s = self.violation_s if self.violation_s is not None else self.onset_s
        last = harm_s + self.late_s
        first = self.onset_s - self.early_s
        return next((at for at in self.alarms_s if first <= at <= last), None)

    @property
    def false_alarms(self) -> int:
        """Alarms before any trouble; what is said once it is there is not false."""
        end = self.length_s + 1.0 if self.onset_s is None else self.onset_s - self.early_s
        return sum(at < end for at in self.alarms_s)

    @property
    def quiet_s(self) -> float:
        """Time in which an alarm would have been false."""
        return self.length_s if self.onset_s is None else max(0.0, self.onset_s - self.early_s)


@dataclass(frozen=True, slots=True)
class Score:
    """Over many runs."""

    detector: str
    runs: int
    troubles: int
    hits: int
    false_alarms: int
    quiet_s: float
    delay_s: float | None
    """Median from the onset to the alarm."""
    lead_s: float | None
    """Median from the alarm to the harm."""

    @property
    def precision(self) -> float | None:
        """Share of alarms that were right."""
        told = self.hits + self.false_alarms
        return self.hits / told if told else None

    @property
    def recall(self) -> float | None:
        """Share of troubles that were seen in time."""
        return self.hits / self.troubles if self.troubles else None

    @property
    def false_per_hour(self) -> float | None:
        """False alarms in an hour without trouble."""
        return self.false_alarms * 3600.0 / self.quiet_s if self.quiet_s else None

    @property
    def balance(self) -> float:
        """Harmonic mean of precision and recall."""
        precision, recall = self.precision or 0.0, self.recall or 0.0
        return 2.0 * precision * recall / (precision + recall) if precision + recall else 0.0


def score(detector: str, runs: Sequence[Judged]) -> Score:
    """Sum up."""
    hits = [(run, at) for run in runs if (at := run.hit_s) is not None]
    return Score(
        detector=detector,
        runs=len(runs),
        troubles=sum(run.onset_s is not None for run in runs),
        hits=len(hits),
        false_alarms=sum(run.false_alarms for run in runs),
        quiet_s=sum(run.quiet_s for run in runs),
        delay_s=_median(at - run.onset_s for run, at in hits if run.onset_s is not None),
        lead_s=_median(run.violation_s - at for run, at in hits if run.violation_s is not None),
    )


def episodes(on: Iterable[tuple[float, bool]], hold_s: float) -> tuple[float, ...]:
    """When alarms begin: what is on again within `hold_s` is the same one."""
    starts: list[float] = []
    last = -float("inf")
    for at, active in on:
        if active:
            if at - last > hold_s:
                starts.append(at)
            last = at
    return tuple(starts)


def _median(values: Iterable[float]) -> float | None:
    listed = list(values)
    return statistics.median(listed) if listed else None
