"""Who may use which route. A route that is not in the table here fails the first test."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dure.server.rest.door import Access
from dure.stores.ids import new_id
from dure.stores.rows import Job
from dure.stores.transaction import Transaction
from tests.server.rest.centre import Centre, job

ALLOWED = {
    Access.ANYONE: {"", "admin", "acme", "viewer", "acme-viewer", "member"},
    Access.SIGNED_IN: {"admin", "acme", "viewer", "acme-viewer", "member"},
    Access.READ: {"admin", "acme", "viewer", "acme-viewer"},
    Access.WRITE: {"admin", "acme"},
    Access.FLEET: {"admin", "viewer"},
    Access.ADMIN: {"admin"},
}
WHO = ("", "admin", "acme", "viewer", "acme-viewer", "member")
JOB = new_id()
SPAN = "since=2026-01-01T00:00:00Z&until=2026-02-01T00:00:00Z"
PERIOD = {"periodStart": "2026-01-01T00:00:00Z", "periodEnd": "2027-01-01T00:00:00Z"}


@dataclass(frozen=True)
class Sample:
    """One request to a route; whoever may use it is not refused."""

    access: Access
    path: str
    body: Any = None


TABLE = {
    ("GET", "/healthz"): Sample(Access.ANYONE, "/healthz"),
    ("GET", "/readyz"): Sample(Access.ANYONE, "/readyz"),
    ("GET", "/metrics"): Sample(Access.FLEET, "/metrics"),
    ("GET", "/v1/series"): Sample(Access.FLEET, "/v1/series?name=dure_jobs"),
    ("GET", "/v1/series/names"): Sample(Access.FLEET, "/v1/series/names"),
    ("GET", "/v1/overview"): Sample(Access.READ, "/v1/overview"),
    ("GET", "/v1/reruns/choices"): Sample(Access.FLEET, "/v1/reruns/choices"),
    ("POST", "/v1/reruns"): Sample(Access.FLEET, "/v1/reruns", {"mode": "first-fit"}),
    ("POST", "/v1/feedback"): Sample(
        Access.WRITE, "/v1/feedback", {"tenant": "acme", "verdict": "good"}
    ),
    ("GET", "/v1/whoami"): Sample(Access.SIGNED_IN, "/v1/whoami"),
    ("POST", "/v1/jobs"): Sample(Access.WRITE, "/v1/jobs", job(tenant="acme")),
    ("GET", "/v1/jobs"): Sample(Access.READ, "/v1/jobs"),
    ("GET", "/v1/jobs/{id}"): Sample(Access.READ, f"/v1/jobs/{JOB}"),
    ("PATCH", "/v1/jobs/{id}"): Sample(Access.WRITE, f"/v1/jobs/{JOB}", {"priority": 1}),
    ("POST", "/v1/jobs/{id}/cancel"): Sample(Access.WRITE, f"/v1/jobs/{JOB}/cancel"),
    ("GET", "/v1/jobs/{id}/wait"): Sample(Access.READ, f"/v1/jobs/{JOB}/wait?timeout=0"),
    ("GET", "/v1/jobs/{id}/watch"): Sample(Access.READ, f"/v1/jobs/{JOB}/watch"),
    ("GET", "/v1/jobs/{id}/explain"): Sample(Access.READ, f"/v1/jobs/{JOB}/explain"),
    ("POST", "/v1/evaluations"): Sample(
        Access.READ, "/v1/evaluations", {"jobs": [job(tenant="acme")]}
    ),
    ("GET", "/v1/migrations"): Sample(Access.READ, "/v1/migrations"),
    ("GET", "/v1/jobs/{id}/migration"): Sample(Access.READ, f"/v1/jobs/{JOB}/migration"),
    ("POST", "/v1/jobs/{id}/migration"): Sample(Access.WRITE, f"/v1/jobs/{JOB}/migration", {}),
    ("DELETE", "/v1/jobs/{id}/migration"): Sample(Access.WRITE, f"/v1/jobs/{JOB}/migration"),
    ("POST", "/v1/jobs/{id}/checkpoint"): Sample(
        Access.WRITE, f"/v1/jobs/{JOB}/checkpoint", {"number": 1}
    ),
    ("POST", "/v1/jobs/{id}/load"): Sample(Access.WRITE, f"/v1/jobs/{JOB}/load", {"queue": 1}),
    ("GET", "/v1/jobs/{id}/endpoints"): Sample(Access.READ, f"/v1/jobs/{JOB}/endpoints"),
    ("GET", "/v1/jobs/{id}/endpoints/watch"): Sample(
        Access.READ, f"/v1/jobs/{JOB}/endpoints/watch"
    ),
    ("GET", "/v1/jobs/{id}/logs"): Sample(Access.READ, f"/v1/jobs/{JOB}/logs"),
    ("GET", "/v1/tenants"): Sample(Access.READ, "/v1/tenants"),
    ("GET", "/v1/tenants/{path}"): Sample(Access.READ, "/v1/tenants/acme"),
    ("PUT", "/v1/tenants/{path}"): Sample(Access.ADMIN, "/v1/tenants/acme/made", {}),
    ("DELETE", "/v1/tenants/{path}"): Sample(Access.ADMIN, "/v1/tenants/nobody"),
    ("GET", "/v1/pools"): Sample(Access.READ, "/v1/pools"),
    ("GET", "/v1/pools/{name}"): Sample(Access.READ, "/v1/pools/none"),
    ("PUT", "/v1/pools/{name}"): Sample(
        Access.ADMIN, "/v1/pools/p", {"tenant": "acme", "profile": "h100"}
    ),
    ("DELETE", "/v1/pools/{name}"): Sample(Access.ADMIN, "/v1/pools/none"),
    ("GET", "/v1/virtualclusters"): Sample(Access.READ, "/v1/virtualclusters"),
    ("GET", "/v1/virtualclusters/{name}"): Sample(Access.READ, "/v1/virtualclusters/none"),
    ("PUT", "/v1/virtualclusters/{name}"): Sample(
        Access.ADMIN, "/v1/virtualclusters/v", {"tenant": "acme", "tier": "scoped"}
    ),
    ("DELETE", "/v1/virtualclusters/{name}"): Sample(Access.ADMIN, "/v1/virtualclusters/none"),
    ("GET", "/v1/virtualclusters/{name}/nodes"): Sample(
        Access.READ, "/v1/virtualclusters/none/nodes"
    ),
    ("GET", "/v1/virtualclusters/{name}/nodes/watch"): Sample(
        Access.READ, "/v1/virtualclusters/none/nodes/watch"
    ),
    ("PUT", "/v1/virtualclusters/{name}/standing"): Sample(
        Access.WRITE, "/v1/virtualclusters/none/standing", {"phase": "ready"}
    ),
    ("POST", "/v1/virtualclusters/{name}/access"): Sample(
        Access.WRITE, "/v1/virtualclusters/none/access", {"cluster": "seoul"}
    ),
    ("GET", "/v1/clusters"): Sample(Access.READ, "/v1/clusters"),
    ("GET", "/v1/clusters/{name}"): Sample(Access.READ, "/v1/clusters/seoul"),
    ("PUT", "/v1/clusters/{name}"): Sample(Access.ADMIN, "/v1/clusters/tokyo", {}),
    ("PUT", "/v1/clusters/{name}/state"): Sample(
        Access.ADMIN, "/v1/clusters/seoul/state", {"state": "cordoned"}
    ),
    ("POST", "/v1/clusters/{name}/nodes/{node}/partition"): Sample(
        Access.ADMIN, "/v1/clusters/seoul/nodes/n0/partition", {"layout": "all-1g.10gb"}
    ),
    ("DELETE", "/v1/clusters/{name}/nodes/{node}/partition"): Sample(
        Access.ADMIN, "/v1/clusters/seoul/nodes/n0/partition"
    ),
    ("DELETE", "/v1/clusters/{name}"): Sample(Access.ADMIN, "/v1/clusters/none"),
    ("POST", "/v1/clusters/{name}/tokens"): Sample(Access.ADMIN, "/v1/clusters/seoul/tokens"),
    ("GET", "/v1/clusters/{name}/plan"): Sample(Access.READ, "/v1/clusters/seoul/plan"),
    ("GET", "/v1/accelerators"): Sample(Access.READ, "/v1/accelerators"),
    ("GET", "/v1/accelerators/{name}"): Sample(Access.READ, "/v1/accelerators/h100"),
    ("GET", "/v1/budgets"): Sample(Access.READ, "/v1/budgets"),
    ("GET", "/v1/budgets/{tenant}/{name}"): Sample(Access.READ, "/v1/budgets/acme/none"),
    ("PUT", "/v1/budgets/{tenant}/{name}"): Sample(
        Access.ADMIN, "/v1/budgets/acme/year", {"unit": "money", "limit": 10.0} | PERIOD
    ),
    ("DELETE", "/v1/budgets/{tenant}/{name}"): Sample(Access.ADMIN, "/v1/budgets/acme/none"),
    ("GET", "/v1/bills"): Sample(Access.READ, "/v1/bills"),
    ("GET", "/v1/bills/csv"): Sample(Access.READ, "/v1/bills/csv"),
    ("GET", "/v1/bills/months"): Sample(Access.FLEET, "/v1/bills/months"),
    ("POST", "/v1/bills/months/{month}/close"): Sample(
        Access.ADMIN, "/v1/bills/months/2026-01/close", {}
    ),
    ("GET", "/v1/policies"): Sample(Access.READ, "/v1/policies"),
    ("GET", "/v1/policies/{name}"): Sample(Access.READ, "/v1/policies/none"),
    ("PUT", "/v1/policies/{name}"): Sample(Access.ADMIN, "/v1/policies/green", {}),
    ("DELETE", "/v1/policies/{name}"): Sample(Access.ADMIN, "/v1/policies/none"),
    ("POST", "/v1/policies/{name}/apply"): Sample(Access.ADMIN, "/v1/policies/none/apply"),
    ("GET", "/v1/fleet"): Sample(Access.READ, "/v1/fleet"),
    ("PUT", "/v1/fleet"): Sample(Access.ADMIN, "/v1/fleet", {}),
    ("GET", "/v1/feeds"): Sample(Access.READ, "/v1/feeds"),
    ("GET", "/v1/feeds/{name}"): Sample(Access.READ, "/v1/feeds/none"),
    ("PUT", "/v1/feeds/{name}"): Sample(Access.ADMIN, "/v1/feeds/kr", {"kind": "carbon"}),
    ("DELETE", "/v1/feeds/{name}"): Sample(Access.ADMIN, "/v1/feeds/none"),
    ("GET", "/v1/feeds/{name}/points"): Sample(Access.READ, f"/v1/feeds/none/points?{SPAN}"),
    ("POST", "/v1/feeds/{name}/points"): Sample(
        Access.ADMIN,
        "/v1/feeds/none/points",
        {"points": [{"at": "2026-01-01T00:00:00Z", "value": 1.0}]},
    ),
    ("GET", "/v1/events"): Sample(Access.READ, "/v1/events"),
    ("GET", "/v1/events/stream"): Sample(Access.READ, "/v1/events/stream"),
    ("GET", "/v1/tokens"): Sample(Access.READ, "/v1/tokens"),
    ("POST", "/v1/tokens"): Sample(
        Access.WRITE, "/v1/tokens", {"role": "viewer", "tenant": "acme"}
    ),
    ("DELETE", "/v1/tokens/{id}"): Sample(Access.WRITE, f"/v1/tokens/{new_id()}"),
    ("GET", "/v1/audit"): Sample(Access.READ, "/v1/audit"),
    ("GET", "/v1/recording"): Sample(Access.ADMIN, "/v1/recording?seconds=0"),
}


@pytest.fixture(scope="module")
def centre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Centre]:
    folder: Path = tmp_path_factory.mktemp("access")
    with Centre(f"sqlite:///{folder / 'state.db'}") as running:

        async def add(tx: Transaction) -> None:
            await tx.jobs.add(Job(JOB, "acme", "train", job()))

        running.do(add)
        yield running


def test_every_route_is_in_the_table_with_the_access_that_it_declares(centre: Centre) -> None:
    with centre.client("") as http:
        document = http.get("/v1/openapi.json").json()
    declared = {
        (method.upper(), path): Access(operation["x-dure-access"])
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    assert declared == {key: sample.access for key, sample in TABLE.items()}


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("key", TABLE, ids=" ".join)
def test_only_those_who_may_use_a_route_can(centre: Centre, key: tuple[str, str], who: str) -> None:
    sample = TABLE[key]
    with (
        centre.client(who) as http,
        http.stream(key[0], sample.path, json=sample.body) as answer,
    ):
        status = answer.status_code
    if who in ALLOWED[sample.access]:
        assert status not in {401, 403}
        assert status < 500
    else:
        assert status == (403 if who else 401)
