"""A thousand jobs through a real server and real members: the bill is the sum of its placements."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import sqlalchemy as sa

from dure.domain.fleet.accounts import Role, TenantKind
from dure.domain.fleet.lifecycle import JobPhase
from dure.server.core import Core, running
from dure.server.rest.app import build_app
from dure.server.settings import Listening
from dure.stores import tables
from dure.stores.bus.local import LocalBus
from dure.stores.repos.access import Grant
from dure.stores.rows import Charge, Job, NewEvent, Policy, Tenant
from dure.stores.store import Store
from dure.stores.submissions import Submission
from tests.server.centres import QUICK, job_row, prepare
from tests.server.members import PROFILE
from tests.server.simulated import TimedCluster, member_of
from tests.stores.helpers import asynchronous

JOBS = 1000
HELD = 5
A_SECOND = 3600.0
"""Price of a device-hour: a device-second is one unit, so that cents matter in a short run."""
CLUSTERS: dict[str, Any] = {
    "seoul": {"tariff": {"deviceHour": {PROFILE: A_SECOND}}, "carbon": 4e6},
    "busan": {"tariff": {"currency": "KRW", "deviceHour": {PROFILE: 777_000.0}}, "carbon": 3e6},
    "jeju": {"electricity": 1e7, "carbon": 1e6},
}
ENDED = sa.select(sa.func.count()).where(tables.jobs.c.phase == JobPhase.SUCCEEDED)
CHARGED = sa.select(sa.func.sum(tables.meters.c.charged_us))
WON = 0.00075
TEAMS = ("", "speech", "vision")


@dataclass
class Run:
    """A store, its clusters, and a server that may be taken away."""

    store: Store
    port: int
    secrets: dict[str, str]
    clusters: dict[str, TimedCluster] = field(default_factory=dict)

    @asynccontextmanager
    async def server(self) -> AsyncIterator[Core]:
        bus = LocalBus()
        settings = replace(QUICK, listening=Listening(grpc_port=self.port))
        async with running(self.store, bus, settings) as core:
            yield core

    @asynccontextmanager
    async def member(self, name: str) -> AsyncIterator[None]:
        async with member_of(self.clusters[name], self.port, self.secrets[name]):
            yield

    async def until_ended(self, count: int) -> None:
        """Wait until so many jobs have succeeded."""
        async with asyncio.timeout(120):
            while True:
                async with self.store.reading() as tx:
                    done = (await tx.link.execute(ENDED, "jobs")).scalar_one()
                if done >= count:
                    return
                await asyncio.sleep(0.1)

    async def until_charged(self) -> None:
        """Wait until all that the clusters saw being used is charged."""
        truth = sum(sum(self.truth_us(name).values()) for name in self.clusters)
        async with asyncio.timeout(60):
            while True:
                async with self.store.reading() as tx:
                    charged = (await tx.link.execute(CHARGED, "meters")).scalar_one()
                assert charged <= truth, "more is charged than was used"
                if charged == truth:
                    return
                await asyncio.sleep(0.1)

    async def until_held(self) -> None:
        """Wait until in every cluster something runs that ends when the test says so."""
        async with asyncio.timeout(120):
            while any(cluster.to_hold for cluster in self.clusters.values()):
                await asyncio.sleep(0.05)

    def truth_us(self, name: str) -> dict[tuple[str, int], int]:
        """What each attempt used in a cluster, by the cluster's own stamps."""
        return {
            (str(key.job), key.attempt): used // 10**6
            for key, used in self.clusters[name].used_milli_ns.items()
        }


@asynccontextmanager
async def a_run(address: str) -> AsyncIterator[Run]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with Store.open(address) as store:
        secrets = await prepare(store, CLUSTERS)
        async with store.transaction() as tx:
            for team in filter(None, TEAMS):
                await tx.tenants.add(Tenant(f"acme/{team}", TenantKind.TEAM, "acme"))
            await tx.policies.add(Policy("fleet", {"rates": {"KRW": WON}}))
            _, secrets["admin"] = await tx.tokens.issue(Grant(Role.ADMIN))
            _, secrets["vision"] = await tx.tokens.issue(Grant(Role.TENANT, tenant="acme/vision"))
        yield Run(
            store, port, secrets, {name: TimedCluster(name, to_hold=2 * HELD) for name in CLUSTERS}
        )


