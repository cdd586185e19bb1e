"""Doing things side by side without being held up by one that does not come back.

The threads are daemons that nobody joins: a thread that hangs in a driver would else keep its whole
process from going on, and from ending.
"""

import queue
import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")

MOST_THREADS = 128
"""Of one call: beyond that, what is still to be done waits for the next call."""


def side_by_side(
    tasks: Mapping[_K, Callable[[], _V]], at_once: int, stall_s: float
) -> dict[_K, _V]:
    """What came of tasks that raise nothing.

    Where none of those under way comes back for `stall_s`, the rest is begun beside them; where
    still none does, they are left out of the answer, and go on by themselves.
    """
    todo: queue.SimpleQueue[_K] = queue.SimpleQueue()
    ended: queue.SimpleQueue[tuple[_K, _V]] = queue.SimpleQueue()
    for key in tasks:
        todo.put(key)

    def work() -> None:
        while True:
            try:
                key = todo.get_nowait()
            except queue.Empty:
                return
            ended.put((key, tasks[key]()))

    results: dict[_K, _V] = {}
    started = _start(work, min(at_once, len(tasks)))
    if not started:
        work()  # no thread can be had: better one after another than not at all
    while len(results) < len(tasks):
        try:
            key, result = ended.get(timeout=stall_s)
        except queue.Empty:
            more = _start(work, min(todo.qsize(), MOST_THREADS - started))
            if not more:
                break
            started += more
        else:
            results[key] = result
    while not todo.empty():
        todo.get_nowait()
    return results


def _start(work: Callable[[], None], count: int) -> int:
    """How many threads do it now."""
    for started in range(count):
        try:
            threading.Thread(target=work, name="beside", daemon=True).start()
        except RuntimeError:
            return started
    return max(0, count)
