"""What the rows were to show, and whether they did."""

from collections.abc import Iterator

from dure.bench.common.statistics import Estimate
from dure.bench.kernel.figures import RowFigures, ScenarioFigures
from dure.bench.kernel.rows import MPS, MPS_PRIORITY
from dure.bench.kernel.scenarios import LEAST_RELAXED_BEST_EFFORT, RELAXED_FACTOR
from dure.sim.benches.report import Verdict

LEAST_EFFICIENCY = 0.90
LEAST_RELAXED_ON_TIME = 0.99
LEAST_OF_MPS = 0.97

_JUDGED_PAIRS = ("a", "b")


def verdicts_of(figures: ScenarioFigures) -> list[Verdict]:
    """All verdicts on one scenario."""
    found: list[Verdict] = []
    if figures.scenario.promises:
        found += _slo(figures, "slo", judged=figures.scenario.name in _JUDGED_PAIRS)
        found += _slo(figures, "slo-mps", judged=False)
        found += _relaxed(figures)
    found += _hybrid(figures)
    found += [
        Verdict(
            f"{_name(figures)} p99 of {name} alone at the end over that before",
            f"{ratio:.3f}",
            passed=None,
        )
        for name, ratio in figures.again_p99_ms.items()
    ]
    return found


def _name(figures: ScenarioFigures) -> str:
    return f"({figures.scenario.name})"


def _ratio(estimate: Estimate) -> str:
    if estimate.repeats > 1:
        return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"
    return f"{estimate.value:.3f}"


def _slo(figures: ScenarioFigures, name: str, *, judged: bool) -> Iterator[Verdict]:
    row = figures.row(name)
    if row is None:
        if judged:
            yield _absent(figures, name)
        return
    factor = figures.scenario.slo_factor
    for tenant in row.tenants:
        if tenant.on_time.known:
            yield Verdict(
                f"{_name(figures)} {row.title}: p99 of {tenant.name} within {factor:g}× alone",
                f"{tenant.p99_ms.value:.2f} ms, target {tenant.target_ms:.2f} "
                f"({tenant.p99_ms.value / figures.alone[tenant.name].p99_ms.value:.2f}× alone)",
                tenant.p99_ms.value <= tenant.target_ms if judged else None,
            )
    least = figures.scenario.least_best_effort
    yield Verdict(
        f"{_name(figures)} {row.title}: best effort" + (f" ≥ {least:g}× alone" if least else ""),
        _ratio(row.best_effort),
        row.best_effort.value >= least if judged and least else None,
    )
    yield Verdict(
        f"{_name(figures)} {row.title}: efficiency"
        + (f" ≥ {LEAST_EFFICIENCY:g}" if judged else ""),
        _ratio(row.efficiency),
        row.efficiency.value >= LEAST_EFFICIENCY if judged else None,
    )


def _relaxed(figures: ScenarioFigures) -> Iterator[Verdict]:
    judged = figures.scenario.name in _JUDGED_PAIRS
    row = figures.row("slo5x-mps")
    if row is None:
        if judged:
            yield _absent(figures, "slo5x-mps")
        return
    for tenant in row.tenants:
        if tenant.on_time.known:
            yield Verdict(
                f"{_name(figures)} slo on mps, target {RELAXED_FACTOR:g}× alone: attainment of "
                f"{tenant.name} ≥ {LEAST_RELAXED_ON_TIME:.0%}",
                f"{tenant.on_time.value:.2%}",
                tenant.on_time.value >= LEAST_RELAXED_ON_TIME if judged else None,
            )
    yield Verdict(
        f"{_name(figures)} slo on mps, target {RELAXED_FACTOR:g}× alone: best effort "
        f"≥ {LEAST_RELAXED_BEST_EFFORT:g}× alone",
        _ratio(row.best_effort),
        row.best_effort.value >= LEAST_RELAXED_BEST_EFFORT if judged else None,
    )


def _hybrid(figures: ScenarioFigures) -> Iterator[Verdict]:
    """Above MPS with priority where something is promised, near MPS on saturated pairs."""
    promises = figures.scenario.promises
    reference = figures.row(MPS_PRIORITY if promises else MPS)
    for name in ("hybrid", "hybrid-mps"):
        row = figures.row(name)
        if row is None or reference is None:
            if name == "hybrid-mps":
                yield _absent(figures, f"{name} or its reference")
            continue
        judged = promises or name == "hybrid-mps"
        yield _goodput(figures, row, reference, judged=judged)


def _goodput(
    figures: ScenarioFigures, row: RowFigures, reference: RowFigures, *, judged: bool
) -> Verdict:
    found = f"{row.goodput.value:.3f} beside {reference.goodput.value:.3f}"
    if figures.scenario.promises:
        claim = f"{_name(figures)} {row.title}: weighted goodput above {reference.title}"
        return Verdict(
            claim, found, row.goodput.value > reference.goodput.value if judged else None
        )
    claim = f"{_name(figures)} {row.title}: weighted goodput"
    if judged:
        claim += f" ≥ {LEAST_OF_MPS:g}× that of MPS"
    passed = row.goodput.value >= LEAST_OF_MPS * reference.goodput.value
    return Verdict(claim, found, passed if judged else None)


def _absent(figures: ScenarioFigures, what: str) -> Verdict:
    why = figures.failed.get(what, "not measured")
    return Verdict(f"{_name(figures)} row {what} was measured", why, passed=False)