async def submit(store: Store) -> None:
    made: list[Job] = []
    for number in range(JOBS):
        lasts_s = 0.05 + 4.0 * (number % 17) / 17
        spec = {
            "command": ["run", f"{lasts_s:.3f}"],
            "work": {"time": "1m"},
            "clusters": [list(CLUSTERS)[number // len(TEAMS) % len(CLUSTERS)]],
        }
        made.append(job_row(**spec, row={"team": TEAMS[number % len(TEAMS)]}))
    for first in range(0, JOBS, 100):
        part = tuple(made[first : first + 100])
        events = tuple(NewEvent("job.submitted", each.id, each.tenant) for each in part)
        await store.submit(Submission(part, {}, events))


async def asked(core: Core, secret: str, path: str, **query: str) -> Any:
    transport = httpx.ASGITransport(app=build_app(core.services))
    headers = {"Authorization": f"Bearer {secret}"}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://centre", headers=headers
    ) as http:
        answer = await http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def used_by_placement(charges: Iterable[Charge]) -> dict[tuple[str, int], int]:
    used: dict[tuple[str, int], int] = {}
    for each in charges:
        key = (each.job_id, each.attempt)
        used[key] = used.get(key, 0) + each.device_us
    return used


def exact_cost(cluster: str, device_us: int) -> float:
    """Of a placement whose price never changes, in millionths of the fleet's currency."""
    return {"seoul": 1.0, "busan": 777_000 * WON / 3600}[cluster] * device_us


async def check_bill(run: Run, core: Core) -> None:
    """The bill of the run against its placements, each by its cluster's own stamps."""
    async with run.store.reading() as tx:
        charges = await tx.charges.all()
        placed = {(each.job_id, each.attempt): each.cluster for each in await tx.attempts.all()}
    used = used_by_placement(charges)
    assert {(each.job_id, each.attempt): each.cluster for each in charges} == placed
    truth = {key: us for name in CLUSTERS for key, us in run.truth_us(name).items()}
    assert used == truth
    assert len({job for job, _ in used}) == JOBS
    days = sorted({each.day for each in charges})
    period = {"since": days[0], "until": days[-1]}
    by_team = await asked(core, run.secrets["admin"], "/v1/bills", by="team", **period)
    placements = await asked(
        core, run.secrets["admin"], "/v1/bills", by="attempt,cluster", **period
    )
    assert by_team["totals"] == placements["totals"]
    (total,) = by_team["totals"]
    lines = placements["lines"]
    assert len(lines) == len(used) >= JOBS
    # To the cent and the gram, and exactly to the millionth.
    for found in (by_team["lines"], lines):
        assert sum(cents(line["amount"]) for line in found) == cents(total["amount"])
        assert sum(line["carbonG"] for line in found) == total["carbonG"]
        assert sum(line["amountMicro"] for line in found) == total["amountMicro"]
    assert total["amountMicro"] == sum(each.money_micro for each in charges)
    assert abs(cents(total["amount"]) * 10_000 - total["amountMicro"]) <= 5_000
    assert total["deviceUs"] == sum(used.values())
    assert cents(total["amount"]) > JOBS
    assert total["carbonG"] > JOBS
    for line in lines:
        if line["cluster"] != "jeju":
            # An attempt is charged in as many parts as its member told it in: a few.
            assert abs(line["amountMicro"] - exact_cost(line["cluster"], line["deviceUs"])) <= 20
    own = await asked(core, run.secrets["vision"], "/v1/bills", by="team", **period)
    (of_team,) = [line for line in by_team["lines"] if line["team"] == "vision"]
    assert own["lines"] == [of_team]


def cents(text: str) -> int:
    whole, _, rest = text.partition(".")
    return int(whole) * 100 + int(rest)


@asynchronous
async def test_the_bill_of_a_thousand_jobs_is_the_sum_of_its_placements_whatever_happens(
    address: str,
) -> None:
    """A member dies and comes back, then the server does; both while jobs run and end."""
    async with a_run(address) as run:
        seoul, others = run.member("seoul"), [run.member("busan"), run.member("jeju")]
        async with others[0], others[1]:
            async with run.server():
                async with seoul:
                    await submit(run.store)
                    await run.until_held()
                # Nobody sees this; then a new member does.
                run.clusters["seoul"].end_held(HELD)
                async with run.member("seoul"):
                    await run.until_ended(JOBS // 2)
            # No server, and in seoul no member either: what was begun there goes on and ends.
            for cluster in run.clusters.values():
                cluster.end_held(HELD)
            await asyncio.sleep(1.0)
            async with run.server() as core, run.member("seoul"):
                for cluster in run.clusters.values():
                    cluster.end_held(len(cluster.held))
                await run.until_ended(JOBS)
                await run.until_charged()
                await check_bill(run, core)
