"""The agenda of a simulated world: what happens when, in virtual time."""

import heapq
from collections.abc import Callable
from typing import Any

NEVER_NS = 2**63 - 1

Action = Callable[[int, Any], None]
"""Takes the moment and what was noted with it."""

_Entry = tuple[int, int, Action, Any]
"""When, a number that keeps the order of one moment, what is done, with what."""


class Agenda:
    """Actions in the order of their time; those of one moment in the order they were noted."""

    def __init__(self) -> None:
        self.done = 0
        """Actions carried out."""
        self._heap: list[_Entry] = []
        self._planned: list[_Entry] = []
        """Noted before the start, latest first: a heap that need not hold them stays small."""
        self._noted = 0

    def __len__(self) -> int:
        return len(self._heap) + len(self._planned)

    def note(self, when_ns: int, action: Action, what: Any = None) -> None:
        """Have an action carried out at a moment."""
        self._noted += 1
        heapq.heappush(self._heap, (when_ns, self._noted, action, what))

    def plan(self) -> None:
        """Sort what has been noted up to now, which costs less than a heap of it all."""
        self._planned = sorted((*self._planned, *self._heap), key=_moment, reverse=True)
        self._heap.clear()

    def run_until(self, until_ns: int) -> None:
        """Carry out everything that is due at or before a moment."""
        pop = heapq.heappop
        while True:
            heap, planned = self._heap, self._planned
            if planned and (not heap or planned[-1] < heap[0]):
                if planned[-1][0] > until_ns:
                    return
                when_ns, _, action, what = planned.pop()
            elif heap and heap[0][0] <= until_ns:
                when_ns, _, action, what = pop(heap)
            else:
                return
            self.done += 1
            action(when_ns, what)


def _moment(entry: _Entry) -> tuple[int, int]:
    return entry[:2]
