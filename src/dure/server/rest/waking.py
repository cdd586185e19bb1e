"""Wakes those who wait for something to happen: by a hint of the bus, or at the latest in a while.

One subscription serves all who wait; what happened they read from the store themselves.
"""

import asyncio
import contextlib

from dure.server.hints import EVENTS
from dure.server.ports import Bus


class Waker:
    """Tells of new events, and hears when others tell."""

    def __init__(self, bus: Bus, poll_s: float) -> None:
        self._bus = bus
        self._poll_s = poll_s
        self._waiting: set[asyncio.Future[None]] = set()

    def tell(self) -> None:
        """There are new events."""
        self._bus.publish(EVENTS)
        self._wake()

    async def wait(self) -> None:
        """Returns when there may be something new."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._poll_s):
                    await future
        finally:
            self._waiting.discard(future)

    async def listen(self) -> None:
        """Hear hints until cancelled."""
        async with self._bus.subscribe(EVENTS) as hints:
            async for _ in hints:
                self._wake()

    def _wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
