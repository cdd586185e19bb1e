"""Measures a set: every row at every count; what was measured before is kept.

First come the cells that have to show something, those with the most containers; each of them gets
an agent that was started for it alone. The other counts come after, from the largest down, under
one agent a row.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from dure.bench.common.shelf import MACHINE
from dure.bench.node.bed import Bed
from dure.bench.node.cells import Cell, Outcome, Store
from dure.bench.node.crew import Crew, crew
from dure.bench.node.managed import Manager, Waits, managed
from dure.bench.node.rows import Row, rows_for
from dure.bench.node.sets import BenchSet
from dure.domain.errors import DureError

Tell = Callable[[str], None]

_RECORDINGS = "recordings"
_SLACK_S = 4.0
"""Of a cell besides its kernels: contexts, copies, the way to the barrier."""
_SHARED_LOSS = 1.3
"""What a cell is planned to take, of its kernels alone."""
_PATIENCE = 3.0
"""A cell that takes so many times what it should is given up."""
_LEAST_PATIENCE_S = 30.0
_SET_UP_S = 10.0


@dataclass(frozen=True, slots=True)
class Settings:
    """How much."""

    repeats: int = 3
    """Of the largest count; the others are measured once."""
    rows: tuple[str, ...] = ()
    """All where none is named."""
    counts: tuple[int, ...] = ()
    """Besides the largest; all where none is named."""
    limit_s: float = float("inf")
    """Nothing is begun that would end later than this."""
    record: bool = False
    """Whether agents write down what they see and decide, beside the cells."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One cell to measure."""

    row: Row
    count: int
    repeat: int


@dataclass(frozen=True, slots=True)
class Host:
    """What cells are measured on."""

    client: Any
    image: str
    bed: Bed
    docker_host: str


