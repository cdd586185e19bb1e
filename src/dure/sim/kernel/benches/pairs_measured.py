"""The measured side of the H200 pairs: two tenants on one real GPU, under ways of sharing.

Source of `ROWS`: the table of level 1 in the design (one H200, driver 580, CUDA 13.0): a single
run of 7 to 8 s each, so tails of stable rows carry the luck of one draw of arrivals. Source of
the closed-loop rates: `recordings/pairs.json`, made by `bench/record_kernels.py`; it says when
and on what.
"""

from dataclasses import dataclass

from dure.sim.kernel.models import recording

SOURCE = "design table of level 1: one H200, driver 580, CUDA 13.0, one run of 7–8 s a row"
CLOSED_SOURCE = "src/dure/sim/kernel/recordings/pairs.json, made by bench/record_kernels.py"

RUN_S = 7.5
"""Length of a run: the measured ones took 7 to 8 s."""
HP_MODELS = {"a": "encoder-infer", "b": "resnet50-infer"}
HP_REQUEST_MS = {"a": 2.72, "b": 1.03}
"""A request alone, launch to answer."""
HP_LOAD = 0.5
"""Arrivals over what the tenant can serve alone."""
BE_MODEL = "resnet50-train"
BE_SYNC_EVERY = 4
BE_ALONE_PER_S = 33.8

SOLO = "alone"
TIME_SLICE = "time-slicing"
MPS = "MPS"
MPS_PRIORITY = "MPS + client priority"
MPS_HALF = "MPS, BE limited to 50 %"
GATE_8 = "gate, no MPS, event every 8"
GATE_2 = "gate, no MPS, event every 2"
GATE_8_MPS = "gate, MPS, event every 8"
GREEN = "MPS, BE on 64 SMs while HP is busy"

GATED = (GATE_8, GATE_2, GATE_8_MPS)


@dataclass(frozen=True, slots=True)
class Measured:
    """One cell pair of the measured table."""

    pair: str
    row: str
    p99_ms: float
    be_per_s: float | None = None
    diverges: bool = False


ROWS = (
    Measured("a", SOLO, 10.6),
    Measured("a", TIME_SLICE, 2120.0, 18.3, diverges=True),
    Measured("a", MPS, 2519.0, 25.5, diverges=True),
    Measured("a", MPS_PRIORITY, 139.0, 19.7),
    Measured("a", MPS_HALF, 101.0, 18.1),
    Measured("a", GATE_8, 13.9, 14.3),
    Measured("a", GATE_2, 12.4, 13.3),
    Measured("a", GATE_8_MPS, 12.6, 14.1),
    Measured("a", GREEN, 36.0, 16.4),
    Measured("b", SOLO, 4.9),
    Measured("b", TIME_SLICE, 2760.0, 20.5, diverges=True),
    Measured("b", MPS, 3831.0, 30.6, diverges=True),
    Measured("b", MPS_PRIORITY, 2405.0, 27.6, diverges=True),
    Measured("b", GATE_2, 6.6, 11.5),
    Measured("b", GATE_8_MPS, 7.8, 12.7),
    Measured("b", GREEN, 23.8, 20.1),
)


@dataclass(frozen=True, slots=True)
class MeasuredRates:
    """Service rates with both tenants in closed loops: no luck of arrivals in them."""

    pair: str
    row: str
    hp_per_s: float
    be_per_s: float | None


_RECORDED_NAMES = {
    "solo time-slice": SOLO,
    "time-slice": TIME_SLICE,
    "mps": MPS,
    "mps-priority": MPS_PRIORITY,
    "mps-half": MPS_HALF,
}


def closed_loop_rates() -> tuple[MeasuredRates, ...]:
    """The recorded closed-loop rates of both pairs, in the order of the rows."""
    found = [
        MeasuredRates(
            row["pair"], _RECORDED_NAMES[row["sharing"]], row["hp_per_s"], row.get("be_per_s")
        )
        for row in recording("pairs")["rows"]
        if row["load"] == "closed" and "hp_per_s" in row and row["sharing"] in _RECORDED_NAMES
    ]
    return tuple(sorted(found, key=lambda rates: rates.pair))
