"""Virtual clusters at the centre: what is refused, who sees them, their nodes, how they go."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dure.domain.fleet.lifecycle import AttemptState, JobPhase
from dure.domain.fleet.tenancy import Allotment
from dure.domain.fleet.virtual import SpacePhase, SpaceStatus
from dure.domain.ids import ClusterId, PoolId
from dure.server.declared import read_declared
from dure.server.links.wishing import tenant_bound
from dure.server.records import allotments_data, sites_data
from dure.server.rest.known import Catalogue
from dure.server.rest.problems import RefusedError
from dure.server.virtual.spaces import take_spaces
from dure.stores.rows import Attempt, Job
from dure.stores.transaction import Transaction
from tests.server.members import summary
from tests.server.rest.centre import Centre
from tests.server.rest.fleets import PROFILE, join_clusters

SCOPED = {"tenant": "acme", "tier": "scoped"}
DEDICATED = {"tenant": "acme", "tier": "dedicated", "pools": ["gold"]}
POOL = {"tenant": "acme", "profile": PROFILE, "guaranteed": 8, "lendable": 4, "maximum": 8}
PATH = "/v1/virtualclusters/own"


@pytest.fixture
def centre(tmp_path: Path) -> Iterator[Centre]:
    with Centre(f"sqlite:///{tmp_path / 'state.db'}") as running:
        join_clusters(running, {"east": 1.0, "west": 2.0})

        async def link(tx: Transaction) -> None:
            for name in ("seoul", "east", "west"):
                await tx.clusters.linked(name, "one", "")

        running.do(link)
        with running.client() as http:
            assert http.put("/v1/pools/gold", json=POOL).status_code == 201
        yield running


def put(centre: Centre, body: dict[str, Any], path: str = PATH, who: str = "admin") -> Any:
    with centre.client(who) as http:
        return http.put(path, json=body)


def say(centre: Centre, cluster: str, *statuses: SpaceStatus) -> None:
    """Let a member report."""
    centre.do(lambda tx: take_spaces(tx, cluster, statuses))


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (SCOPED | {"tenant": "nobody"}, 422, "there is no tenant 'nobody'; create it first"),
        (SCOPED | {"clusters": ["nowhere"]}, 422, "there is no cluster 'nowhere'"),
        (SCOPED | {"clusters": ["busan"]}, 422, "is no Kubernetes"),
        (SCOPED | {"pools": ["gold"]}, 422, "pools are nodes of a dedicated one"),
        (SCOPED | {"team": "vision"}, 422, "namespaces are of tenants"),
        (SCOPED | {"quota": {"cpu": "many"}}, 422, "quota"),
        (DEDICATED | {"pools": []}, 422, "it would have no nodes"),
        (DEDICATED | {"pools": ["gold", "gold"]}, 422, "named twice"),
        (DEDICATED | {"pools": ["golden"]}, 422, "'acme' has no pool 'golden'"),
        (DEDICATED | {"team": "none"}, 422, "there is no team 'acme/none'"),
        (DEDICATED | {"clusters": ["east"]}, 422, "clusters and quota are of scoped ones"),
        (DEDICATED | {"tenant": "globex"}, 422, "'globex' has no pool 'gold'"),
        ({"tenant": "acme"}, 422, "tier"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_remedy(
    centre: Centre, body: dict[str, Any], status: int, words: str
) -> None:
    refused = put(centre, body)
    assert refused.status_code == status, refused.text
    assert words in refused.json()["detail"]


def test_a_pool_over_the_physical_capacity_is_refused(centre: Centre) -> None:
    with centre.client() as http:
        spec = {"tenant": "acme", "profile": PROFILE, "guaranteed": 65}
        http.put("/v1/pools/huge", json=spec)
        refused = http.put(PATH, json=DEDICATED | {"pools": ["huge"]})
        assert refused.status_code == 409
        assert "guarantees 65 units, and the clusters that it may use have 64" in refused.text
        assert "lower what it guarantees to 64" in refused.text
        assert http.put(PATH, json=DEDICATED).status_code == 201
        # Nor does a pool that is a node already become larger than the fleet, or go.
        gold = http.get("/v1/pools/gold")
        seen = {"If-Match": gold.headers["ETag"]}
        larger = http.put("/v1/pools/gold", json=spec, headers=seen)
        assert (larger.status_code, larger.json()["type"]) == (
            409,
            "urn:dure:problem:over-capacity",
        )
        gone = http.delete("/v1/pools/gold", headers=seen)
        assert "is a node of virtual cluster own" in gone.json()["detail"]


def test_names_pools_and_namespaces_are_taken_once(centre: Centre) -> None:
    assert put(centre, DEDICATED).status_code == 201
    with centre.client() as http:
        again = http.put(PATH, json=DEDICATED, headers={"If-None-Match": "*"})
        assert (again.status_code, again.json()["type"]) == (412, "urn:dure:problem:duplicate")
        other = http.put("/v1/virtualclusters/other", json=DEDICATED)
        assert "is a node of virtual cluster 'own'" in other.json()["detail"]
        seen = {"If-Match": '"1"'}
        changed = http.put(PATH, json=SCOPED, headers=seen)
        assert "cannot be changed; remove the virtual cluster" in changed.json()["detail"]
    east = put(centre, SCOPED | {"clusters": ["east"]}, "/v1/virtualclusters/a")
    both = put(centre, SCOPED, "/v1/virtualclusters/b")
    west = put(centre, SCOPED | {"clusters": ["west"]}, "/v1/virtualclusters/c")
    assert [east.status_code, both.status_code, west.status_code] == [201, 409, 201]
    assert "has the virtual cluster 'a' there already" in both.json()["detail"]


VERBS = [
    ("GET", "", None),
    ("PUT", "", DEDICATED),
    ("DELETE", "", None),
    ("GET", "/nodes", None),
    ("GET", "/nodes/watch", None),
    ("PUT", "/standing", {"phase": "ready"}),
    ("POST", "/access", {"cluster": "east"}),
]


@pytest.mark.parametrize(("method", "path", "body"), VERBS)
@pytest.mark.parametrize("who", ["globex", "vision"])
def test_another_tenant_sees_nothing_of_it_by_any_verb(
    centre: Centre, who: str, method: str, path: str, body: dict[str, Any] | None
) -> None:
    put(centre, DEDICATED)
    with centre.client(who) as http:
        theirs = http.request(method, PATH + path, json=body)
        nothing = http.request(method, f"/v1/virtualclusters/none{path}", json=body)
        assert http.get("/v1/virtualclusters").json()["items"] == []
        events = http.get("/v1/events", params={"limit": 1000}).json()["items"]
    assert theirs.status_code == nothing.status_code
    assert theirs.status_code in (403, 404)
    assert theirs.text.replace("own", "none") == nothing.text
    assert not [each for each in events if each["subject"] == "own"]


def test_its_tenant_sees_it_and_only_an_administrator_changes_it(centre: Centre) -> None:
    assert put(centre, DEDICATED, who="acme").status_code == 403
    put(centre, DEDICATED)
    with centre.client("acme") as http:
        assert http.get(PATH).json()["spec"]["pools"] == ["gold"]
        assert [each["name"] for each in http.get("/v1/virtualclusters").json()["items"]] == ["own"]
        assert http.delete(PATH, headers={"If-Match": "*"}).status_code == 403
        said = http.put(f"{PATH}/standing", json={"phase": "ready", "url": "https://x:1"})
        assert (said.json()["alive"], said.json()["standing"]["url"]) == (True, "https://x:1")
    with centre.client("acme-viewer") as http:
        assert http.get(PATH).status_code == 200
        assert http.put(f"{PATH}/standing", json={"phase": "ready"}).status_code == 403


# --- nodes -------------------------------------------------------------------------------------


def lease(centre: Centre, free: dict[str, int], lent: int = 2) -> None:
    """What clusters have free, and what of the pool is kept in each."""

    async def write(tx: Transaction) -> None:
        for cluster, devices in free.items():
            allotment = Allotment(PoolId("gold"), ClusterId(cluster), 4, lent)
            await tx.news.lease(cluster, allotments_data([allotment]))
            await tx.news.said(cluster, sites=sites_data([summary(cluster, devices)]))
            row = await tx.clusters.get(cluster)
            await tx.clusters.hold_link(cluster, row.link_epoch)

    centre.do(write)


def nodes(centre: Centre) -> dict[str, Any]:
    with centre.client("acme") as http:
        (found,) = http.get(f"{PATH}/nodes").json()["nodes"]
    return dict(found)


def use(centre: Centre, name: str, cluster: str, **job: Any) -> str:
    """A job that runs, or is about to."""
    row = Job(id=name.ljust(26, "0"), tenant="acme", name=name, spec={"kind": "batch"} | job)

    async def write(tx: Transaction) -> None:
        await tx.jobs.add(row)
        order = {"site": {"cluster": cluster, "group": "gpus"}, "instances": 1}
        await tx.attempts.add(Attempt(row.id, 1, cluster, 1, 1, True, spec=order))
        await tx.attempts.advance(row.id, 1, AttemptState.COMMITTED)

    centre.do(write)
    return row.id


def test_a_node_has_what_its_pool_has_and_could_have_now(centre: Centre) -> None:
    put(centre, DEDICATED)
    lease(centre, {"east": 32, "west": 32})
    whole = nodes(centre)
    assert (whole["capacity"], whole["allocatable"]) == (8, 8)
    assert (whole["resource"], whole["missing"]) == ("nvidia.com/gpu", 0)
    # Others have all but three devices: the lent units among them.
    lease(centre, {"east": 1, "west": 2})
    lent = nodes(centre)
    assert (lent["capacity"], lent["allocatable"]) == (8, 3)
    assert [(each["cluster"], each["room"]) for each in lent["shares"]] == [
        ("east", 1),
        ("west", 2),
    ]
    # What its own jobs have counts as its own.
    use(centre, "mine", "east", pool="gold")
    lease(centre, {"east": 0, "west": 2})
    used = nodes(centre)
    assert used["allocatable"] == 3
    assert used["shares"][0] | {"units": 0, "lent": 0} == {
        "cluster": "east",
        "units": 0,
        "lent": 0,
        "used": 1,
        "room": 0,
    }


def test_a_node_is_never_larger_than_its_pool_may_become_nor_than_others_leave(
    centre: Centre,
) -> None:
    put(centre, DEDICATED)
    other = {"tenant": "globex", "profile": PROFILE, "guaranteed": 30, "clusters": ["east"]}
    with centre.client() as http:
        http.put("/v1/pools/theirs", json=other)
    lease(centre, {"east": 32, "west": 0})

    async def also(tx: Transaction) -> None:
        both = [
            Allotment(PoolId("gold"), ClusterId("east"), 2, 0),
            Allotment(PoolId("theirs"), ClusterId("east"), 30, 0),
        ]
        await tx.news.lease("east", allotments_data(both))

    centre.do(also)
    assert nodes(centre)["allocatable"] == 2


def test_clusters_that_are_closed_or_silent_have_no_room(centre: Centre) -> None:
    put(centre, DEDICATED)
    lease(centre, {"east": 32, "west": 3})
    with centre.client() as http:
        http.put("/v1/clusters/east/state", json={"state": "cordoned"})
    assert nodes(centre)["allocatable"] == 3


# --- how they go ---------------------------------------------------------------------------------


def test_a_scoped_one_goes_when_its_clusters_say_that_nothing_is_left(centre: Centre) -> None:
    put(centre, SCOPED | {"clusters": ["east", "west"]})
    for cluster in ("east", "west"):
        say(centre, cluster, SpaceStatus("own", 1, SpacePhase.READY, "", 2))
    with centre.client() as http:
        shown = http.get(PATH).json()
        assert {each["cluster"]: each["phase"] for each in shown["spaces"]} == {
            "east": "ready",
            "west": "ready",
        }
        assert {each["namespace"] for each in shown["spaces"]} == {"dure-acme"}
        refused = http.delete(PATH, headers={"If-Match": '"1"'})
        assert refused.status_code == 409
        assert "2 Pods run in namespace dure-acme of cluster east" in refused.json()["detail"]
        forced = http.delete(f"{PATH}?force=true", headers={"If-Match": '"1"'})
        assert (forced.status_code, forced.json()["deleting"]) == (202, True)
        # What a cluster said of it before counts no more.
        say(centre, "east", SpaceStatus("own", 1, SpacePhase.GONE))
        say(centre, "east", SpaceStatus("own", 2, SpacePhase.GONE))
        assert http.get(PATH).json()["deleting"] is True
        assert put(centre, SCOPED).status_code in (409, 428)
        say(centre, "west", SpaceStatus("own", 2, SpacePhase.GONE))
        assert http.get(PATH).status_code == 404


def test_a_cluster_that_is_taken_out_is_told_to_remove_its_namespace(centre: Centre) -> None:
    put(centre, SCOPED | {"clusters": ["east", "west"]})
    with centre.client() as http:
        http.put(PATH, json=SCOPED | {"clusters": ["east"]}, headers={"If-Match": '"1"'})
    told = centre.do(read_declared).virtual
    assert [(each.name, each.leaving, each.forced) for each in told["west"]] == [
        ("own", True, False)
    ]
    assert [(each.name, each.leaving) for each in told["east"]] == [("own", False)]
    say(centre, "west", SpaceStatus("own", 2, SpacePhase.GONE))
    assert centre.do(read_declared).virtual["west"] == ()


def test_a_dedicated_one_is_refused_to_go_while_its_jobs_run_and_ends_them_by_force(
    centre: Centre,
) -> None:
    put(centre, DEDICATED)
    body = {"name": "j", "kind": "batch", "command": ["true"], "pool": "gold"}
    label = {"dure.io/virtual-cluster": "own"}
    with centre.client("acme") as http:
        job = http.post("/v1/jobs", json=body | {"labels": label}).json()["ids"][0]
    with centre.client() as http:
        refused = http.delete(PATH, headers={"If-Match": "*"})
        assert "1 jobs of its Pods have not ended" in refused.json()["detail"]
        assert http.delete(f"{PATH}?force=true", headers={"If-Match": "*"}).status_code == 202
        assert http.get(f"/v1/jobs/{job}").json()["phase"] == JobPhase.CANCELLING.value
        assert http.get(PATH).status_code == 404


# --- scoped ones in clusters ---------------------------------------------------------------------


def test_jobs_of_its_namespace_are_its_tenants(centre: Centre) -> None:
    put(centre, SCOPED | {"clusters": ["east"]})

    async def catalogue(tx: Transaction) -> Catalogue:
        return Catalogue(
            {row.path: row for row in await tx.tenants.all()},
            {},
            {row.name: row for row in await tx.clusters.all()},
            (),
            frozenset(),
            {},
            virtual=await tx.virtual.all(),
        )

    known = centre.do(catalogue)
    assert tenant_bound(known, "east", "dure-acme") == "acme"
    for cluster, namespace in (("west", "dure-acme"), ("east", "dure-globex")):
        with pytest.raises(RefusedError, match="bound to no tenant"):
            tenant_bound(known, cluster, namespace)


def test_access_is_given_only_where_the_namespace_is_ready_and_its_member_can(
    centre: Centre,
) -> None:
    put(centre, SCOPED | {"clusters": ["east"]})
    with centre.client("acme") as http:
        nowhere = http.post(f"{PATH}/access", json={"cluster": "west"})
        assert "is not in 'west'" in nowhere.json()["detail"]
        early = http.post(f"{PATH}/access", json={"cluster": "east"})
        assert (early.status_code, "is asked in cluster east" in early.text) == (409, True)
        say(centre, "east", SpaceStatus("own", 1, SpacePhase.READY))
        unable = http.post(f"{PATH}/access", json={"cluster": "east"})
        assert "knows no virtual clusters; upgrade it" in unable.json()["detail"]