class Shard:
    """One set being measured."""

    def __init__(self, bench_set: BenchSet, settings: Settings, store: Store, tell: Tell) -> None:
        self.set = bench_set
        self.settings = settings
        self.store = store
        self._say = tell
        self._until_s = time.monotonic() + settings.limit_s
        self._given_up: set[str] = set()

    def missing(self, repeats: int, *, largest: bool) -> list[Wanted]:
        """Cells not measured yet: so many repeats of the largest count, or the others once."""
        rows = rows_for(self.set, self.settings.rows)
        if largest:
            found = [
                Wanted(row, self.set.most, repeat) for repeat in range(repeats) for row in rows
            ]
        else:
            counts = self.set.counts(self.settings.counts)
            found = [
                Wanted(row, count, 0)
                for row in rows
                for count in counts
                if count != self.set.most and not row.serial
            ]
        return [
            cell for cell in found if not self.store.has(cell.row.name, cell.count, cell.repeat)
        ]

    def wanted(self, repeats: int, *, largest: bool) -> list[Wanted]:
        """Cells still to be measured; rows that failed before in this run are not tried again."""
        found = self.missing(repeats, largest=largest)
        return [cell for cell in found if cell.row.name not in self._given_up]

    def run(self, host: Host, repeats: int, *, largest: bool) -> None:
        """Measure what is wanted of a part, as far as time goes."""
        wanted = self.wanted(repeats, largest=largest)
        ordinary = [cell for cell in wanted if not cell.row.shim]
        self.store.note(MACHINE, {**host.bed.machine, "set": self.set.name})
        while ordinary and self._time_for(ordinary[0], host.bed, _SET_UP_S):
            ordinary = self._with_one_crew(host, ordinary, fresh=largest)
        for cell in wanted:
            if cell.row.shim and self._time_for(cell, host.bed, _SET_UP_S):
                self._under_shim(host, cell)

    def _with_one_crew(self, host: Host, wanted: list[Wanted], *, fresh: bool) -> list[Wanted]:
        """Measure with the same containers as long as all goes well; what is left to do.

        A row that fails is left out, and the others go on with new containers.
        """
        members = self.set.members(host.bed)
        left = list(wanted)
        self._say(f"starting {len(members)} containers")
        with crew(host.client, host.image, host.bed, members, {}) as made:
            while left and self._time_for(left[0], host.bed, 0.0):
                row = left[0].row
                own = 1 if fresh else sum(cell.row is row for cell in left)
                try:
                    with self._manager(host, row, len(members)) as manager:
                        for cell in left[:own]:
                            if self._time_for(cell, host.bed, 0.0):
                                self._measure(made, manager, cell, fresh=fresh)
                except (DureError, OSError) as error:
                    self._give_up(row, error)
                    return [cell for cell in left if cell.row is not row]
                left = left[own:]
        return left

    def _under_shim(self, host: Host, cell: Wanted) -> None:
        """One cell whose server is a tenant of the agent, too: its container comes after it."""
        members = self.set.members(host.bed)
        try:
            with self._manager(host, cell.row, 0) as manager:
                extra = manager.tenants(members)
                with crew(host.client, host.image, host.bed, members, extra) as made:
                    manager.await_containers(len(members))
                    self._measure(made, manager, cell, fresh=True)
        except (DureError, OSError) as error:
            self._give_up(cell.row, error)

    @contextlib.contextmanager
    def _manager(self, host: Host, row: Row, containers: int) -> Iterator[Manager]:
        folder = (self.store.folder / _RECORDINGS).absolute() if self.settings.record else None
        record = folder / f"{row.name}-{time.time():.0f}.jsonl" if folder is not None else None
        with managed(row, host.docker_host, host.bed, record) as manager:
            manager.await_containers(containers)
            manager.settle()
            yield manager

    def _give_up(self, row: Row, why: Exception) -> None:
        self._given_up.add(row.name)
        self.store.fail(row.name, str(why))
        self._say(f"{row.name} failed: {why}")

    def _measure(self, made: Crew, manager: Manager, cell: Wanted, *, fresh: bool) -> None:
        made.await_ready(range(cell.count))
        limit_s = self._limit_s(made, cell)
        used_s, began_s = manager.used_s(), time.monotonic()
        if cell.row.serial:
            outcomes = self._one_after_another(made, cell.count, limit_s)
        else:
            outcomes = _together(made, manager, cell.count, limit_s)
        after_s = manager.used_s()
        share = None
        if used_s is not None and after_s is not None:
            share = (after_s - used_s) / (time.monotonic() - began_s)
        self.store.keep(Cell(cell.row.name, cell.count, cell.repeat, tuple(outcomes), fresh, share))
        self._say(f"{cell.row.name}, {cell.count} containers: {_brief(outcomes)}")

    def _one_after_another(self, made: Crew, count: int, limit_s: float) -> list[Outcome]:
        outcomes: list[Outcome] = []
        first_ns = 0
        for index, member in enumerate(made.members[:count]):
            release = made.barrier.release(range(index, index + 1))
            if not first_ns or made.members[index - 1].serves:
                first_ns = release.at_ns  # what a service serves alone is no wait of the jobs
            (result,) = made.barrier.results([release], limit_s, made.look)
            outcomes.append(Outcome.of(member.name, result, first_ns))
        return outcomes

    def _limit_s(self, made: Crew, cell: Wanted) -> float:
        planned_s = sum(member.alone_s for member in made.members[: cell.count])
        return max(_LEAST_PATIENCE_S, _PATIENCE * (planned_s + _SLACK_S))

    def _time_for(self, cell: Wanted, bed: Bed, more_s: float) -> bool:
        alone_s = sum(member.alone_s for member in self.set.members(bed)[: cell.count])
        needed_s = _SHARED_LOSS * alone_s + _SLACK_S + more_s
        return time.monotonic() + needed_s < self._until_s


def _together(made: Crew, manager: Manager, count: int, limit_s: float) -> list[Outcome]:
    waits = Waits(manager)

    def look() -> None:
        made.look()
        waits.look()

    early = [member.lead_s for member in made.members[:count] if member.lead_s]
    releases = []
    if early:
        releases.append(made.barrier.release(range(len(early))))
        time.sleep(max(early))
    releases.append(made.barrier.release(range(len(early), count)))
    first_ns = releases[-1].at_ns
    results = made.barrier.results(releases, limit_s, look)
    outcomes = []
    for index, result in enumerate(results):
        outcome = Outcome.of(made.members[index].name, result, first_ns)
        waited_s = waits.of(made.containers[index].id)
        outcomes.append(replace(outcome, waited_s=waited_s))
    return outcomes


def _brief(outcomes: list[Outcome]) -> str:
    failed = sum(outcome.exit_code != 0 for outcome in outcomes)
    ends = [outcome.completion_s for outcome in outcomes]
    words = f"all done after {max(ends):.2f} s, each after {sum(ends) / len(ends):.2f} s"
    served = [outcome.p95_ms for outcome in outcomes if outcome.p95_ms is not None]
    words += "".join(f", p95 {p95_ms:.1f} ms" for p95_ms in served)
    return words + (f", {failed} failed" if failed else "")
