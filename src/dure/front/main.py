"""The process `dure front`: listens, and follows where the service is."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Generator
from dataclasses import dataclass

import uvicorn
import uvloop

from dure.api.base import is_id
from dure.api.job_views import SortOrder
from dure.client.fleet import AsyncFleetClient, FleetError, calls
from dure.client.fleet.config import Context
from dure.domain.errors import DureError, InputError
from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.fleet.workloads import WorkloadKind
from dure.front.proxy import Front
from dure.front.reporting import Reporter
from dure.front.table import Table
from dure.kit.memory import keep_what_is_loaded

_log = logging.getLogger(__name__)

_AGAIN_S = 1.0
"""Between two questions to a centre that is away, or for a service that is not there yet."""
_GRACE_S = 30
"""For requests under way when the front is told to end."""
_LIVE = tuple(phase.value for phase in JobPhase if not phase.ended)


@dataclass(frozen=True)
class FrontOptions:
    """How a front is started."""

    centre: Context
    service: str
    """Id of a job, or its name: then of the newest one of that name which has not ended."""
    host: str
    port: int
    patience_s: float
    answer_s: float


def run(options: FrontOptions) -> None:
    """Until told to end."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s", level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # A line for every request is too much.
    keep_what_is_loaded()
    # A request is some dozens of turns of the loop: uvloop's cost a third less of the processor.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(options))


async def _run(options: FrontOptions) -> None:
    front = Front(Table(), options.patience_s, options.answer_s)
    server = _server(front, options)
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    async with AsyncFleetClient(options.centre) as client:
        await _checked(client, options.service)
        reporter = Reporter(client, front.traffic)
        tasks = {
            asyncio.create_task(_serve(server)),
            asyncio.create_task(Follower(client, options.service, front, reporter).run()),
            asyncio.create_task(ending.wait()),
        }
        reporting = asyncio.create_task(reporter.run())
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            server.should_exit = True
            for task in done:
                task.result()
            if not ending.is_set():
                raise InputError(
                    f"cannot listen at {options.host}:{options.port}", "give another --listen"
                )
        finally:
            server.should_exit = True
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait(tasks, timeout=_GRACE_S)
            for task in (*tasks, reporting):
                task.cancel()
            await asyncio.gather(*tasks, reporting, return_exceptions=True)


class _Uvicorn(uvicorn.Server):
    """Leaves signals to the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def _server(front: Front, options: FrontOptions) -> uvicorn.Server:
    return _Uvicorn(
        uvicorn.Config(
            front.app(),
            host=options.host.strip("[]"),
            port=options.port,
            ws="none",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
    )


async def _serve(server: uvicorn.Server) -> None:
    with contextlib.suppress(SystemExit):
        await server.serve()


async def _checked(client: AsyncFleetClient, service: str) -> None:
    """Refuse a job that is none of the asker's, or no service, at once."""
    if not is_id(service):
        return
    job = await client.do(calls.get_job(service))
    if job.spec.kind is not WorkloadKind.SERVING:
        raise InputError(f"job {service} is no service but {job.spec.kind.value}", "name a service")


class Follower:
    """Keeps the table as the centre says; while that is away, as it said last."""

    def __init__(
        self, client: AsyncFleetClient, service: str, front: Front, reporter: Reporter
    ) -> None:
        self._client = client
        self._service = service
        self._front = front
        self._reporter = reporter

    async def run(self) -> None:
        """For ever."""
        while True:
            try:
                job = self._reporter.job = await self._find()
                if job:
                    await self._follow(job)
            except FleetError as error:
                _log.warning("goes on with %d instances: %s", len(self._front.table), error)
            except DureError as error:
                _log.warning("%s", error)
            await asyncio.sleep(_AGAIN_S)

    async def _find(self) -> str:
        """The job behind the name; empty: there is none now."""
        if is_id(self._service):
            return self._service
        found = await self._client.do(
            calls.list_jobs(
                name=self._service, phase=list(_LIVE), order=SortOrder.NEWEST.value, limit=1
            )
        )
        return found.items[0].id if found.items else ""

    async def _follow(self, job: str) -> None:
        async for found in self._client.endpoints(job):
            before = {each.address for each in self._front.table}
            self._front.table.set((each.address, each.weight) for each in found.items)
            self._front.traffic.know({each.address: each.cluster for each in found.items})
            now = {each.address for each in self._front.table}
            if now != before:
                _log.info("%s answers at %s", job, ", ".join(sorted(now)) or "no address")
            self._front.changed()
