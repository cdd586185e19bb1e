"""Requests through a front to real instances that come, go and fail."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from dure.front.proxy import Front
from dure.front.table import Table
from tests.stores.helpers import asynchronous

Answer = Callable[[Request], Awaitable[Response]]
ALL = ["GET", "POST", "PUT", "DELETE"]


@contextlib.asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = uvicorn.Server(
        uvicorn.Config(app, port=port, log_config=None, ws="none", timeout_graceful_shutdown=1)
    )
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    task = asyncio.create_task(server.serve())
    async with asyncio.timeout(30):
        while not server.started:
            await asyncio.sleep(0.01)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task


def instance(answer: Answer) -> Starlette:
    return Starlette(routes=[Route("/{path:path}", answer, methods=ALL)])


def named(name: str) -> Starlette:
    async def answer(request: Request) -> Response:
        body = (await request.body()).decode()
        said = f"{name} {request.method} {request.url.path}?{request.url.query} {body}"
        headers = {"x-host": request.headers["host"], "x-by": request.headers["x-forwarded-for"]}
        return PlainTextResponse(said, 201, headers)

    return instance(answer)


@contextlib.asynccontextmanager
async def front(*addresses: str, patience_s: float = 30.0) -> AsyncIterator[tuple[Front, Any]]:
    table = Table()
    table.set((each, 1) for each in addresses)
    made = Front(table, patience_s, 30.0)
    async with (
        served(made.app()) as address,
        httpx.AsyncClient(base_url=f"http://{address}", timeout=30) as client,
    ):
        yield made, client


async def closed_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@asynchronous
async def test_a_request_and_its_answer_pass_unchanged() -> None:
    async with served(named("a")) as one, front(one) as (_, client):
        told = await client.post("/v1/x%2Fy", params={"q": "ü"}, content="hello")
        assert (told.status_code, told.text) == (201, "a POST /v1/x/y?q=%C3%BC hello")
        assert told.headers["x-host"] == client.base_url.netloc.decode()
        assert told.headers["x-by"] == "127.0.0.1"
        assert [each.in_flight for each in _.table] == [0]


@asynchronous
async def test_an_instance_that_is_not_there_is_passed_over_whatever_is_asked() -> None:
    async with served(named("a")) as one, front(await closed_port(), one) as (_, client):
        for _each in range(4):
            assert (await client.post("/", content="x")).status_code == 201


@asynchronous
async def test_a_request_waits_for_the_first_instance_and_is_told_when_none_comes() -> None:
    async with served(named("late")) as one, front() as (made, client):
        asked = asyncio.create_task(client.get("/"))
        await asyncio.sleep(0.2)
        assert not asked.done()
        made.table.set([(one, 1)])
        made.changed()
        assert (await asked).text.startswith("late")
    async with front(patience_s=0.0) as (_, client):
        refused = await client.get("/")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert "no instance that is ready" in refused.json()["detail"]


@asynchronous
async def test_what_an_instance_may_have_begun_is_repeated_only_where_that_is_safe() -> None:
    begun = 0

    async def dies(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal begun
        await reader.readuntil(b"\r\n\r\n")
        begun += 1
        writer.close()

    broken = await asyncio.start_server(dies, "127.0.0.1", 0)
    address = f"127.0.0.1:{broken.sockets[0].getsockname()[1]}"
    async with broken, served(named("good")) as one, front(address) as (made, client):
        told = await client.post("/", content="pay")
        assert (told.status_code, begun) == (502, 1)
        made.table.set([(address, 1), (one, 1)])
        for each in made.table:
            each.failures = 0
        assert (await client.get("/")).status_code == 201


@asynchronous
async def test_parts_of_an_answer_pass_as_they_come() -> None:
    go = asyncio.Event()

    async def slow(request: Request) -> Response:
        async def parts() -> AsyncIterator[bytes]:
            yield b"one "
            await go.wait()
            yield b"two"

        return StreamingResponse(parts())

    async with served(instance(slow)) as one, front(one) as (made, client):
        async with client.stream("GET", "/") as told:
            parts = told.aiter_raw()
            assert await anext(parts) == b"one "
            assert [each.in_flight for each in made.table] == [1]
            # It leaves, and ends what it has begun.
            made.table.set([(one, 0)])
            go.set()
            assert await anext(parts) == b"two"
        assert [each.in_flight for each in made.table] == [0]


@asynchronous
async def test_a_long_body_is_handed_on_as_it_comes() -> None:
    async def counts(request: Request) -> Response:
        total = 0
        async for part in request.stream():
            total += len(part)
        return PlainTextResponse(str(total))

    async def body() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield bytes(1 << 16)

    async with served(instance(counts)) as one, front(one) as (_, client):
        assert (await client.post("/", content=body())).text == str(1 << 22)


@asynchronous
async def test_nothing_is_added_and_nothing_of_one_who_asks_reaches_another() -> None:
    seen: list[dict[str, str]] = []

    async def remembers(request: Request) -> Response:
        seen.append(dict(request.headers))
        return PlainTextResponse("", headers={"set-cookie": "session=alice"})

    async with served(instance(remembers)) as one, front(one) as (_, client):
        host = client.base_url.netloc
        for _each in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
            writer.write(b"GET / HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n")
            assert b"session=alice" in await reader.read()
            writer.close()
    names = {"host", "x-forwarded-for", "x-forwarded-proto"}
    assert [set(each) for each in seen] == [names, names]


@asynchronous
async def test_an_answer_without_a_body_passes_with_any_length() -> None:
    async def same(request: Request) -> Response:
        return Response(status_code=304, headers={"content-length": "7", "etag": "x"})

    async with served(instance(same)) as one, front(one) as (_, client):
        told = await client.get("/")
        assert (told.status_code, told.headers["etag"], told.content) == (304, "x", b"")


@asynchronous
async def test_what_makes_instances_fail_is_not_given_to_all_of_them() -> None:
    begun = 0

    async def dies(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal begun
        await reader.readuntil(b"\r\n\r\n")
        begun += 1
        writer.close()

    servers = [await asyncio.start_server(dies, "127.0.0.1", 0) for _ in range(4)]
    addresses = [f"127.0.0.1:{each.sockets[0].getsockname()[1]}" for each in servers]
    async with front(*addresses) as (_, client):
        assert (await client.get("/")).status_code == 502
        assert begun == 2
    for each in servers:
        each.close()
