"""The ways containers share the GPU: one row of each table."""

from dataclasses import dataclass

from dure.bench.node.sets import MIXED, BenchSet

PLAIN, SERIAL = "plain", "one-after-another"
PAPER, PAPER_WINDOW = "paper", "paper-window"
DURE_AUTO, DURE_DOCKER, DURE_LOCK = "dure-auto", "dure-docker", "dure-lock"
DURE_SHIM = "dure-shim"


@dataclass(frozen=True, slots=True)
class Row:
    """One way of sharing."""

    name: str
    title: str
    strategy: str | None = None
    """The agent's; None: nobody manages the containers."""
    pause_with: str = "docker"
    serial: bool = False
    """The bench starts each container when the one before it is done."""
    shim: bool = False
    """Containers that can run under the shim do, as tenants of the agent."""


ROWS = {
    row.name: row
    for row in (
        Row(PLAIN, "plain sharing"),
        Row(DURE_LOCK, "Dure, CUDA lock", "dure", "cuda-lock"),
        Row(DURE_DOCKER, "Dure, docker pause", "dure", "docker"),
        Row(DURE_AUTO, "Dure, as it comes: lock and freezer", "dure", "auto"),
        Row(PAPER_WINDOW, "paper, one window between unpauses", "paper-window", "docker"),
        Row(PAPER, "paper, to the letter", "paper", "docker"),
        Row(SERIAL, "one after another", serial=True),
        Row(DURE_SHIM, "Dure, CUDA lock, server under the shim", "dure", "cuda-lock", shim=True),
    )
}
"""In the order in which they are measured: what has to be shown comes first."""


def rows_for(bench_set: BenchSet, wanted: tuple[str, ...] = ()) -> tuple[Row, ...]:
    """The rows of a set; those named alone, where some are."""
    return tuple(
        row
        for row in ROWS.values()
        if (not wanted or row.name in wanted) and (not row.shim or bench_set.name == MIXED)
    )
