"""The Philly trace: jobs of a shared training cluster, as the list of Sia's artefacts has them.

One row a job: `timestamp` (submission), `duration` in seconds on the GPUs it had, `num_gpus`,
`gpu_time` and `cluster` (the virtual cluster, that is the group of users, it was submitted to).
"""

import datetime
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dure.domain.errors import InputError
from dure.domain.units import NS_PER_S
from dure.sim.fleet.csv_files import read_csv

DEFAULT_FILE = "sia/traces/philly.csv"
"""Below the data folder."""
MEASURED_ON = "p100"
"""Most of the machines the trace was recorded on had GPUs of that generation."""
PHILLY_START_NS = 1_506_816_000 * NS_PER_S
"""2017-10-01 00:00 UTC: the month with most jobs."""
LONGEST_S = 366 * 86_400.0
"""A job of a trace that ran for more than a year is a mistake, not a job."""
_SHORTEST_S = 1e-3
_MOST_DEVICES = 1_000_000
"""As many as the largest fleet may have."""
_COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")


@dataclass(frozen=True, slots=True)
class JobTrace:
    """Jobs in order of arrival, in columns."""

    submitted_s: NDArray[np.float64]
    """Since the start of the chosen window."""
    duration_s: NDArray[np.float64]
    """On the devices it asks for."""
    devices: NDArray[np.int64]
    groups: tuple[str, ...]
    """Who submitted it; one for each job."""

    def __len__(self) -> int:
        return len(self.submitted_s)

    def taken(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> "JobTrace":
        """Some of the jobs."""
        numbers = np.arange(len(self))[rows]
        return JobTrace(
            self.submitted_s[numbers],
            self.duration_s[numbers],
            self.devices[numbers],
            tuple(self.groups[number] for number in numbers),
        )


def read_philly(path: Path, start: datetime.datetime, length_s: float) -> JobTrace:
    """Jobs submitted within a window; every row of the file is checked, also outside of it."""
    file = read_csv(path, _COLUMNS)
    submitted = np.array(
        [(moment - start).total_seconds() for moment in file.times("timestamp")], dtype=np.float64
    )
    duration = np.array(file.numbers("duration", least=_SHORTEST_S, most=LONGEST_S))
    devices = np.array(file.counts("num_gpus", least=1, most=_MOST_DEVICES), dtype=np.int64)
    names = file.index("cluster")
    inside = np.flatnonzero((submitted >= 0.0) & (submitted < length_s))
    if not len(inside):
        raise InputError(
            f"has no job in the {length_s / 3600:g} hours from {start:%Y-%m-%d %H:%M}",
            "choose another `from`",
            file=str(path),
        )
    ordered = inside[np.argsort(submitted[inside], kind="stable")]
    return JobTrace(
        submitted[ordered],
        duration[ordered],
        devices[ordered],
        tuple(file.rows[row][names] for row in ordered),
    )
