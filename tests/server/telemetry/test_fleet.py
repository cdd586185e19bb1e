"""What the centre measures: how long jobs wait, how far clusters are behind, what people say."""

import asyncio
from pathlib import Path

from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.fleet.protocol.reports import RunPhase
from dure.domain.metrics.catalogue import ALL
from dure.domain.metrics.kinds import Reading, Spread
from dure.server.options import ServerOptions
from dure.server.telemetry.fleet import FleetReader
from dure.server.telemetry.keeping import measuring
from dure.stores.errors import StoreUnavailableError
from dure.stores.rows import NewEvent
from tests.server.centres import QUICK, World, world
from tests.server.members import linked
from tests.server.rest.centre import Centre

KNOWN = {name for metric in ALL for name in metric.series}


class Found:
    """Readings by name and labels."""

    def __init__(self, readings: list[Reading | Spread]) -> None:
        self.values = {
            (each.metric.name, *each.labels): each.value
            for each in readings
            if isinstance(each, Reading)
        }
        self.spreads = {each.metric.name: each for each in readings if isinstance(each, Spread)}


def reader_of(here: World) -> FleetReader:
    core = here.core
    return FleetReader(core.services, links=lambda: len(core.links.clusters))


async def read(reader: FleetReader) -> Found:
    return Found([*await reader.read()])


def test_a_jobs_way_to_its_place_and_until_it_runs_is_counted_once(address: str) -> None:
    async def play() -> None:
        async with world(address) as here:
            reader = reader_of(here)

            async def leads() -> bool:
                return here.core.leader.leads

            await here.until(leads, "it leads")
            await read(reader)
            job = await here.submit()
            first = await read(reader)
            assert first.values["dure_job_oldest_waiting_seconds",] >= 0.0
            async with linked(here.port, here.secrets["seoul"], "seoul") as member:
                await member.join()
                wanted = await member.wanted()
                await member.status(wanted.key, RunPhase.RUNNING)
                await here.phase(job, JobPhase.RUNNING)
                found = await read(reader)
                again = await read(reader)
            for each in (found, again):
                assert each.spreads["dure_job_placement_seconds"].observations == 1
                assert each.spreads["dure_job_start_seconds"].observations == 1
            placed = found.spreads["dure_job_placement_seconds"].sum
            assert 0.0 < placed <= found.spreads["dure_job_start_seconds"].sum
            assert found.values["dure_jobs", "running"] == 1.0
            assert found.values["dure_attempts", "seoul", "running"] == 1.0
            assert found.values["dure_cluster_drift_attempts", "seoul"] == 0.0
            assert found.values["dure_cluster_linked", "seoul"] == 1.0
            assert found.values["dure_cluster_silent_seconds", "seoul"] < 60.0
            assert found.values["dure_links",] == 1.0
            assert found.values["dure_leads",] == found.values["dure_bus_up",] == 1.0
            assert found.spreads["dure_planner_round_seconds"].observations > 0
            assert [key for key in found.values if key[0] == "dure_site_free_devices"]
            assert {key[0] for key in found.values} <= KNOWN

    asyncio.run(play())


def test_a_cluster_that_does_not_accept_its_plan_lags_until_it_does(address: str) -> None:
    async def play() -> None:
        async with world(address) as here:
            reader = reader_of(here)
            level = await read(reader)
            assert level.values["dure_cluster_reconcile_lag_seconds", "seoul"] == 0.0
            async with here.store.transaction() as tx:
                await tx.clusters.next_revision("seoul", epoch=1)
            first = await read(reader)
            await asyncio.sleep(0.05)
            later = await read(reader)
            key = ("dure_cluster_reconcile_lag_seconds", "seoul")
            assert later.values[key] > first.values[key] >= 0.0
            assert later.values["dure_cluster_plans_behind", "seoul"] >= 1.0

    asyncio.run(play())


