"""Makes the shards of a folder into one report: tables beside the paper's, verdicts, figures."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dure.bench.common.machine import machine_of, machine_words
from dure.bench.common.statistics import Estimate
from dure.bench.node.cells import Store
from dure.bench.node.figures import CountFigures, SetFigures, figures_of
from dure.bench.node.paper import TABLE_1, line_s, plain_ratio_of_managed
from dure.bench.node.rows import PAPER, PAPER_WINDOW, PLAIN, ROWS
from dure.bench.node.sets import MEDIUM, MIXED, SETS
from dure.bench.node.verdicts import claim_of_size, verdicts_of
from dure.domain.errors import InputError
from dure.sim.benches.report import BenchReport, Grid, Verdict, number, percent

_ABOUT = (
    "Every container runs one program, as the paper's do: a square float32 product, one thread an "
    "element, blocks of 16 × 16, plain global loads. All wait at a start barrier in a folder they "
    "share, each opens the CUDA driver only after its release, and seconds count from there until "
    "the result is in the host's memory. A process is fresh in every round, its inputs are made "
    "before. Makespan is the last completion; spread is last less first over the mean. At the "
    "largest count each managed round has an agent started for it alone, so nothing was learned "
    "before; other counts run under one agent a row, from the largest down. Intervals in brackets "
    "are 95 %, from redrawn repeats. *One after another* starts each container when the one before "
    "it is done; y = a·x is so many times one alone. A wait counts to the phase it fell into."
)
_MIXED = (
    " The mixed set: a server of short requests (20/s of 10 kernels of 0.5 ms, class high), up 2 s "
    "before the others and no completion itself; one product of each size; a trainer (150 steps "
    "of 20 kernels of 1 ms, a sync each step); and a looper that allocates, computes 8,192 squared "
    "and frees, eight times."
)


def sets_of(folder: Path, names: Sequence[str] = ()) -> dict[str, SetFigures]:
    """Figures of every set that was measured, or of those named."""
    found = {
        name: figures_of(bench_set, Store(folder / name))
        for name, bench_set in SETS.items()
        if not names or name in names
    }
    return {name: figures for name, figures in found.items() if figures is not None}


def merged(folder: Path, names: Sequence[str] = ()) -> BenchReport:
    """The report of all shards in a folder, or of those named."""
    sets = sets_of(folder, names)
    if not sets:
        raise InputError(f"{folder} holds no finished cell", "run `dure bench node` first")
    machine = machine_of(folder)
    emulated = bool(machine.get("emulated"))
    verdicts = [verdict for figures in sets.values() for verdict in verdicts_of(figures)]
    grids = [_largest_grid(figures) for figures in sets.values()]
    grids += [_counts_grid(figures) for figures in sets.values() if not figures.set.fixed]
    if MEDIUM in sets:
        grids += [_table_1(sets[MEDIUM]), _line_grid(sets[MEDIUM])]
    return BenchReport(
        name="node",
        title="Containers that share one GPU",
        about=_about(sets, emulated=emulated),
        grids=tuple(grids),
        verdicts=(*verdicts, *claim_of_size(sets), *_beside_paper(sets)),
        simulated=emulated,
        measured_on="" if emulated else machine_words(machine),
        figures={"machine": machine, "sets": [_data(figures) for figures in sets.values()]},
    )


def _about(sets: Mapping[str, SetFigures], *, emulated: bool) -> str:
    text = _ABOUT + (_MIXED if MIXED in sets else "")
    if emulated:
        text += "\n\n**Emulated**: the driver is a stand-in; figures say nothing of a real GPU."
    return text


def _interval(estimate: Estimate, digits: int = 2) -> str:
    if not estimate.known:
        return "–"
    text = number(estimate.value, digits)
    if estimate.repeats > 1:
        text += f" [{number(estimate.low, digits)}, {number(estimate.high, digits)}]"
    return text


def _largest_grid(figures: SetFigures) -> Grid:
    """All rows at the largest count."""
    columns = ["sharing", "makespan s", "× plain", "mean s", "× plain", "p95 s", "spread"]
    columns += ["set-up s", "input s", "kernel s", "output s"]
    if figures.set.fixed:
        columns += ["server p95 ms", "longest wait s"]
    columns += ["agent", "runs"]
    rows = [_largest_row(figures, found) for row in figures.rows if (found := figures.at(row))]
    return Grid(f"{figures.set.title}: {figures.set.most} containers", tuple(columns), tuple(rows))


def _largest_row(figures: SetFigures, found: CountFigures) -> tuple[str, ...]:
    cells = [
        ROWS[found.row].title,
        _interval(found.makespan_s),
        number(figures.ratio(found.row, lambda each: each.makespan_s), 3),
        _interval(found.mean_s),
        number(figures.ratio(found.row, lambda each: each.mean_s), 3),
        number(found.p95_s.value, 2),
        percent(found.spread),
        *(
            number(found.phases[f"{phase}_s"], 3)
            for phase in ("setup", "input", "kernel", "output")
        ),
    ]
    if figures.set.fixed:
        longest = max(found.longest_wait_s.values()) if found.longest_wait_s else None
        cells += [_interval(found.server_p95_ms, 1), number(longest, 1)]
    share = found.agent_share if math.isfinite(found.agent_share) else None
    cells += [percent(share), str(found.makespan_s.repeats)]
    return tuple(cells)


def _counts_grid(figures: SetFigures) -> Grid:
    """Makespans by count, as in the paper's figures 7, 8 and 9, and y = a·x."""
    names = list(figures.rows)
    counts = sorted({count for row in figures.rows.values() for count in row})
    columns = ("containers", "y = a·x", *(ROWS[name].title for name in names))
    rows = [
        (
            str(count),
            number(count * figures.alone_s, 2),
            *(
                number(found.makespan_s.value, 2) if (found := figures.at(name, count)) else "–"
                for name in names
            ),
        )
        for count in counts
    ]
    return Grid(f"{figures.set.title}: makespan in s by number of containers", columns, tuple(rows))


