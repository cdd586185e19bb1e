"""What would be decided is answered from the database, by any server, and nothing is stored."""

from pathlib import Path
from typing import Any

import pytest

from dure.stores.transaction import Transaction
from tests.server.rest.centre import Centre, job
from tests.server.rest.fleets import join_clusters

PRICES = {"incheon": 2.0, "osaka": 1.0, "oregon": 9.0}


@pytest.fixture(autouse=True, scope="module")
def clusters(centre: Centre) -> None:
    """Three clusters of four nodes that have reported, at different prices."""
    join_clusters(centre, PRICES)


def asked(centre: Centre, *jobs: dict[str, Any], who: str = "acme", **more: Any) -> Any:
    with centre.client(who) as client:
        answer = client.post("/v1/evaluations", json={"jobs": list(jobs), **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def wants(devices: int, **more: Any) -> dict[str, Any]:
    return job(resources={"devices": devices, "whole": True}, **more)


def test_clusters_are_ranked_with_what_they_cost(centre: Centre) -> None:
    [found] = asked(centre, wants(1))["jobs"]
    assert found["cluster"] == "osaka"
    assert [each["cluster"] for each in found["options"]] == ["osaka", "incheon", "oregon"]
    best = found["options"][0]
    assert best["hasRoom"]
    assert best["explanation"]["gCo2"] > 0
    assert best["explanation"]["money"] > 0


def test_a_cluster_that_never_could_says_why(centre: Centre) -> None:
    [found] = asked(centre, wants(1, clusters=["osaka"]))["jobs"]
    assert [each["cluster"] for each in found["options"]] == ["osaka"]
    assert {each["cluster"] for each in found["refusals"]} == {"incheon", "oregon"}
    assert all(each["why"] for each in found["refusals"])


def test_jobs_are_weighed_together_and_beside_what_is_assumed(centre: Centre) -> None:
    gang = wants(8, gang={"workers": 4})
    found = asked(centre, gang, gang)["jobs"]
    assert sorted(each["cluster"] for each in found) == ["incheon", "osaka"]
    [late] = asked(centre, gang, assuming=[{"job": wants(1), "cluster": "osaka"}])["jobs"]
    assert late["cluster"] == "incheon"


def test_a_cluster_without_a_member_is_weighed_as_it_is_described(centre: Centre) -> None:
    guest = {
        "name": "borrowed",
        "tariff": {"deviceHour": {"a100-40gb": 0.1}},
        "groups": [{"name": "g", "profile": "a100-40gb", "devices": 8, "freeDevices": 2}],
    }
    [found] = asked(centre, wants(1), guests=[guest])["jobs"]
    assert found["cluster"] == "borrowed"
    [after] = asked(centre, wants(1))["jobs"]
    assert "borrowed" not in str(after)  # who did not name it is not told of it either
    known = guest | {"name": "osaka"}
    with centre.client("acme") as client:
        answer = client.post("/v1/evaluations", json={"jobs": [wants(1)], "guests": [known]})
    assert answer.status_code == 422
    assert answer.json()["fields"][0]["field"] == "guests[0].name"


def test_nothing_is_stored(centre: Centre) -> None:
    async def count(tx: Transaction) -> tuple[int, int]:
        return await tx.events.last(), len(await tx.jobs.live("", 1000))

    before = centre.do(count)
    asked(centre, wants(1))
    assert centre.do(count) == before


def test_a_viewer_of_the_fleet_may_ask_for_anybody_a_tenant_for_itself(centre: Centre) -> None:
    [found] = asked(centre, wants(1, tenant="globex"), who="viewer")["jobs"]
    assert found["tenant"] == "globex"
    with centre.client("acme") as client:
        answer = client.post("/v1/evaluations", json={"jobs": [wants(1, tenant="globex")]})
    assert answer.status_code == 403


def test_a_job_that_means_nothing_is_refused_with_its_place(centre: Centre) -> None:
    with centre.client("acme") as client:
        answer = client.post(
            "/v1/evaluations", json={"jobs": [wants(1), wants(1, clusters=["nowhere"])]}
        )
    assert answer.status_code == 422
    assert answer.json()["fields"][0]["field"] == "jobs[1].clusters[0]"


def test_what_the_leader_found_scarce_counts(tmp_path: Path) -> None:
    with Centre(f"sqlite:///{tmp_path / 'scarce.db'}") as scarce:
        join_clusters(scarce, PRICES)

        async def charge(tx: Transaction) -> None:
            await tx.prices.put_all([("osaka/gpus", 5.0)])

        scarce.do(charge)
        [found] = asked(scarce, wants(1))["jobs"]
    assert found["cluster"] == "incheon"
    congestion = {each["cluster"]: each["explanation"]["congestion"] for each in found["options"]}
    assert congestion["osaka"] > 0
    assert congestion["incheon"] == 0


@pytest.mark.parametrize(
    ("guaranteed", "lendable", "cluster", "why"),
    [
        (96, 0, None, "the devices that could run it belong to pools it may not use"),
        (96, 4, "osaka", ""),
        (48, 0, "osaka", ""),
    ],
)
def test_pools_of_others_count_as_they_do_when_it_is_placed(
    tmp_path: Path, guaranteed: int, lendable: int, cluster: str | None, why: str
) -> None:
    with Centre(f"sqlite:///{tmp_path / 'pools.db'}") as pooled:
        join_clusters(pooled, PRICES)
        units = {"guaranteed": guaranteed, "lendable": lendable}
        spec = {"tenant": "globex", "profile": "a100-40gb", **units}
        with pooled.client() as http:
            made = http.put("/v1/pools/theirs", json=spec, headers={"If-None-Match": "*"})
        assert made.status_code == 201, made.text
        [found] = asked(pooled, wants(1))["jobs"]
        assert (found["cluster"], found["reason"]) == (cluster, why)
