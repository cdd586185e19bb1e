"""What the rows were to show, and whether they did."""

import math
from collections.abc import Iterator, Mapping

from dure.bench.node.figures import CountFigures, SetFigures
from dure.bench.node.rows import DURE_DOCKER, DURE_LOCK, DURE_SHIM, PLAIN, ROWS, SERIAL
from dure.bench.node.sets import LARGE, MEDIUM, MIXED, SMALL, WAIT_LABEL_S
from dure.sim.benches.report import Verdict

MOST_MAKESPAN = {
    (LARGE, DURE_LOCK): 0.92,
    (LARGE, DURE_DOCKER): 0.92,
    (MEDIUM, DURE_LOCK): 0.92,
    (MEDIUM, DURE_DOCKER): 0.92,
    (SMALL, DURE_LOCK): 1.05,
    (SMALL, DURE_DOCKER): 1.02,
}
"""Of that of plain sharing, at the largest count."""
MOST_MEAN = {
    (LARGE, DURE_LOCK): 0.65,
    (LARGE, DURE_DOCKER): 0.65,
    (MEDIUM, DURE_LOCK): 0.65,
    (MEDIUM, DURE_DOCKER): 0.65,
    (SMALL, DURE_LOCK): 0.75,
    (SMALL, DURE_DOCKER): 1.02,
}
MOST_SERVER_OF_PLAIN = 0.5
MOST_SERVER_OF_ALONE = 2.5
MOST_SHIM_OF_ALONE = 1.3
MOST_AGENT_SHARE = 0.10
"""Of one core, while containers queue."""
_COMMON_COUNT = 5
"""All sizes are measured with so many containers."""


def verdicts_of(figures: SetFigures) -> list[Verdict]:
    """All verdicts on one set."""
    found = list(_mixed(figures) if figures.set.name == MIXED else _alike(figures))
    found += _sound(figures)
    return found


def _alike(figures: SetFigures) -> Iterator[Verdict]:
    name = figures.set.name
    for (of, row), most in MOST_MAKESPAN.items():
        if of != name:
            continue
        title = f"{figures.set.title}, {figures.set.most} containers, {ROWS[row].title}"
        yield _at_most(
            f"{title}: makespan", figures.ratio(row, lambda found: found.makespan_s), most
        )
        yield _at_most(
            f"{title}: mean completion",
            figures.ratio(row, lambda found: found.mean_s),
            MOST_MEAN[of, row],
        )


def _at_most(claim: str, ratio: float, most: float) -> Verdict:
    if not math.isfinite(ratio):
        return Verdict(f"{claim} ≤ {most:g}× plain", "not measured", passed=False)
    return Verdict(f"{claim} ≤ {most:g}× plain", f"{ratio:.3f}×", ratio <= most)


def _mixed(figures: SetFigures) -> Iterator[Verdict]:
    alone, plain = figures.at(SERIAL), figures.at(PLAIN)
    for row in (DURE_LOCK, DURE_DOCKER, DURE_SHIM):
        own = figures.at(row)
        title = f"{figures.set.title}, {ROWS[row].title}: p95 of the server"
        bounds = (
            ((alone, "alone", MOST_SHIM_OF_ALONE),)
            if row == DURE_SHIM
            else ((plain, "plain", MOST_SERVER_OF_PLAIN), (alone, "alone", MOST_SERVER_OF_ALONE))
        )
        for reference, word, most in bounds:
            yield _server(f"{title} ≤ {most:g}× {word}", own, reference, most)
        if own is not None:
            yield _waits(figures, own)


def _server(
    claim: str, own: CountFigures | None, reference: CountFigures | None, most: float
) -> Verdict:
    if own is None or reference is None or not own.server_p95_ms.known:
        return Verdict(claim, "not measured", passed=False)
    ratio = own.server_p95_ms.value / reference.server_p95_ms.value
    found = f"{ratio:.2f}× ({own.server_p95_ms.value:.1f} ms)"
    return Verdict(claim, found, ratio <= most)


def _waits(figures: SetFigures, own: CountFigures) -> Verdict:
    past = {name: wait_s for name, wait_s in own.longest_wait_s.items() if wait_s > WAIT_LABEL_S}
    longest = max(own.longest_wait_s.values(), default=math.nan)
    return Verdict(
        f"{figures.set.title}, {ROWS[own.row].title}: no container waits past its label",
        ", ".join(f"{name} {wait_s:.1f} s" for name, wait_s in past.items())
        or f"the longest wait was {longest:.1f} s",
        passed=not past and math.isfinite(longest),
    )


def _sound(figures: SetFigures) -> Iterator[Verdict]:
    """Programs that end well and compute the right thing; the price of the agent."""
    for row, counts in figures.rows.items():
        failed = sum(found.failed for found in counts.values())
        if failed:
            yield Verdict(
                f"{figures.set.title}, {ROWS[row].title}: every program ends well",
                f"{failed} failed",
                passed=False,
            )
    shares = [
        found.agent_share
        for counts in figures.rows.values()
        for found in counts.values()
        if math.isfinite(found.agent_share)
    ]
    if shares:
        yield Verdict(
            f"{figures.set.title}: the agent takes < {MOST_AGENT_SHARE:.0%} of one core meanwhile",
            f"{max(shares):.1%} at most",
            max(shares) < MOST_AGENT_SHARE,
        )
    for row, why in figures.failed.items():
        yield Verdict(f"{figures.set.title}, {row} can be measured", why, passed=False)


def loss(figures: SetFigures, count: int) -> float:
    """What plain sharing loses against y = a·x, as a share of it."""
    found = figures.at(PLAIN, count)
    return found.makespan_s.value / (count * figures.alone_s) - 1.0 if found else math.nan


def claim_of_size(sets: Mapping[str, SetFigures]) -> list[Verdict]:
    """The paper: the size of a task matters more than the number of containers."""
    claim = "the paper's claim: task size matters more than the number of containers"
    by_size = {
        name: loss(sets[name], _COMMON_COUNT) for name in (LARGE, MEDIUM, SMALL) if name in sets
    }
    by_count = {
        name: (loss(sets[name], 2), loss(sets[name], sets[name].set.most)) for name in by_size
    }
    figures = [*by_size.values(), *(value for pair in by_count.values() for value in pair)]
    if len(by_size) < 2 or not all(map(math.isfinite, figures)):
        return [Verdict(claim, "needs 2, 5 and all containers of two sizes", passed=None)]
    of_size = max(by_size.values()) - min(by_size.values())
    of_count = max(abs(many - few) for few, many in by_count.values())
    word = "confirmed" if of_size > of_count else "refuted"
    sizes = ", ".join(f"{name}² {value:+.1%}" for name, value in by_size.items())
    counts = ", ".join(
        f"{name}² {few:+.1%} → {many:+.1%}" for name, (few, many) in by_count.items()
    )
    return [
        Verdict(
            claim,
            f"{word}: loss over y = a·x at {_COMMON_COUNT} containers {sizes}; from 2 to all "
            f"containers {counts}",
            passed=None,
        )
    ]
