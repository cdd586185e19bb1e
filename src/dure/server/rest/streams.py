"""Streams to those who follow: server-sent events that say that they are alive, and end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.responses import StreamingResponse

from dure.server.rest.desk import Desk
from dure.server.rest.problems import RefusedError

MEDIA = "text/event-stream"
LEAST_S = 0.1
"""Between two looks at the store for one stream, however many hints there are."""
_SEPARATORS = {each: f"\\u{each:04x}" for each in (0x85, 0x2028, 0x2029)}
"""Characters that JSON leaves as they are and some readers take for the end of a line."""
_ALIVE = b": alive\n\n"
_READINGS: set[asyncio.Task[Any]] = set()
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Said:
    """One server-sent event."""

    kind: str
    data: str
    id: str = ""

    def encoded(self) -> bytes:
        """On the line; data is JSON, which has no line breaks."""
        number = f"id: {self.id}\n" if self.id else ""
        data = self.data.translate(_SEPARATORS)
        return f"{number}event: {self.kind}\ndata: {data}\n\n".encode()


async def undisturbed(reading: Coroutine[Any, Any, ResultT]) -> ResultT:
    """What a reading gives; it is finished also when nobody waits for it any more, since a
    connection to the database that is left in the middle of something is lost."""
    task = asyncio.create_task(reading)
    _READINGS.add(task)
    task.add_done_callback(_READINGS.discard)
    return await asyncio.shield(task)


async def pause(desk: Desk) -> None:
    """Wait until there may be something new."""
    await asyncio.gather(desk.waker.wait(), asyncio.sleep(LEAST_S))


def streamed(desk: Desk, source: AsyncIterator[Said]) -> StreamingResponse:
    """A stream as an answer; refused where there are too many already."""
    if desk.open_streams["all"] >= desk.limits.streams:
        raise RefusedError(
            503,
            "too-many-streams",
            "too many streams are open; try again later",
            headers={"Retry-After": "5"},
        )
    return StreamingResponse(
        _lively(desk, source), media_type=MEDIA, headers={"Cache-Control": "no-store"}
    )


async def _lively(desk: Desk, source: AsyncIterator[Said]) -> AsyncIterator[bytes]:
    """What the source says, and a word now and then while it says nothing."""
    desk.open_streams["all"] += 1
    following: asyncio.Task[Said] | None = None
    try:
        yield _ALIVE
        while True:
            following = following or asyncio.ensure_future(anext(source))
            done, _ = await asyncio.wait({following}, timeout=desk.limits.heartbeat_s)
            if not done:
                yield _ALIVE
                continue
            try:
                said = following.result()
            except StopAsyncIteration:
                return
            following = None
            yield said.encoded()
    finally:
        desk.open_streams["all"] -= 1
        if following is not None:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await following
