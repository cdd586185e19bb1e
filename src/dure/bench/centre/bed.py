"""Processes of a centre under load: a server of its own, members, and who asks it."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from dure.api.clusters import ClusterKind, ClusterSpec
from dure.bench.common.agents import DURE
from dure.client.fleet import AsyncFleetClient, calls
from dure.client.fleet.config import Context
from dure.domain.errors import DureError

HOST = "127.0.0.1"
START_LIMIT_S = 300.0
"""Generous: a server that takes over many jobs on a busy machine."""
_STOP_LIMIT_S = 30.0
_POLL_S = 0.05
_LOG_TAIL = 2000
_TOOK_OVER = re.compile(r"took over (\d+) jobs in ([\d.]+) s")


class BedError(DureError):
    """A process of the bench did not do what it must."""


@dataclass(frozen=True)
class Running:
    """A process that runs, and what it wrote."""

    name: str
    pid: int
    log: Path

    def said(self) -> str:
        """Everything it wrote."""
        return self.log.read_text(encoding="utf-8", errors="replace")


@dataclass(frozen=True)
class Server:
    """A `dure server` that answers."""

    process: Running
    rest_port: int
    grpc_port: int
    token: str
    """An administrator's."""

    @property
    def url(self) -> str:
        """Where people ask."""
        return f"http://{HOST}:{self.rest_port}"

    def client(self) -> AsyncFleetClient:
        """As the administrator."""
        return AsyncFleetClient(Context((self.url,), self.token))

    async def took_over(self) -> tuple[int, float]:
        """Jobs that its planner knew at its start, and how long it took to read them."""
        await until("the planner knows everything", lambda: bool(self._taken()), self.process)
        jobs, took_s = self._taken()[-1]
        return int(jobs), float(took_s)

    def _taken(self) -> list[tuple[str, str]]:
        return _TOOK_OVER.findall(self.process.said())


@asynccontextmanager
async def dure(
    name: str, folder: Path, words: Sequence[object], env: Mapping[str, str] | None = None
) -> AsyncIterator[Running]:
    """A command of this installation as a process, ended when the context is left."""
    log = folder / f"{name}.log"
    with log.open("ab") as out:
        process = await asyncio.create_subprocess_exec(
            *DURE,
            *map(str, words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**os.environ, **(env or {})},
        )
    try:
        yield Running(name, process.pid, log)
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            async with asyncio.timeout(_STOP_LIMIT_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


@asynccontextmanager
async def server(folder: Path, address: str, token: str = "") -> AsyncIterator[Server]:
    """A server on a database, once it answers; without a token the one it makes at first."""
    rest, grpc = free_ports(2)
    data = folder / "data"
    words = ("--data", data, "--database", address)
    doors = ("--listen", f"{HOST}:{rest}", "--grpc", f"{HOST}:{grpc}")
    async with dure("server", folder, ("server", *words, *doors)) as process:
        await until("the server answers", lambda: _answers(rest), process)
        secret = token or (data / "admin-token").read_text(encoding="utf-8").strip()
        yield Server(process, rest, grpc, secret)


@asynccontextmanager
async def process_member(
    folder: Path, server: Server, client: AsyncFleetClient, name: str
) -> AsyncIterator[None]:
    """A cluster of processes with the nodes of the folder's `nodes.yaml`, and its member; nothing
    of what it started is left at the end."""
    spec = ClusterSpec(kind=ClusterKind.PROCESS, region="kr")
    await client.do(calls.put_cluster(name, spec, calls.CREATE))
    token = folder / f"{name}.token"
    secret = (await client.do(calls.issue_member_token(name))).secret
    token.write_text(secret, encoding="utf-8")
    words = (
        *("member", "--kind", "process", "--cluster", name, "--token-file", token),
        *("--server", f"http://{HOST}:{server.grpc_port}"),
        *("--nodes", folder / "nodes.yaml", "--state", folder / name),
    )
    try:
        async with dure(f"member-{name}", folder, words):
            yield
    finally:
        # Programs outlive their member; their supervisors end them.
        for begun in (folder / name / "instances").glob("*/begun"):
            with contextlib.suppress(ValueError, OSError):
                os.kill(int(begun.read_text(encoding="utf-8").partition(" ")[0]), signal.SIGTERM)


async def until(what: str, holds: Callable[[], bool], process: Running) -> None:
    """Wait until something holds; raises with the end of a process's log where it does not."""
    limit_s = time.monotonic() + START_LIMIT_S
    while not holds():
        if time.monotonic() > limit_s or not Path(f"/proc/{process.pid}/stat").exists():
            raise BedError(
                f"{process.name}: not so: {what} ({process.said()[-_LOG_TAIL:]})",
                "run it by hand, or on a machine that has less to do",
            )
        await asyncio.sleep(_POLL_S)


def free_ports(count: int) -> list[int]:
    """Ports on which nobody listens now."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind((HOST, 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://{HOST}:{port}/readyz", timeout=1.0).is_success
    except httpx.HTTPError:
        return False
