"""A tap: what one thread does is seen by another, which never slows it down.

Whoever works adds; whoever looks takes what has come. A tap that nobody empties ends by itself.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

MOST_WAITING = 20_000
"""Entries that may wait for their reader: some minutes of a busy GPU."""
_LOOK_S = 0.1
"""Between two looks of a reader."""
IN_TIME, FULL = "its time is over", "it has grown as large as it may"
"""How recordings end that were made as they were asked for."""


@dataclass(slots=True, eq=False)
class Tap(Generic[T]):
    """Added to by one thread, emptied by another."""

    why_over: str = ""
    """Why nothing more comes; empty: more may come."""
    most: int = MOST_WAITING
    _waiting: deque[T] = field(default_factory=deque)

    def add(self, entry: T) -> bool:
        """Something happened; tells whether more is wanted."""
        if not self.why_over and len(self._waiting) >= self.most:
            self.end("it was read too slowly")
        if self.why_over:
            return False
        self._waiting.append(entry)
        return True

    def end(self, why: str) -> None:
        """Nothing more comes; from any thread."""
        self.why_over = self.why_over or why

    def take(self) -> list[T]:
        """Everything that has come since the last time."""
        return [self._waiting.popleft() for _ in range(len(self._waiting))]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long and how large a recording may be."""

    seconds: float
    most_bytes: int


async def poured(
    tap: Tap[T], line: Callable[[T], bytes], bounds: Bounds, head: bytes = b""
) -> AsyncIterator[bytes]:
    """What comes out of a tap as whole lines, until a bound is reached or the tap is over; then,
    and when nobody listens any more, the tap is closed."""
    until_s, left = time.monotonic() + bounds.seconds, bounds.most_bytes - len(head)
    try:
        yield head
        while True:
            over = bool(tap.why_over)
            for entry in tap.take():
                data = await asyncio.to_thread(line, entry)
                left -= len(data)
                if left < 0:
                    tap.end(FULL)
                    return
                yield data
            if over:
                return
            if time.monotonic() >= until_s:
                tap.end(IN_TIME)
            else:
                await asyncio.sleep(_LOOK_S)
    finally:
        tap.end("nobody listens any more")
        tap.take()
