"""A comparison laid out as sheets of judged figures, one mode a row; terminal and HTML draw them.

First what counts for each tenant, then the device, then every tenant in detail.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from dure.domain.units import format_duration
from dure.sim.figures import NOTHING, percent, whole
from dure.sim.kernel.compare import Comparison, ModeRun
from dure.sim.kernel.load import TenantLoad
from dure.sim.kernel.verdicts import figure_of, headline, promise_kept

_MOST_OVERVIEW_TENANTS = 5
"""Beyond that the overview would be wider than a terminal of 100 columns."""


class Tone(Enum):
    """What is to be said of a figure, and the mark that says it without colour."""

    PLAIN = ""
    BEST = "*"
    GROWING = "↗"
    MISSED = "✗"
    MISSED_AND_GROWING = "✗↗"


LEGEND = (
    (Tone.BEST, "best"),
    (Tone.MISSED, "promise missed"),
    (Tone.GROWING, "queue grows without end"),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure."""

    text: str
    tone: Tone = Tone.PLAIN
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """One measure over all modes."""

    title: str
    """In at most two lines."""
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table."""

    title: str
    modes: tuple[str, ...]
    baselines: int
    """How many rows from the top have no policy; the rest is Dure."""
    columns: tuple[Column, ...]


_Better = Callable[..., str]
"""`min` or `max`, whichever is better."""


def sheets(comparison: Comparison) -> tuple[Sheet, ...]:
    """All sheets in the order to read them."""
    loads = comparison.scenario.setting.loads
    return (
        overview(comparison),
        device(comparison),
        *(tenant(comparison, index) for index in range(len(loads))),
    )


def figure(value: float | None) -> str:
    """A number with about three digits."""
    if value is None:
        return NOTHING
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 or value == 0 else f"{value:.3f}"


def describe_tenant(load: TenantLoad) -> str:
    """A tenant's rank and promises in a few words."""
    slo, words = load.tenant.slo, [load.tenant.tenant_class.value]
    if slo.latency is not None:
        target = format_duration(slo.latency.target_ns)
        words.append(f"p{slo.latency.percentile:g} ≤ {target}")
    if slo.throughput is not None:
        words.append(f"≥ {slo.throughput.items_per_s:g}/s")
    if slo.availability is not None:
        words.append(f"available {percent(slo.availability.share)}")
    if load.tenant.weight != 1.0:
        words.append(f"weight {load.tenant.weight:g}")
    return ", ".join(words)


def overview(comparison: Comparison) -> Sheet:
    """The figure that counts for each tenant, promises kept, and the sums over all."""
    runs, loads = comparison.runs, comparison.scenario.setting.loads
    columns = []
    if len(loads) <= _MOST_OVERVIEW_TENANTS:
        for index, load in enumerate(loads):
            wanted = headline(load)
            cells = [_judged(run, index, load, wanted.field) for run in runs]
            better: _Better = min if wanted.less_is_better else max
            columns.append(_column(f"{load.tenant.id}\n{wanted.label}", cells, better))
    if any(load.tenant.slo for load in loads):
        columns.append(_column("SLOs\nkept", [_promises(run, loads) for run in runs]))
    columns.append(_completion("mean\n", [run.result.mean_jct_s for run in runs]))
    for title, field in (("weighted\ngoodput", "weighted_goodput"), ("Jain\nindex", "jain_index")):
        values = [getattr(run.result, field) for run in runs]
        columns.append(_column(title, _plain(values, figure), max))
    return _sheet("What counts", comparison, columns)


def device(comparison: Comparison) -> Sheet:
    """How the GPU itself fared."""
    results = [run.result for run in comparison.runs]
    columns = (
        _column("used", _plain((r.utilisation for r in results), percent)),
        _column("bubbles", _plain((r.bubble_share for r in results), percent), min),
        _column("idle for\na promise", _plain((r.protected_idle_share for r in results), percent)),
        _column("squads", _plain((r.squads or None for r in results), whole)),
        _column("plans", _plain((r.plans or None for r in results), whole)),
        _column("decision\nµs", _plain((r.decision_us_median for r in results), figure)),
        _column("pred.\nerror", _plain((r.prediction_error for r in results), percent)),
        _column("kernels", _plain((r.kernels for r in results), whole)),
    )
    return _sheet("The GPU", comparison, columns)


