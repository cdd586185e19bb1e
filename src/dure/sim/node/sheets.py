"""A container comparison laid out as sheets of figures; terminal and reports draw them."""

from collections.abc import Callable, Sequence

from dure.sim.figures import NOTHING, whole
from dure.sim.node.compare import Comparison
from dure.sim.node.results import ContainerFigures, NodeResult
from dure.sim.sheets import Cell, Column, Sheet, column_of

MOST_CONTAINERS = 40
"""Rows of the sheet of containers; all are in the JSON."""


def sheets(comparison: Comparison) -> tuple[Sheet, ...]:
    """What counts, in the order to read it."""
    return (
        outcome_sheet(comparison),
        trouble_sheet(comparison.results),
        action_sheet(comparison.results),
        container_sheet(comparison),
    )


def seconds(value: float | None) -> str:
    """A time with about three digits."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.2f}"


def times(value: float | None) -> str:
    """A ratio."""
    return NOTHING if value is None else f"{value:.2f}×"


def outcome_sheet(comparison: Comparison) -> Sheet:
    """When work was done."""
    results = comparison.results
    columns = [
        column_of("makespan\ns", [each.makespan_s for each in results], seconds, min),
        column_of("mean\ns", [each.mean_s for each in results], seconds, min),
        column_of("p95\ns", [each.p95_s for each in results], seconds, min),
        column_of("spread\ns", [each.spread_s for each in results], seconds),
        column_of("over\nalone", [_slowdown(comparison, each) for each in results], times, min),
    ]
    served = [index for index, each in enumerate(comparison.alone) if each.serves]
    for index in served:
        name = comparison.alone[index].name
        latencies = [each.containers[index].p95_ms for each in results]
        columns.append(column_of(f"{name}\np95 ms", latencies, seconds, min))
        over = [comparison.slowdown(each, index) for each in results]
        columns.append(column_of("over\nalone", over, times, min))
    return _by_mode("Completion of jobs, and latency of services", results, columns)


def trouble_sheet(results: Sequence[NodeResult]) -> Sheet:
    """What went wrong."""
    counted: tuple[tuple[str, Callable[[NodeResult], int]], ...] = (
        ("out of\nmemory", lambda each: each.out_of_memory),
        ("failed or\nnot ended", lambda each: each.failed),
        ("waits past\nlabels", lambda each: each.past_labels),
        ("deadlines\nmissed", lambda each: each.deadlines_missed),
        ("turned\nunhealthy", lambda each: each.unhealthy),
        ("ended by\nwatchdog", lambda each: each.overdue),
    )
    columns = [
        column_of(title, [count(each) for each in results], whole, min) for title, count in counted
    ]
    return _by_mode("What went wrong", results, columns)


def action_sheet(results: Sequence[NodeResult]) -> Sheet:
    """What was done to containers, and what it cost."""
    paused = [sum(one.paused_s for one in each.containers) for each in results]
    longest = [max(one.longest_wait_s for one in each.containers) for each in results]
    columns = [
        column_of("pauses", [each.pauses for each in results], whole),
        column_of("paused\ns", paused, seconds),
        column_of("longest\nwait s", longest, seconds),
        column_of("GPU idle\nmeanwhile s", [each.idle_while_paused_s for each in results], seconds),
        column_of("longest\nstall s", [each.longest_stall_s for each in results], seconds),
        column_of("actions\nfailed", [each.failed_actions for each in results], whole),
    ]
    return _by_mode("What was done", results, columns)


def container_sheet(comparison: Comparison) -> Sheet:
    """Each container in every mode: seconds to its end, or of a service p95 in milliseconds."""
    shown = comparison.scenario.setting.containers[:MOST_CONTAINERS]
    columns = [Column("alone", tuple(_own(each) for each in comparison.alone[: len(shown)]))]
    for result in comparison.results:
        cells = tuple(_own(each) for each in result.containers[: len(shown)])
        columns.append(Column(result.mode.replace("-", "-\n", 1), cells))
    names = tuple(spec.name + (" (p95 ms)" if spec.serves else "") for spec in shown)
    more = len(comparison.alone) - len(shown)
    title = "Each container: seconds to its end" + (f" (and {more} more)" if more else "")
    return Sheet(title, "container", names, tuple(columns))


_SHORT = {"out of memory": "memory ✗", "did not end in time": "no end ✗"}


def _own(figures: ContainerFigures) -> Cell:
    """The figure a container is judged by, or why there is none."""
    if figures.failure is not None:
        return Cell(_SHORT.get(figures.failure, "failed ✗"))
    value = figures.p95_ms if figures.serves else figures.completion_s
    return Cell(seconds(value), value)


def _slowdown(comparison: Comparison, result: NodeResult) -> float | None:
    """Mean over the jobs that did their work."""
    found = [
        slowdown
        for index, each in enumerate(result.containers)
        if not each.serves
        and not each.outside
        and (slowdown := comparison.slowdown(result, index)) is not None
    ]
    return sum(found) / len(found) if found else None


def _by_mode(title: str, results: Sequence[NodeResult], columns: Sequence[Column]) -> Sheet:
    return Sheet(title, "mode", tuple(each.mode for each in results), tuple(columns))
