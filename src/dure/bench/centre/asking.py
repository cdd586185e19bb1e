"""Requests at a rate, whoever waits for them: what each took, and who answered."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import httpx

from dure.kit.memory import keep_what_is_loaded

FAILED = ""
_ANSWER_S = 30.0


@dataclass(frozen=True, slots=True)
class Asked:
    """One request."""

    at_s: float
    took_s: float
    attempt: str
    """That answered; `FAILED`: none did."""


@dataclass
class Asker:
    """Asks one address for as long as it runs."""

    url: str
    per_s: float
    """May be changed meanwhile."""
    asked: list[Asked] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def asking(self) -> AsyncIterator[None]:
        """Ask meanwhile; at the end all answers are waited for."""
        keep_what_is_loaded()  # else pauses of who asks would count as those of who answers
        ending = asyncio.Event()
        task = asyncio.create_task(self._run(ending))
        try:
            yield
        finally:
            ending.set()
            await task

    async def _run(self, ending: asyncio.Event) -> None:
        under_way = set()
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(timeout=_ANSWER_S, limits=limits, trust_env=False) as client:
            at_s = time.perf_counter()
            while not ending.is_set():
                under_way.add(task := asyncio.create_task(self._ask(client, at_s)))
                task.add_done_callback(under_way.discard)
                at_s += 1 / self.per_s
                await asyncio.sleep(max(0.0, at_s - time.perf_counter()))
            await asyncio.gather(*under_way)

    async def _ask(self, client: httpx.AsyncClient, due_s: float) -> None:
        said = FAILED
        with contextlib.suppress(httpx.HTTPError):
            told = await client.get(self.url)
            said = told.text if told.is_success else FAILED
        # From when it was due: who asks late because of another answer waited for that too.
        self.asked.append(Asked(due_s, time.perf_counter() - due_s, said))


async def answers(url: str) -> bool:
    """Whether anybody does."""
    async with httpx.AsyncClient(timeout=_ANSWER_S, trust_env=False) as client:
        with contextlib.suppress(httpx.HTTPError):
            return (await client.get(url)).is_success
    return False
