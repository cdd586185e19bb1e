"""`dure bench pairs`: the H200 pairs simulated, next to what was measured on the real GPU."""

from collections.abc import Sequence
from dataclasses import dataclass

from dure.sim.benches.pool import spread
from dure.sim.benches.report import (
    BenchReport,
    Grid,
    Tell,
    Verdict,
    mean,
    number,
    percent,
    silent,
)
from dure.sim.kernel.benches import pairs_measured as measured
from dure.sim.kernel.benches.pairs_bound import most_beside
from dure.sim.kernel.benches.pairs_measured import Measured, MeasuredRates
from dure.sim.kernel.benches.pairs_run import Case, Figures, run_case

FITTED_PAIR, CHECKED_PAIR = "a", "b"
_BE_ERROR = 0.15
_P99_ERROR = 0.30
_ALIKE = 1.05
"""Rows measured within this factor of each other are in no order: one run of each was made, and
another recording of the same rows differs by more."""


@dataclass(frozen=True, slots=True)
class PairRow:
    """One measured row and its simulation, means over seeds."""

    measured: Measured
    p99_ms: float
    hp_per_s: float
    be_per_s: float
    diverging_seeds: int
    seeds: int

    @property
    def diverges(self) -> bool:
        return 2 * self.diverging_seeds > self.seeds

    @property
    def p99_ratio(self) -> float:
        return self.p99_ms / self.measured.p99_ms

    @property
    def be_ratio(self) -> float | None:
        return self.be_per_s / self.measured.be_per_s if self.measured.be_per_s else None


@dataclass(frozen=True, slots=True)
class RateRow:
    """Recorded closed-loop rates and their simulation."""

    measured: MeasuredRates
    hp_per_s: float
    be_per_s: float | None


def bench_pairs(
    seeds: Sequence[int],
    *,
    run_s: float = measured.RUN_S,
    workers: int = 1,
    tell: Tell = silent,
) -> BenchReport:
    """Simulate every measured row for every seed, and the closed-loop rates once."""
    rates = measured.closed_loop_rates()
    cases = [Case(row.pair, row.row, seed, run_s=run_s) for row in measured.ROWS for seed in seeds]
    closed = [Case(row.pair, row.row, closed=True, run_s=run_s) for row in rates]
    figures = spread(
        run_case,
        [*cases, *closed],
        workers=workers,
        tell=tell,
        name=lambda case: f"({case.pair}) {case.row}",
    )
    count = len(seeds)
    rows = [
        _pair_row(row, figures[index * count : (index + 1) * count])
        for index, row in enumerate(measured.ROWS)
    ]
    rate_rows = [
        RateRow(rate, found.hp_per_s, None if rate.be_per_s is None else found.be_per_s)
        for rate, found in zip(rates, figures[len(cases) :], strict=True)
    ]
    return _report(rows, rate_rows, seeds)


def _pair_row(row: Measured, found: Sequence[Figures]) -> PairRow:
    return PairRow(
        row,
        p99_ms=mean([figures.p99_ms for figures in found]),
        hp_per_s=mean([figures.hp_per_s for figures in found]),
        be_per_s=mean([figures.be_per_s for figures in found]),
        diverging_seeds=sum(figures.diverges for figures in found),
        seeds=len(found),
    )


def _report(rows: list[PairRow], rates: list[RateRow], seeds: Sequence[int]) -> BenchReport:
    return BenchReport(
        name="pairs",
        title="H200 pairs: simulated next to measured",
        about=(
            "A service (HP, Poisson arrivals at half of what it can serve alone) beside training "
            f"(BE, closed loop). Pair (a): {measured.HP_MODELS['a']}, pair (b): "
            f"{measured.HP_MODELS['b']}. Simulated figures are means over {len(seeds)} draws of "
            "arrivals. One parameter set for all rows, fitted on pair (a) except for the "
            "context-switch split, see README.md beside; how long a "
            "request and a training step take alone is an input for both pairs. Where the queue "
            "diverges, p99 grows with the run and says only that it does.\n\n"
            f"Measured: {measured.SOURCE}. Closed-loop rates: {measured.CLOSED_SOURCE}."
        ),
        grids=(
            *(_grid(pair, [row for row in rows if row.measured.pair == pair]) for pair in "ab"),
            _rate_grid(rates),
        ),
        verdicts=(*_verdicts(rows), *_bounds([rate.measured for rate in rates])),
        figures={
            "seeds": list(seeds),
            "rows": [
                {**_data(row.measured), "simulated": row, "diverges": row.diverges} for row in rows
            ],
            "closed_loop": rates,
        },
    )


def _data(row: Measured) -> dict[str, object]:
    return {"pair": row.pair, "row": row.row}


def _grid(pair: str, rows: list[PairRow]) -> Grid:
    role = "fitted" if pair == FITTED_PAIR else "not fitted"
    return Grid(
        f"Pair ({pair}), {role}",
        (
            "sharing",
            "p99 ms measured",
            "simulated",
            "ratio",
            "measured",
            "simulated",
            "BE it/s measured",
            "simulated",
            "ratio",
        ),
        tuple(
            (
                row.measured.row,
                number(row.measured.p99_ms),
                number(row.p99_ms),
                number(row.p99_ratio, 2),
                _state(row.measured.diverges),
                _state(row.diverges),
                number(row.measured.be_per_s),
                number(row.be_per_s if row.measured.be_per_s else None),
                number(row.be_ratio, 2),
            )
            for row in rows
        ),
    )


