"""Tokens for namespaces of virtual clusters: asked for over a link, answered by the member."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable

from dure.domain.fleet.protocol.link import AccessAnswer, AccessRequest
from dure.stores.errors import NotFoundError

_ANSWER_S = 30.0
Say = Callable[[AccessRequest], Awaitable[None]]


class AccessError(NotFoundError):
    """There is no token, and why."""


class AccessDesk:
    """Those who wait for a token on one link."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[AccessAnswer]] = {}

    async def ask(self, name: str, for_s: int) -> AccessAnswer:
        """A token for a virtual cluster; raises `AccessError`."""
        number = next(self._ids)
        answer: asyncio.Future[AccessAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            await self._say(AccessRequest(number, name, for_s))
            async with asyncio.timeout(_ANSWER_S):
                found = await answer
        except TimeoutError:
            raise AccessError("the cluster does not answer", "try again") from None
        finally:
            del self._waiting[number]
        if found.error:
            raise AccessError(found.error)
        return found

    def brought(self, answer: AccessAnswer) -> None:
        """A member answered."""
        waiting = self._waiting.get(answer.id)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def close(self) -> None:
        """The link is over."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(AccessError("the link to the cluster was lost", "try again"))