def test_a_server_that_does_not_lead_counts_no_waits(address: str) -> None:
    async def play() -> None:
        async with world(address) as here:
            services = here.core.services
            idle = FleetReader(type(services)(services.state, services.bus, services.logs))
            await here.submit()
            found = await read(idle)
            assert found.spreads["dure_job_placement_seconds"].observations == 0
            assert ("dure_job_oldest_waiting_seconds",) not in found.values
            assert found.values["dure_leads",] == 0.0
            assert ("dure_jobs", "queued") in found.values or (
                "dure_jobs",
                "placed",
            ) in found.values

    asyncio.run(play())


def test_waits_are_followed_over_more_events_than_are_read_at_a_time(address: str) -> None:
    async def play() -> None:
        async with world(address) as here:
            reader = reader_of(here)

            async def leads() -> bool:
                return here.core.leader.leads

            await here.until(leads, "it leads")
            await read(reader)
            async with here.store.transaction() as tx:
                for number in range(1100):
                    tx.events.add(NewEvent("job.submitted", f"j{number}", "acme"))
                    placed = {"phase": "placed", "reason": ""}
                    tx.events.add(NewEvent("job.changed", f"j{number}", "acme", placed))
            found = await read(reader)
            assert found.spreads["dure_job_placement_seconds"].observations == 1100

    asyncio.run(play())


def test_the_leader_keeps_series_and_they_are_found(tmp_path: Path) -> None:
    async def play() -> None:
        settings = type(QUICK)(**{**vars(QUICK), "measure_s": 0.05})
        options = ServerOptions(tmp_path, settings=settings)
        async with (
            world(f"sqlite:///{tmp_path / 's.db'}", settings=settings) as here,
            measuring(here.core, options) as telemetry,
        ):

            async def kept() -> bool:
                return "dure_leads" in await telemetry.names()

            await here.until(kept, "series are kept")
            _, found = await telemetry.series({"name": "dure_leads", "since": "1m"}, ())
            assert found[0].points[-1].last == 1.0
            text = (await telemetry.metrics({("GET", 200): 3})).decode()
            assert 'dure_http_answers_total{method="GET",status="200"} 3.0' in text
            assert "dure_series_store_up 1.0" in text

    asyncio.run(play())


def test_a_database_that_is_away_leaves_out_the_fleet_and_shows_the_rest(address: str) -> None:
    async def play() -> None:
        async with (
            world(address) as here,
            measuring(here.core, ServerOptions(Path(), series="off")) as telemetry,
        ):

            async def away() -> list[Reading]:
                raise StoreUnavailableError("the database does not answer", "wait")

            telemetry.reader.read = away  # type: ignore[method-assign]
            text = (await telemetry.metrics({})).decode()
            assert "dure_jobs{" not in text
            assert "dure_bus_up 1.0" in text
            assert 'dure_telemetry_failures_total{layer="fleet"} 1.0' in text

    asyncio.run(play())


def test_what_people_say_is_an_event_an_audit_entry_and_a_measurement(tmp_path: Path) -> None:
    with Centre(f"sqlite:///{tmp_path / 'state.db'}") as centre:
        said = {"tenant": "acme", "verdict": "bad", "note": "slow\x1b today"}
        with centre.client("acme") as http:
            assert http.post("/v1/feedback", json=said).status_code == 204
            other = http.post("/v1/feedback", json={"tenant": "globex", "verdict": "bad"})
            assert other.status_code == 404
            wrong = http.post("/v1/feedback", json={"tenant": "acme", "verdict": "so-so"})
            assert wrong.status_code == 422
        with centre.client("admin") as http:
            text = http.get("/metrics").text
            assert 'dure_feedback_total{tenant="acme",verdict="bad"} 1.0' in text
            events = http.get("/v1/events?after=0").text
            assert "tenant.feedback" in events
            assert "slow  today" in events
            refused = http.get("/v1/series?name=dure_jobs")
            assert refused.status_code == 422
            assert "keeps no series" in refused.text
