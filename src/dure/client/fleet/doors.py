"""Two doors to the centre, one that waits and one to be awaited; both carry out the same calls.

What is decided (whom to ask, whether again, what an answer means) is decided in `patience`, `sse`
and `errors`; here are only the two ways to send and to sleep.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from dure.api.endpoints import Endpoints
from dure.api.history import EventDocument, Page
from dure.api.job_views import JobDocument, JobSummary
from dure.api.virtual import VirtualNodes
from dure.client.fleet import calls
from dure.client.fleet.calls import Ask
from dure.client.fleet.config import Context
from dure.client.fleet.errors import FleetError
from dure.client.fleet.patience import Patience, Tries
from dure.client.fleet.sse import EventLines, ServerEvent
from dure.domain.errors import InputError

AnswerT = TypeVar("AnswerT", bound=BaseModel)
ItemT = TypeVar("ItemT", bound=Any)
_LONG_POLL_S = 30.0
_SILENCE_S = 30.0
"""A stream says a word every 10 s; after three times that it is cut."""


@dataclass(frozen=True, slots=True)
class EventGap:
    """Some events were pruned before they were read: read the present state anew."""

    last: int
    """The stream goes on after this number."""


class _Door:
    """What both doors share: the context, and what is made of calls and answers."""

    def __init__(self, context: Context, patience: Patience | None = None) -> None:
        self.context = context
        self.patience = patience or Patience()
        self._server = 0

    def _options(self) -> dict[str, Any]:
        headers = {"User-Agent": "dure"}
        if self.context.token:
            headers["Authorization"] = f"Bearer {self.context.token}"
        return {
            "headers": headers,
            "timeout": self.patience.answer_s,
            "verify": self._trust(),
        }

    def _trust(self) -> ssl.SSLContext | bool:
        """Whose certificates are believed; to ask without TLS needs none, and is quicker."""
        if self.context.ca_file:
            try:
                return ssl.create_default_context(cafile=self.context.ca_file)
            except OSError as error:
                raise InputError(
                    f"{self.context.ca_file} is no file of certificates", "check the path"
                ) from error
        return any(server.startswith("https") for server in self.context.servers)

    def _tries(self, *, repeatable: bool) -> Tries:
        return Tries(self.context.servers, self._server, self.patience, repeatable=repeatable)

    def _sent(self, ask: Ask[Any]) -> dict[str, Any]:
        headers = dict(ask.headers)
        content = None
        if ask.body is not None:
            content = ask.body.model_dump_json(exclude_defaults=True).encode()
            headers["Content-Type"] = "application/json"
        waits_s = float(ask.params.get("timeout", 0.0))
        return {
            "method": ask.method,
            "params": ask.params,
            "headers": headers,
            "content": content,
            "timeout": self.patience.answer_s + waits_s,
        }

    @staticmethod
    def _made(ask: Ask[AnswerT], response: httpx.Response) -> AnswerT:
        if not response.content:
            return ask.gives()
        try:
            return _read(ask.gives, response.content)
        except ValidationError as error:
            raise FleetError(
                f"the answer to {ask.method} {ask.path} is not understood",
                "use a client of the server's version",
            ) from error


def _read(model: type[AnswerT], raw: bytes | str) -> AnswerT:
    """An answer; what a newer server says beside what is known here is left out."""
    return model.model_validate_json(raw, by_alias=True, by_name=False, extra="ignore")


def _said_of_job(event: ServerEvent) -> JobSummary | None:
    return _read(JobSummary, event.data) if event.kind == "job" else None


def _said_of_events(event: ServerEvent) -> EventDocument | EventGap:
    if event.kind == "gap":
        return EventGap(int(event.id))
    return _read(EventDocument, event.data)


class FleetClient(_Door):
    """Asks and waits for the answer; not for use by several threads at once."""

    def __init__(self, context: Context, patience: Patience | None = None) -> None:
        super().__init__(context, patience)
        self._http = httpx.Client(**self._options())

    def __enter__(self) -> "FleetClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def do(self, ask: Ask[AnswerT]) -> AnswerT:
        """Carry out a call; raises `FleetError`."""
        tries, sent = self._tries(repeatable=ask.repeatable), self._sent(ask)
        while True:
            try:
                response = self._http.request(url=tries.url + ask.path, **sent)
            except httpx.TransportError as error:
                wait_s = tries.failed(error)
            else:
                if response.is_success:
                    self._server = tries.server
                    return self._made(ask, response)
                wait_s = tries.answered(response.status_code, response.headers, response.content)
            time.sleep(wait_s)

    def each(self, page: Callable[[str], Ask[Page[ItemT]]]) -> Iterator[ItemT]:
        """Every item of a list, page by page; `page` makes the call for a cursor."""
        cursor = ""
        while True:
            found = self.do(page(cursor))
            yield from found.items
            cursor = found.cursor
            if not cursor:
                return

    def wait(self, job: str, timeout_s: float | None = None) -> JobDocument:
        """A job when it has ended; after the timeout, as it then is."""
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = _LONG_POLL_S if until_s is None else until_s - time.monotonic()
            found = self.do(calls.wait_for_job(job, max(0.0, min(_LONG_POLL_S, left_s))))
            if found.phase.ended or left_s <= 0:
                return found

    def watch(self, job: str) -> Iterator[JobSummary]:
        """A job as it is now and at each change, to its end; goes on after cuts."""
        before = None
        for event in self._follow(f"/v1/jobs/{job}/watch", {}):
            said = _said_of_job(event)
            if said is not None and said != before:
                before = said
                yield said
                if said.phase.ended:
                    return

    def endpoints(self, job: str) -> Iterator[Endpoints]:
        """Where a service answers, now and at each change, to its end; goes on after cuts."""
        for event in self._follow(f"/v1/jobs/{job}/endpoints/watch", {}):
            if event.kind == "endpoints":
                found = _read(Endpoints, event.data)
                yield found
                if found.ended:
                    return

    def events(self, after: int | None = None, **wanted: Any) -> Iterator[EventDocument | EventGap]:
        """Events as they happen, after a number or from now on; goes on after cuts."""
        for event in self._follow("/v1/events/stream", wanted, after):
            yield _said_of_events(event)

    def logs(self, job: str, **wanted: Any) -> Iterator[bytes]:
        """What an instance of a job wrote, as it comes."""
        return self._raw(f"/v1/jobs/{job}/logs", wanted)

    def bill_table(self, **wanted: Any) -> Iterator[bytes]:
        """A bill as CSV, as it comes; by the fields of `calls.get_bill`."""
        given = {name: value for name, value in wanted.items() if value not in (None, "")}
        return self._raw("/v1/bills/csv", given)

    def record(self, seconds: float, most_bytes: int) -> Iterator[bytes]:
        """What the planner knows, is told and decides, as it comes."""
        try:
            yield from self._raw("/v1/recording", {"seconds": seconds, "mostBytes": most_bytes})
        except httpx.TransportError as error:
            raise FleetError(f"the centre broke off ({error})", "record again") from error

    def _raw(self, path: str, wanted: dict[str, Any]) -> Iterator[bytes]:
        tries = self._tries(repeatable=True)
        while True:
            try:
                with self._http.stream(
                    "GET",
                    tries.url + path,
                    params=wanted,
                    timeout=httpx.Timeout(self.patience.answer_s, read=None),
                ) as response:
                    if response.is_success:
                        yield from response.iter_raw()
                        return
                    wait_s = tries.answered(response.status_code, response.headers, response.read())
            except httpx.ConnectError as error:
                wait_s = tries.failed(error)
            time.sleep(wait_s)

    def _follow(
        self, path: str, params: dict[str, Any], after: int | None = None
    ) -> Iterator[ServerEvent]:
        lines = EventLines()
        lines.last_id = "" if after is None else str(after)
        tries = self._tries(repeatable=True)
        while True:
            headers = {"Last-Event-ID": lines.last_id} if lines.last_id else {}
            try:
                with self._http.stream(
                    "GET", tries.url + path, params=params, headers=headers, timeout=_SILENCE_S
                ) as response:
                    if response.is_success:
                        for line in response.iter_lines():
                            event = lines.feed(line)
                            if event is not None:
                                tries = self._tries(repeatable=True)
                                yield event
                        wait_s = 0.1
                    else:
                        wait_s = tries.answered(
                            response.status_code, response.headers, response.read()
                        )
            except httpx.TransportError as error:
                wait_s = tries.failed(error)
            time.sleep(wait_s)


class AsyncFleetClient(_Door):
    """The same, to be awaited."""

    def __init__(self, context: Context, patience: Patience | None = None) -> None:
        super().__init__(context, patience)
        self._http = httpx.AsyncClient(**self._options())

    async def __aenter__(self) -> "AsyncFleetClient":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give the connections back."""
        await self._http.aclose()

    async def do(self, ask: Ask[AnswerT]) -> AnswerT:
        """Carry out a call; raises `FleetError`."""
        tries, sent = self._tries(repeatable=ask.repeatable), self._sent(ask)
        while True:
            try:
                response = await self._http.request(url=tries.url + ask.path, **sent)
            except httpx.TransportError as error:
                wait_s = tries.failed(error)
            else:
                if response.is_success:
                    self._server = tries.server
                    return self._made(ask, response)
                wait_s = tries.answered(response.status_code, response.headers, response.content)
            await asyncio.sleep(wait_s)

    async def each(self, page: Callable[[str], Ask[Page[ItemT]]]) -> AsyncIterator[ItemT]:
        """Every item of a list, page by page; `page` makes the call for a cursor."""
        cursor = ""
        while True:
            found = await self.do(page(cursor))
            for item in found.items:
                yield item
            cursor = found.cursor
            if not cursor:
                return

    async def wait(self, job: str, timeout_s: float | None = None) -> JobDocument:
        """A job when it has ended; after the timeout, as it then is."""
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = _LONG_POLL_S if until_s is None else until_s - time.monotonic()
            found = await self.do(calls.wait_for_job(job, max(0.0, min(_LONG_POLL_S, left_s))))
            if found.phase.ended or left_s <= 0:
                return found

    async def watch(self, job: str) -> AsyncIterator[JobSummary]:
        """A job as it is now and at each change, to its end; goes on after cuts."""
        before = None
        async for event in self._follow(f"/v1/jobs/{job}/watch", {}):
            said = _said_of_job(event)
            if said is not None and said != before:
                before = said
                yield said
                if said.phase.ended:
                    return

    async def endpoints(self, job: str) -> AsyncIterator[Endpoints]:
        """Where a service answers, now and at each change, to its end; goes on after cuts."""
        async for event in self._follow(f"/v1/jobs/{job}/endpoints/watch", {}):
            if event.kind == "endpoints":
                found = _read(Endpoints, event.data)
                yield found
                if found.ended:
                    return

    async def events(
        self, after: int | None = None, **wanted: Any
    ) -> AsyncIterator[EventDocument | EventGap]:
        """Events as they happen, after a number or from now on; goes on after cuts."""
        async for event in self._follow("/v1/events/stream", wanted, after):
            yield _said_of_events(event)

    async def virtual_nodes(self, name: str) -> AsyncIterator[VirtualNodes]:
        """The nodes of a dedicated virtual cluster, now and at each change, until it is gone."""
        async for event in self._follow(f"/v1/virtualclusters/{name}/nodes/watch", {}):
            if event.kind == "gone":
                return
            if event.kind == "nodes":
                yield _read(VirtualNodes, event.data)

    async def logs(self, job: str, **wanted: Any) -> AsyncIterator[bytes]:
        """What an instance of a job wrote, as it comes."""
        path, tries = f"/v1/jobs/{job}/logs", self._tries(repeatable=True)
        while True:
            try:
                async with self._http.stream(
                    "GET",
                    tries.url + path,
                    params=wanted,
                    timeout=httpx.Timeout(self.patience.answer_s, read=None),
                ) as response:
                    if response.is_success:
                        async for chunk in response.aiter_raw():
                            yield chunk
                        return
                    wait_s = tries.answered(
                        response.status_code, response.headers, await response.aread()
                    )
            except httpx.ConnectError as error:
                wait_s = tries.failed(error)
            await asyncio.sleep(wait_s)

    async def _follow(
        self, path: str, params: dict[str, Any], after: int | None = None
    ) -> AsyncIterator[ServerEvent]:
        lines = EventLines()
        lines.last_id = "" if after is None else str(after)
        tries = self._tries(repeatable=True)
        while True:
            headers = {"Last-Event-ID": lines.last_id} if lines.last_id else {}
            try:
                async with self._http.stream(
                    "GET", tries.url + path, params=params, headers=headers, timeout=_SILENCE_S
                ) as response:
                    if response.is_success:
                        async for line in response.aiter_lines():
                            event = lines.feed(line)
                            if event is not None:
                                tries = self._tries(repeatable=True)
                                yield event
                        wait_s = 0.1
                    else:
                        wait_s = tries.answered(
                            response.status_code, response.headers, await response.aread()
                        )
            except httpx.TransportError as error:
                wait_s = tries.failed(error)
            await asyncio.sleep(wait_s)
