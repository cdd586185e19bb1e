"""Connections to an API server: used again where that is safe, never where it is not."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from dure.kube.connections import Connections

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@asynccontextmanager
async def _served(handler: Handler) -> AsyncIterator[tuple[httpx.AsyncClient, list[int]]]:
    """A client of a server that talks so, and a count of connections."""
    opened: list[int] = []

    async def counted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(1)
        try:
            await handler(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(counted, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport = Connections(ssl.create_default_context(), ())
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient(base_url=url, transport=transport, timeout=30.0) as client:
            yield client, opened
    finally:
        server.close()


async def _request(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


async def _answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await _request(reader):
        writer.write(_ANSWER)


async def _answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await _request(reader)
    writer.write(_ANSWER)
    await writer.drain()


def test_one_connection_serves_one_request_after_the_other() -> None:
    async def test() -> None:
        async with _served(_answer_all) as (client, opened):
            for _ in range(5):
                assert (await client.get("/")).text == "ok"
            assert len(opened) == 1

    asyncio.run(test())


def test_requests_at_once_have_connections_of_their_own() -> None:
    async def test() -> None:
        async with _served(_answer_all) as (client, opened):
            answers = await asyncio.gather(*(client.get("/") for _ in range(4)))
            assert [answer.text for answer in answers] == ["ok"] * 4
            assert len(opened) == 4

    asyncio.run(test())


def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    async def test() -> None:
        async with _served(_answer_once) as (client, opened):
            for _ in range(3):
                assert (await client.post("/", content=b"once")).text == "ok"
                await asyncio.sleep(0.05)
            assert len(opened) == 3

    asyncio.run(test())


def test_an_answer_that_nobody_reads_to_its_end_costs_its_connection() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n")
        await reader.read()

    async def test() -> None:
        async with _served(endless) as (client, opened):
            for number in (1, 2):
                async with client.stream("GET", "/") as response:
                    assert await anext(response.aiter_bytes()) == b"one"
                assert len(opened) == number

    asyncio.run(test())


def test_silence_and_nonsense_are_errors_of_httpx() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        writer.write(b"what?\r\n\r\n")
        await writer.drain()

    async def test() -> None:
        async with _served(silent) as (client, _):
            with pytest.raises(httpx.ReadTimeout):
                await client.get("/", timeout=0.05)
        async with _served(nonsense) as (client, _):
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get("/")
        async with httpx.AsyncClient(
            transport=Connections(ssl.create_default_context(), ())
        ) as client:
            with pytest.raises(httpx.ConnectError):
                await client.get("http://127.0.0.1:1/")

    asyncio.run(test())
