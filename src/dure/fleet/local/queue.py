"""Orders that wait for a place: by priority, then age; and the clocks that end their waiting."""

import bisect
import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from dure.domain.ids import WorkloadId
from dure.fleet.local.instances import NEVER_NS, Task
from dure.fleet.local.settings import QueueRules

Rank = tuple[int, int, float, WorkloadId]


@dataclass(slots=True)
class Line:
    """Tasks that wait for nodes of one group, in their order."""

    ranks: list[Rank] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    fresh: set[WorkloadId] = field(default_factory=set)
    """Tasks that were not tried since they joined."""
    freed: bool = False
    """Whether capacity came free since the line was last walked."""

    def join(self, task: Task) -> None:
        """Take a place by rank."""
        rank = task.rank
        at = bisect.bisect_left(self.ranks, rank)
        self.ranks.insert(at, rank)
        self.tasks.insert(at, task)
        self.fresh.add(task.id)

    def leave(self, task: Task) -> None:
        """Give up the place."""
        at = next(index for index, each in enumerate(self.tasks) if each is task)
        del self.ranks[at], self.tasks[at]
        self.fresh.discard(task.id)


@dataclass(slots=True)
class Queue:
    """Everything that waits in a cluster."""

    rules: QueueRules
    lines: list[Line]
    """One for each node group."""
    later: list[tuple[int, WorkloadId, Task]] = field(default_factory=list)
    """Orders whose time has not come."""
    impatient: list[tuple[int, WorkloadId, int]] = field(default_factory=list)
    """When whose patience ends."""

    def add(self, task: Task, now_ns: int) -> None:
        """Let a task wait for a place; it keeps its age."""
        if task.order.start_ns > now_ns:
            heapq.heappush(self.later, (task.order.start_ns, task.id, task))
            return
        if task.queued_ns >= 0:
            return
        task.queued_ns, task.passes = now_ns, 0
        self.lines[task.group].join(task)
        if self.rules.patience_ns is not None:
            heapq.heappush(self.impatient, (now_ns + self.rules.patience_ns, task.id, now_ns))

    def remove(self, task: Task) -> None:
        """It waits no longer: placed, withdrawn or turned down."""
        if task.queued_ns >= 0:
            task.queued_ns = -1
            self.lines[task.group].leave(task)
        else:
            self.later = [each for each in self.later if each[2] is not task]
            heapq.heapify(self.later)

    def ripen(self, now_ns: int) -> None:
        """Queue orders whose time has come."""
        while self.later and self.later[0][0] <= now_ns:
            self.add(heapq.heappop(self.later)[2], now_ns)

    def out_of_patience(self, now_ns: int, tasks: dict[WorkloadId, Task]) -> Iterator[Task]:
        """Tasks that have waited too long."""
        while self.impatient and self.impatient[0][0] <= now_ns:
            _, name, since = heapq.heappop(self.impatient)
            task = tasks.get(name)
            if task is not None and task.queued_ns == since:
                yield task

    def next_ns(self) -> int:
        """When a clock of the queue rings next."""
        later = self.later[0][0] if self.later else NEVER_NS
        return min(later, self.impatient[0][0] if self.impatient else NEVER_NS)

    def is_later(self, task: Task) -> bool:
        """Whether its time has not come."""
        return any(each[2] is task for each in self.later)

    def waiting(self, group: int) -> list[Task]:
        """Who waits for nodes of that group, first come first."""
        return self.lines[group].tasks
