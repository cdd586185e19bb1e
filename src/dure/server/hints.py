"""Hints on the bus: which topics there are, and how to wait for one without relying on it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dure.server.ports import Bus

EVENTS = "events"
"""There is something new in the table of events."""
DESIRED = "desired"
"""A cluster, named in the payload, shall have something else than before."""


class Wakeful:
    """Lets one task sleep until a hint comes, or for so long at most."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Let the sleeper go on; or its next sleep end at once."""
        self._woken.set()

    async def sleep(self, most_s: float) -> None:
        """Until woken, or for so long."""
        try:
            async with asyncio.timeout(most_s):
                await self._woken.wait()
        except TimeoutError:
            return
        finally:
            self._woken.clear()


@asynccontextmanager
async def woken_by(bus: Bus, topic: str, payload: bytes | None = None) -> AsyncIterator[Wakeful]:
    """Sleeps end with hints on a topic, with that payload where one is given."""
    wakeful = Wakeful()

    async def listen() -> None:
        async with bus.subscribe(topic) as hints:
            async for hint in hints:
                if payload is None or hint.payload == payload:
                    wakeful.wake()

    task = asyncio.create_task(listen())
    try:
        yield wakeful
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
