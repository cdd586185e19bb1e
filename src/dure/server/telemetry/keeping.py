"""The series of a server: opened, written while it leads, closed."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dure.server.core import Core
from dure.server.options import ServerOptions
from dure.server.telemetry.desk import Telemetry
from dure.server.telemetry.fleet import FleetReader
from dure.stores.series.opening import open_series
from dure.stores.series.ports import SeriesError, SeriesStore
from dure.stores.series.recorder import Recorder

_log = logging.getLogger(__name__)


@asynccontextmanager
async def measuring(core: Core, options: ServerOptions) -> AsyncIterator[Telemetry]:
    """Measure until the context is left."""
    services, leader = core.services, core.leader
    reader = FleetReader(
        services,
        links=lambda: len(core.links.clusters),
        epoch=lambda: leader.lease.epoch if leader.lease is not None else None,
    )
    telemetry = Telemetry(reader, services.leads)
    store = await asyncio.to_thread(_opened, options)
    recorder = Recorder(store) if store is not None else None
    if recorder is not None:
        telemetry.keeper, telemetry.shelf = recorder, store
        recorder.start()
    wanted = recorder is not None or services.tracer is not None
    keeping = asyncio.create_task(telemetry.keep(options.settings.measure_s)) if wanted else None
    try:
        yield telemetry
    finally:
        if keeping is not None:
            keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeping
        if recorder is not None:
            await asyncio.to_thread(recorder.stop)


def _opened(options: ServerOptions) -> SeriesStore | None:
    try:
        return open_series(
            options.series, options.series_file, options.series_bytes, options.series_token
        )
    except SeriesError as error:  # planning goes on without
        _log.warning("no series are kept: %s", error)
        return None
