"""Waits for descriptors of any number; `select` refuses those above 1023, which agents have."""

import select
from collections.abc import Iterable
from typing import Protocol


class HasFileno(Protocol):
    """Something open."""

    def fileno(self) -> int:
        """Its number."""


def readable(opened: Iterable[int | HasFileno], within_s: float) -> list[int]:
    """Numbers of those that can be read, or have ended; waits until there is one, or the time."""
    waiting = select.poll()
    for each in opened:
        waiting.register(each, select.POLLIN)
    return [number for number, _ in waiting.poll(1000.0 * within_s)]