def _state(diverges: bool) -> str:
    return "diverges" if diverges else "stable"


def _rate_grid(rates: list[RateRow]) -> Grid:
    return Grid(
        "Closed loops: service rates",
        (
            "pair and sharing",
            "HP/s measured",
            "simulated",
            "ratio",
            "BE it/s measured",
            "simulated",
            "ratio",
        ),
        tuple(
            (
                f"({rate.measured.pair}) {rate.measured.row}",
                number(rate.measured.hp_per_s),
                number(rate.hp_per_s),
                number(rate.hp_per_s / rate.measured.hp_per_s, 2),
                number(rate.measured.be_per_s),
                number(rate.be_per_s),
                number(
                    rate.be_per_s / rate.measured.be_per_s
                    if rate.be_per_s is not None and rate.measured.be_per_s
                    else None,
                    2,
                ),
            )
            for rate in rates
        ),
    )


def _verdicts(rows: list[PairRow]) -> tuple[Verdict, ...]:
    found: list[Verdict] = []
    for pair in "ab":
        own = [row for row in rows if row.measured.pair == pair]
        found += [*_order(pair, own), _unstable(pair, own)]
    checked = [row for row in rows if row.measured.pair == CHECKED_PAIR]
    best_effort = [(row, abs(row.be_ratio - 1.0)) for row in checked if row.be_ratio is not None]
    gated = [
        (row, abs(row.p99_ratio - 1.0)) for row in checked if row.measured.row in measured.GATED
    ]
    found += [
        _worst(f"BE throughput on ({CHECKED_PAIR})", best_effort, _BE_ERROR),
        _worst(f"gated p99 on ({CHECKED_PAIR})", gated, _P99_ERROR),
    ]
    return (*found, _over_solo(checked))


def _order(pair: str, rows: list[PairRow]) -> list[Verdict]:
    """Whether every two stable rows come in the measured order; once more without near ties."""
    stable = sorted(
        (row for row in rows if not row.measured.diverges), key=lambda row: row.measured.p99_ms
    )
    claim = f"stable rows of ({pair}) in the measured order of p99"
    swapped = _swapped(stable, 1.0)
    found = [Verdict(claim, "; ".join(swapped) or "all in order", not swapped)]
    clear = _swapped(stable, _ALIKE)
    if len(clear) < len(swapped):
        claim += f", rows measured within {_ALIKE - 1.0:.0%} of each other left out"
        found.append(Verdict(claim, "; ".join(clear) or "all in order", not clear))
    return found


def _swapped(ordered: list[PairRow], alike: float) -> list[str]:
    """Pairs of rows in the wrong order, those measured alike left out."""
    return [
        f"'{low.measured.row}' ({low.p99_ms:.1f}) is not below '{high.measured.row}' "
        f"({high.p99_ms:.1f})"
        for index, low in enumerate(ordered)
        for high in ordered[index + 1 :]
        if high.measured.p99_ms > alike * low.measured.p99_ms and low.p99_ms >= high.p99_ms
    ]


def _unstable(pair: str, rows: list[PairRow]) -> Verdict:
    wrong = [row.measured.row for row in rows if row.diverges != row.measured.diverges]
    count = sum(row.measured.diverges for row in rows)
    claim = f"the {count} unstable rows of ({pair}) diverge, the others do not"
    return Verdict(claim, f"otherwise: {', '.join(wrong)}" if wrong else "as measured", not wrong)


def _worst(what: str, errors: list[tuple[PairRow, float]], limit: float) -> Verdict:
    row, error = max(errors, key=lambda pair: pair[1])
    return Verdict(
        f"{what} within {limit:.0%} of measured",
        f"worst {percent(error)} ('{row.measured.row}')",
        error <= limit,
    )


def _over_solo(rows: list[PairRow]) -> Verdict:
    """Tails over the tail alone: the luck of one measured draw of arrivals divided out."""
    solo = next(row for row in rows if row.measured.row == measured.SOLO)
    parts = [
        f"{row.measured.row}: {row.p99_ms / solo.p99_ms:.2f} "
        f"(measured {row.measured.p99_ms / solo.measured.p99_ms:.2f})"
        for row in rows
        if row.measured.row in (*measured.GATED, measured.GREEN)
    ]
    return Verdict(f"p99 over p99 alone on ({CHECKED_PAIR})", "; ".join(parts), None)


def _bounds(rates: Sequence[MeasuredRates]) -> list[Verdict]:
    """What no mix of the measured ways of sharing can exceed."""
    found = []
    for pair in "ab":
        bound = most_beside([rate for rate in rates if rate.pair == pair])
        mix = " and ".join(f"{part:.0%} {way}" for way, part in bound.mix)
        claim = f"measured rates of ({pair}): most best effort while the service's queue is bounded"
        found.append(Verdict(claim, f"below {bound.speed:.3f} of that alone, by {mix}", None))
    return found
