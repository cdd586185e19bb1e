"""The agenda of a simulated fleet: what happens when, in virtual time."""

import heapq
from collections.abc import Callable
from typing import Any

NEVER_NS = 2**63 - 1

Action = Callable[[int, Any], None]
"""Takes the moment and what was noted with it."""


class Agenda:
    """Actions in the order of their time; those of one moment in the order they were noted."""

    def __init__(self) -> None:
        self.done = 0
        """Actions carried out."""
        self._heap: list[tuple[int, int, Action, Any]] = []
        self._noted = 0

    def __len__(self) -> int:
        return len(self._heap)

    def note(self, when_ns: int, action: Action, what: Any = None) -> None:
        """Have an action carried out at a moment."""
        self._noted += 1
        heapq.heappush(self._heap, (when_ns, self._noted, action, what))

    def run_until(self, until_ns: int) -> None:
        """Carry out everything that is due at or before a moment."""
        heap = self._heap
        pop = heapq.heappop
        while heap and heap[0][0] <= until_ns:
            when_ns, _, action, what = pop(heap)
            self.done += 1
            action(when_ns, what)
