"""The fleet at a glance: prices, carbon, use and fragmentation by cluster, each as one may see."""

from typing import Any

import pytest

from dure.stores.transaction import Transaction
from tests.server.rest.centre import Centre, job
from tests.server.rest.fleets import PROFILE, join_clusters

HELD = 8


@pytest.fixture(autouse=True, scope="module")
def clusters(centre: Centre) -> None:
    """A dear and a cheap cluster, and one that has not said anything."""
    join_clusters(centre, {"dear": 4.0, "cheap": 1.0})

    async def price(tx: Transaction) -> None:
        await tx.prices.put_all([("cheap/gpus", 0.25)])

    centre.do(price)
    with centre.client() as http:
        assert http.put("/v1/clusters/silent", json={"region": "moon"}).status_code == 201
        assert http.put("/v1/fleet", json={"currency": "USD"}).status_code == 201


def overview(centre: Centre, who: str = "admin") -> Any:
    with centre.client(who) as http:
        answer = http.get("/v1/overview")
    assert answer.status_code == 200, answer.text
    return answer.json()


def by_name(centre: Centre, who: str = "admin") -> dict[str, Any]:
    return {each["name"]: each for each in overview(centre, who)["clusters"]}


def test_every_cluster_is_shown_with_what_a_device_costs_and_emits(centre: Centre) -> None:
    found = by_name(centre)
    dear, cheap = found["dear"], found["cheap"]
    assert (dear["price"], cheap["price"]) == (4.0, 1.0)
    assert dear["carbon"] == 300.0
    [kind] = dear["accelerators"]
    assert (kind["profile"], kind["devices"], kind["owned"]) == (PROFILE, 32, False)
    assert kind["gCo2"] == pytest.approx(300.0 * 1.2 * 0.4, rel=0.5)
    assert (cheap["congestion"], dear["congestion"]) == (0.25, 0.0)


def test_a_cluster_that_has_said_nothing_has_no_figures(centre: Centre) -> None:
    silent = by_name(centre)["silent"]
    assert silent["region"] == "moon"
    assert not silent["connected"]
    assert [silent[key] for key in ("utilisation", "fragmentation", "price")] == [None] * 3


def test_an_empty_cluster_is_neither_used_nor_fragmented(centre: Centre) -> None:
    cheap = by_name(centre)["cheap"]
    assert (cheap["devices"], cheap["freeDevices"]) == (32, 32)
    assert cheap["utilisation"] == 0.0


def test_jobs_are_counted_as_far_as_one_may_see_them(centre: Centre) -> None:
    with centre.client("acme") as http:
        assert http.post("/v1/jobs", json=job()).status_code == 201
    with centre.client("globex") as http:
        for _ in range(2):
            assert http.post("/v1/jobs", json=job()).status_code == 201
    assert overview(centre)["jobs"] == {"queued": 3}
    assert overview(centre, "acme")["jobs"] == {"queued": 1}
    assert overview(centre, "vision")["jobs"] == {}


def test_who_is_bound_to_a_tenant_does_not_see_what_runs_of_others(centre: Centre) -> None:
    assert by_name(centre)["cheap"]["running"] == 0
    assert by_name(centre, "acme")["cheap"]["running"] is None
