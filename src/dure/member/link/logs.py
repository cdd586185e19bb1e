"""What instances wrote, sent up the link in pieces to those who asked, until they stop reading."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Protocol

from dure.domain.errors import DureError
from dure.domain.fleet.protocol.desired import AttemptKey
from dure.domain.fleet.protocol.link import LogChunk, LogRequest

_log = logging.getLogger("dure.member")

MOST_READERS = 32
"""At once, on one link."""
_CHUNK_BYTES = 64 * 1024
_LEAST_PAUSE_S = 0.005
"""Between two pieces for one reader: plans and reports go first, and a slow reader is not
overrun."""


class Source(Protocol):
    """Where logs come from."""

    def logs(
        self, key: AttemptKey, index: int, *, follow: bool, tail: int | None
    ) -> AsyncIterator[bytes]:
        """What an instance wrote."""


Say = Callable[[LogChunk], Awaitable[None]]


class LogDesk:
    """All readers of one link."""

    def __init__(self, source: Source, say: Say) -> None:
        self._source = source
        self._say = say
        self._readers: dict[int, asyncio.Task[None]] = {}

    async def ask(self, request: LogRequest) -> None:
        """Begin to send; too many readers are told so."""
        if len(self._readers) >= MOST_READERS:
            why = f"{MOST_READERS} others are reading already; try again later"
            await self._say(LogChunk(request.id, end=True, error=why))
            return
        task = asyncio.create_task(self._send(request))
        self._readers[request.id] = task
        task.add_done_callback(lambda _: self._readers.pop(request.id, None))

    def cancel(self, number: int) -> None:
        """Nobody reads that any more."""
        task = self._readers.pop(number, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """The link is over."""
        tasks = list(self._readers.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, request: LogRequest) -> None:
        error = ""
        try:
            chunks = self._source.logs(
                request.key, request.index, follow=request.follow, tail=request.tail
            )
            async with aclosing(chunks) as reading:  # type: ignore[type-var]
                async for chunk in reading:
                    for at in range(0, len(chunk), _CHUNK_BYTES):
                        piece = chunk[at : at + _CHUNK_BYTES]
                        await self._say(LogChunk(request.id, piece))
                        await asyncio.sleep(_LEAST_PAUSE_S)
        except DureError as problem:
            error = str(problem)
        except OSError as problem:
            _log.warning("a log cannot be read: %s", problem)
            error = "it cannot be read"
        await self._say(LogChunk(request.id, end=True, error=error))
