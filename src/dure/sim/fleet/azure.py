"""The Azure LLM inference trace: requests with the tokens they bring and want, as load shapes."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dure.domain.errors import InputError
from dure.sim.fleet.csv_files import read_csv

DEFAULT_FILE = "azure-llm/AzureLLMInferenceTrace_code.csv"
"""Below the data folder."""
_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


@dataclass(frozen=True, slots=True)
class RequestTrace:
    """Requests in order of arrival, in columns."""

    arrival_s: NDArray[np.float64]
    """Since the first one."""
    context_tokens: NDArray[np.int64]
    generated_tokens: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def length_s(self) -> float:
        """From the first request to the last."""
        return float(self.arrival_s[-1])

    def burst_profile(self, step_s: float) -> NDArray[np.float64]:
        """Requests of each step over the mean: how unevenly requests come; the mean is 1."""
        steps = max(1, int(self.length_s // step_s))
        edges = np.arange(steps + 1) * step_s
        counts, _ = np.histogram(self.arrival_s, edges)
        return np.asarray(counts / max(counts.mean(), 1e-12), dtype=np.float64)


def read_azure(path: Path) -> RequestTrace:
    """Read the trace; the rows need not be in order."""
    file = read_csv(path, _COLUMNS)
    times = file.times("TIMESTAMP")
    if len(times) < 2 or max(times) == min(times):
        raise InputError("holds no stretch of time", "give requests over time", file=str(path))
    first = min(times)
    arrival = np.array([(moment - first).total_seconds() for moment in times], dtype=np.float64)
    order = np.argsort(arrival, kind="stable")
    return RequestTrace(
        arrival[order],
        np.array(file.counts("ContextTokens", least=0), dtype=np.int64)[order],
        np.array(file.counts("GeneratedTokens", least=0), dtype=np.int64)[order],
    )
