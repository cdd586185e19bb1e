"""The rows: ways of sharing the GPU that every scenario is run under."""

from dataclasses import dataclass
from enum import Enum

from dure.bench.kernel.scenarios import RELAXED_FACTOR, BenchScenario


class Substrate(Enum):
    """What a worker process runs on; it keeps it for its life."""

    PLAIN = "plain"
    MPS = "mps"
    DURE_ISOLATED = "dure-isolated"
    DURE_MPS = "dure-mps"

    @property
    def managed(self) -> bool:
        return self in {Substrate.DURE_ISOLATED, Substrate.DURE_MPS}


@dataclass(frozen=True, slots=True)
class Row:
    """One way of sharing."""

    name: str
    title: str
    substrate: Substrate
    best_effort_env: tuple[tuple[str, str], ...] = ()
    """Further environment of best-effort processes."""
    policy: str = ""
    slo_factor: float | None = None
    """Latency target as a multiple of the p99 alone; None: the scenario's."""
    needs_promise: bool = False
    """Means nothing where nobody was promised anything."""

    def applies(self, scenario: BenchScenario) -> bool:
        return scenario.promises or not self.needs_promise

    def factor(self, scenario: BenchScenario) -> float:
        """The latency target it is judged by, as a multiple of the p99 alone; 0: none."""
        if not scenario.promises:
            return 0.0
        return scenario.slo_factor if self.slo_factor is None else self.slo_factor


SOLO, TIME_SLICE, MPS, MPS_PRIORITY, MPS_HALF = (
    "solo",
    "time-slice",
    "mps",
    "mps-priority",
    "mps-half",
)

ROWS = {
    row.name: row
    for row in (
        Row(TIME_SLICE, "time-slicing, the default", Substrate.PLAIN),
        Row(MPS, "MPS", Substrate.MPS),
        Row(
            MPS_PRIORITY,
            "MPS + client priority",
            Substrate.MPS,
            (("CUDA_MPS_CLIENT_PRIORITY", "1"),),  # 0 is normal, 1 below normal
            needs_promise=True,
        ),
        Row(
            MPS_HALF,
            "MPS, best effort limited to 50 %",
            Substrate.MPS,
            (("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50"),),
            needs_promise=True,
        ),
        Row("slo", "Dure slo, isolated", Substrate.DURE_ISOLATED, (), "slo", needs_promise=True),
        Row(
            "hybrid", "Dure hybrid, isolated", Substrate.DURE_ISOLATED, (), "hybrid", RELAXED_FACTOR
        ),
        Row("jct", "Dure jct, isolated", Substrate.DURE_ISOLATED, (), "jct", RELAXED_FACTOR),
        Row("slo-mps", "Dure slo, mps", Substrate.DURE_MPS, (), "slo", needs_promise=True),
        Row(
            "slo5x-mps",
            f"Dure slo, mps, target {RELAXED_FACTOR:g}× alone",
            Substrate.DURE_MPS,
            (),
            "slo",
            RELAXED_FACTOR,
            needs_promise=True,
        ),
        Row("hybrid-mps", "Dure hybrid, mps", Substrate.DURE_MPS, (), "hybrid", RELAXED_FACTOR),
        Row("jct-mps", "Dure jct, mps", Substrate.DURE_MPS, (), "jct", RELAXED_FACTOR),
    )
}


def rows_for(scenario: BenchScenario, names: tuple[str, ...] = ()) -> list[Row]:
    """The rows of a scenario, all or those named, in the order of the table."""
    return [
        row for row in ROWS.values() if row.applies(scenario) and (not names or row.name in names)
    ]
