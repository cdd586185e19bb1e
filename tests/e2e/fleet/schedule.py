"""Faults drawn from a seed: what is killed, stopped or cut, when, and for how long."""

import heapq
import itertools
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from tests.e2e.fleet.fleet import Fleet
from tests.e2e.fleet.lines import End
from tests.e2e.fleet.parts import Part, wait_for

_TICK_S = 0.1
_LONG_CUT_S = 26.0
"""Longer than a fence and its margin: work is started elsewhere meanwhile."""


@dataclass(frozen=True, order=True)
class Fault:
    """One of them."""

    at_s: float
    """Since the first job was submitted."""
    what: str
    target: str
    for_s: float

    def __str__(self) -> str:
        return f"{self.at_s:6.1f} s  {self.what:6} {self.target} for {self.for_s:.1f} s"


@dataclass(frozen=True)
class Severity:
    """How often what happens; of each single process."""

    over_s: float
    server_kills: int = 4
    member_kills: int = 3
    store_kills: int = 3
    cluster_kills: int = 2
    """Of each etcd member and API server."""
    leader_stops: int = 3
    cuts: int = 2
    """Of each line, and one long one of a line to the centre."""


def make_schedule(seed: int, fleet: Fleet, severity: Severity, lease_s: float) -> list[Fault]:
    """The same for the same seed and fleet; faults of one kind never overlap."""
    rng = random.Random(seed)
    made: list[Fault] = []

    def spread(what: str, targets: Sequence[str], times: int, lasts: tuple[float, float]) -> None:
        drawn = [target for target in targets for _ in range(times)]
        rng.shuffle(drawn)
        slot_s = severity.over_s / max(1, len(drawn))
        for number, target in enumerate(drawn):
            for_s = round(rng.uniform(*lasts), 1)
            at_s = number * slot_s + rng.uniform(0.0, max(0.1, slot_s - for_s))
            made.append(Fault(round(at_s, 1), what, target, for_s))

    spread("kill", [part.name for part in fleet.centre.servers], severity.server_kills, (1.0, 5.0))
    spread("kill", [bed.member.name for bed in fleet.beds], severity.member_kills, (0.5, 5.0))
    spread("kill", [part.name for part in fleet.stores], severity.store_kills, (0.5, 4.0))
    for bed in fleet.beds:
        etcd = [part.name for part in bed.parts if "etcd" in part.name]
        api = [part.name for part in bed.parts if "apiserver" in part.name]
        spread("kill", etcd, severity.cluster_kills, (0.5, 3.0))
        spread("kill", api, severity.cluster_kills, (0.5, 3.0))
    spread("stop", ["leader"], severity.leader_stops, (lease_s + 1.0, lease_s + 4.0))
    lines = [f"{bed.name}-{End.CENTRE.value}" for bed in fleet.beds]
    lines += [f"{bed.name}-{End.CLUSTER.value}" for bed in fleet.beds if bed.parts]
    spread("cut", lines, severity.cuts, (2.0, 10.0))
    if severity.over_s > 3 * _LONG_CUT_S:
        line = rng.choice(lines[: len(fleet.beds)])
        at_s = rng.uniform(_LONG_CUT_S, severity.over_s - 2 * _LONG_CUT_S)
        made.append(Fault(round(at_s, 1), "cut", line, _LONG_CUT_S))
    return sorted(made)


@dataclass
class Stagehand:
    """Brings faults about and mends them; from the main thread, whose children processes are."""

    fleet: Fleet
    faults: Sequence[Fault]
    done: list[str] = field(default_factory=list)
    """What really happened, for people."""
    skipped: int = 0
    """Faults whose target had one already."""
    _due: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _order: "itertools.count[int]" = field(default_factory=itertools.count)

    def perform(self, meanwhile: Callable[[], None]) -> None:
        """All faults in their time."""
        began_s = time.monotonic()
        for fault in self.faults:
            self._at(began_s + fault.at_s, partial(self._begin, fault))
        while self._due:
            while self._due and self._due[0][0] <= time.monotonic():
                heapq.heappop(self._due)[2]()
            for part in self.fleet.parts:
                part.tend()
            meanwhile()
            time.sleep(_TICK_S)

    def settle(self) -> float:
        """Wait until every process is ready; how long that took."""

        def all_ready() -> bool:
            for part in self.fleet.parts:
                part.tend()
            return all(part.is_ready for part in self.fleet.parts)

        return wait_for("every process is ready", all_ready)

    def _at(self, when_s: float, work: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when_s, next(self._order), work))

    def _begin(self, fault: Fault) -> None:
        until_s = time.monotonic() + fault.for_s
        if fault.what == "cut":
            self._cut(fault, until_s)
            return
        part = self._part(fault.target)
        if part is None or not part.program.runs or part.frozen:
            self.skipped += 1
            return
        name = part.name if fault.target == part.name else f"{fault.target} ({part.name})"
        self.done.append(f"{fault.what} {name}")
        if fault.what == "kill":
            part.kill()
            self._at(until_s, part.start)
        else:
            part.freeze()
            self._at(until_s, part.thaw)

    def _cut(self, fault: Fault, until_s: float) -> None:
        bed_name, _, end_name = fault.target.rpartition("-")
        lines = next(bed.lines for bed in self.fleet.beds if bed.name == bed_name)
        end = End(end_name)
        if lines.is_cut(end):
            self.skipped += 1
            return
        self.done.append(f"cut {fault.target}")
        lines.cut(end)
        self._at(until_s, lambda: lines.mend(end))

    def _part(self, target: str) -> Part | None:
        if target == "leader":
            return self.fleet.centre.leader()
        return next(part for part in self.fleet.parts if part.name == target)