_TENANT_COLUMNS: tuple[tuple[str, str, Callable[[float | None], str], _Better | None], ...] = (
    ("p50 ms", "p50_ms", figure, min),
    ("p95 ms", "p95_ms", figure, min),
    ("p99 ms", "p99_ms", figure, min),
    ("it/s", "throughput_per_s", figure, max),
    ("JCT", "mean_jct_s", figure, min),
    ("SLO", "slo_attainment", percent, None),
    ("of solo", "goodput", percent, max),
    ("held", "gated_share", percent, None),
)
_JUDGED_FIELDS = ("p99_ms", "slo_attainment")


def tenant(comparison: Comparison, index: int) -> Sheet:
    """Everything about one tenant."""
    load, runs = comparison.scenario.setting.loads[index], comparison.runs
    columns = []
    for title, field, show, better in _TENANT_COLUMNS:
        if field == "mean_jct_s":
            columns.append(_completion("", [r.result.tenants[index].mean_jct_s for r in runs]))
        elif field in _JUDGED_FIELDS:
            if field == "slo_attainment" and not load.tenant.slo:
                continue
            cells = [_judged(run, index, load, field, show) for run in runs]
            columns.append(_column(title, cells, better))
        else:
            values = [figure_of(run.result.tenants[index], field) for run in runs]
            columns.append(_column(title, _plain(values, show), better))
    columns.append(_column("done", [_done(run, index) for run in runs]))
    alone = figure(comparison.alone[index].p99_ms)
    title = f"{load.tenant.id}: {describe_tenant(load)}; alone p99 {alone} ms"
    return _sheet(title, comparison, columns)


def _sheet(title: str, comparison: Comparison, columns: Sequence[Column]) -> Sheet:
    policies = [run.outcome.mode.policy for run in comparison.runs]
    baselines = next((i for i, policy in enumerate(policies) if policy), len(policies))
    modes = tuple(run.result.mode for run in comparison.runs)
    return Sheet(title, modes, baselines, tuple(columns))


def _column(title: str, cells: Sequence[Cell], better: _Better | None = None) -> Column:
    """A column with its best sound cells marked, where they differ as shown."""
    sound = {
        cell.text: cell.value
        for cell in cells
        if cell.value is not None and cell.tone is Tone.PLAIN
    }
    if better is None or len(sound) < 2:
        return Column(title, tuple(cells))
    best = better(sound, key=lambda text: sound[text])
    return Column(
        title,
        tuple(
            Cell(cell.text, Tone.BEST, cell.value)
            if cell.text == best and cell.tone is Tone.PLAIN
            else cell
            for cell in cells
        ),
    )


def _plain(values: Iterable[float | None], show: Callable[[float | None], str]) -> list[Cell]:
    return [Cell(show(value), value=value) for value in values]


def _judged(
    run: ModeRun,
    index: int,
    load: TenantLoad,
    field: str,
    show: Callable[[float | None], str] = figure,
) -> Cell:
    """A tenant's figure with what is wrong about it."""
    result = run.result.tenants[index]
    missed = promise_kept(load, result) is False
    tone = Tone.MISSED if missed else Tone.PLAIN
    if run.diverging[index]:
        tone = Tone.MISSED_AND_GROWING if missed else Tone.GROWING
    value = figure_of(result, field)
    return Cell(show(value), tone, value)


def _promises(run: ModeRun, loads: Sequence[TenantLoad]) -> Cell:
    verdicts = [
        promise_kept(load, result)
        for load, result in zip(loads, run.result.tenants, strict=True)
        if load.tenant.slo
    ]
    judged = [verdict for verdict in verdicts if verdict is not None]
    if not judged:
        return Cell(NOTHING)
    tone = Tone.PLAIN if all(judged) else Tone.MISSED
    return Cell(f"{sum(judged)} of {len(verdicts)}", tone)


def _completion(before: str, values_s: Sequence[float]) -> Column:
    """Completion times in seconds, or in milliseconds where all are short."""
    factor, unit = (1.0, "s") if max(values_s, default=0.0) >= 1.0 else (1e3, "ms")
    cells = [Cell(figure(value * factor), value=value) for value in values_s]
    return _column(f"{before}JCT {unit}", cells, min)


def _done(run: ModeRun, index: int) -> Cell:
    """Requests or jobs that finished, and how many did not."""
    result = run.result.tenants[index]
    left = f" (+{result.unfinished:,})" if result.unfinished else ""
    return Cell(f"{result.jobs:,}{left}")
