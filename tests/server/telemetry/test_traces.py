"""A job's trace from its submission until it runs, as a collector of OpenTelemetry gets it."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.fleet.protocol.reports import RunPhase
from dure.kit.tracing import ENDPOINT_VARIABLES, trace_of
from dure.server.options import ServerOptions
from dure.server.telemetry.keeping import measuring
from tests.kit.collector import collecting
from tests.server.centres import QUICK, world
from tests.server.members import linked


def test_the_way_of_a_job_is_one_trace(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = type(QUICK)(**{**vars(QUICK), "measure_s": 0.05})
    options = ServerOptions(Path(), series="off", settings=settings)

    async def play() -> str:
        async with (
            world(address, settings=settings) as here,
            measuring(here.core, options) as telemetry,
        ):

            async def leads() -> bool:
                await telemetry.metrics({})
                return here.core.leader.leads

            await here.until(leads, "it leads")
            await telemetry.metrics({})
            job = await here.submit()
            async with linked(here.port, here.secrets["seoul"], "seoul") as member:
                await member.join()
                wanted = await member.wanted()
                await member.status(wanted.key, RunPhase.RUNNING)
                await here.phase(job, JobPhase.RUNNING)
                await telemetry.metrics({})
            return job

    with collecting() as collected:
        monkeypatch.setenv(ENDPOINT_VARIABLES[0], collected.url)
        job = asyncio.run(play())
    trace_id, span_id = trace_of(job)
    spans = {span.name: span for _, span in collected.spans}
    assert {"job", "job.queue", "job.commit", "job.start"} <= set(spans)
    assert {span.trace_id for span in spans.values()} == {trace_id.to_bytes(16, "big")}
    parts = [spans[f"job.{name}"] for name in ("queue", "commit", "start")]
    assert {part.parent_span_id for part in parts} == {span_id.to_bytes(8, "big")}
    whole = spans["job"]
    assert whole.start_time_unix_nano == parts[0].start_time_unix_nano
    for before, after in pairwise(parts):
        assert before.end_time_unix_nano == after.start_time_unix_nano
    assert parts[-1].end_time_unix_nano == whole.end_time_unix_nano