def _table_1(figures: SetFigures) -> Grid:
    """The paper's Table 1 beside ours."""
    columns = (
        *("containers", "paper: input s", "kernel s", "output s"),
        *("here: input s", "kernel s", "output s"),
    )
    rows = []
    for count, theirs in TABLE_1.items():
        ours = figures.at(PLAIN, count)
        cells = [number(value, 3) for value in (theirs.input_s, theirs.kernel_s, theirs.output_s)]
        cells += [
            number(ours.phases[f"{phase}_s"] if ours else None, 3)
            for phase in ("input", "kernel", "output")
        ]
        rows.append((str(count), *cells))
    return Grid(
        "Table 1 of the paper: phases of 13,312 squared, plain sharing", columns, tuple(rows)
    )


def _line_grid(figures: SetFigures) -> Grid:
    """Figure 3: what plain sharing loses against y = a·x."""
    columns = ("containers", "paper: plain s", "y = a·x s", "loss", "here: plain s", "y = a·x s")
    rows = []
    for count, theirs in TABLE_1.items():
        ours = figures.at(PLAIN, count)
        own_line_s = count * figures.alone_s
        made_s = ours.makespan_s.value if ours else None
        rows.append(
            (
                str(count),
                number(theirs.total_s, 2),
                number(line_s(count), 2),
                percent(theirs.total_s / line_s(count) - 1.0),
                number(made_s, 2),
                number(own_line_s, 2),
                percent(made_s / own_line_s - 1.0 if made_s else None),
            )
        )
    return Grid(
        "Figure 3 of the paper: plain sharing of 13,312 squared against one after another",
        (*columns, "loss"),
        tuple(rows),
    )


def _beside_paper(sets: Mapping[str, SetFigures]) -> list[Verdict]:
    """What the paper's own way reached there and reaches here."""
    if MEDIUM not in sets:
        return []
    figures = sets[MEDIUM]
    theirs = plain_ratio_of_managed(figures.set.most)
    ours = "; ".join(
        f"{ROWS[row].title} {figures.ratio(row, lambda found: found.makespan_s):.3f}×"
        for row in (PAPER, PAPER_WINDOW)
        if figures.at(row)
    )
    return [
        Verdict(
            "the paper's method, makespan over plain sharing, ten products of 13,312 squared",
            f"there {theirs:.3f}× (from its Table 1 and text); here {ours or 'not measured'}",
            passed=None,
        )
    ]


def _data(figures: SetFigures) -> dict[str, Any]:
    return {
        "set": figures.set.name,
        "title": figures.set.title,
        "alone_s": figures.alone_s,
        "rows": {
            row: [asdict(found) for found in counts.values()]
            for row, counts in figures.rows.items()
        },
        "failed": figures.failed,
    }
