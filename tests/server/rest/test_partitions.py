"""Nodes divided anew at an admin's word: what is asked, refused, shown and withdrawn."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dure.domain.fleet.lifecycle import PartitionPhase
from dure.domain.fleet.protocol.reports import PartitionStatus
from dure.server.links.partitions import take_partitions
from dure.server.records import inventory_data
from dure.stores.rows import NewEvent
from dure.stores.transaction import Transaction
from tests.server.members import inventory
from tests.server.rest.centre import Centre

PATH = "/v1/clusters/seoul/nodes/node-0/partition"
LAYOUT = {"layout": "all-1g.10gb"}


@pytest.fixture
def centre(tmp_path: Path) -> Iterator[Centre]:
    with Centre(f"sqlite:///{tmp_path / 'state.db'}") as running:

        async def add(tx: Transaction) -> None:
            await tx.news.said("seoul", inventory=inventory_data(inventory()))

        running.do(add)
        yield running


def test_a_wish_is_stored_once_and_becomes_part_of_the_desired_set(centre: Centre) -> None:
    async def revision(tx: Transaction) -> int:
        return (await tx.clusters.get("seoul")).surroundings_revision

    before = centre.do(revision)
    with centre.client() as http:
        first, again = (http.post(PATH, json=LAYOUT) for _ in range(2))
        shown = http.get("/v1/clusters/seoul").json()
    assert first.status_code == again.status_code == 202
    assert first.json() == again.json()
    assert (first.json()["phase"], first.json()["layout"]) == ("asked", "all-1g.10gb")
    assert shown["partitions"] == [first.json()]
    assert [node["name"] for node in shown["nodes"]] == [f"node-{number}" for number in range(4)]
    assert centre.do(revision) > before


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/v1/clusters/seoul/nodes/none/partition", LAYOUT, 404, "node of cluster seoul"),
        ("/v1/clusters/none/nodes/node-0/partition", LAYOUT, 404, "no cluster none"),
        (PATH, {}, 422, "layout"),
        (PATH, {"layout": "not a layout"}, 422, "layout"),
        (PATH, {"layout": "x", "force": True}, 422, "force"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    centre: Centre, path: str, body: dict[str, object], status: int, words: str
) -> None:
    with centre.client() as http:
        answer = http.post(path, json=body)
    assert answer.status_code == status
    assert words in answer.json()["detail"]


def test_another_layout_has_to_wait_for_the_end_of_the_first(centre: Centre) -> None:
    async def refuse(tx: Transaction) -> None:
        row = await tx.partitions.get("seoul", "node-0")
        old = PartitionStatus("node-0", row.number - 1, PartitionPhase.DONE)
        new = PartitionStatus("node-0", row.number, PartitionPhase.REFUSED, "used by j1")
        await take_partitions(tx, "seoul", (old, new, new))

    async def kinds(tx: Transaction) -> list[object]:
        events = await tx.events.since(0, subject="seoul")
        return [each.data["phase"] for each in events if each.kind == "partition.changed"]

    with centre.client() as http:
        assert http.post(PATH, json=LAYOUT).status_code == 202
        other = http.post(PATH, json={"layout": "all-7g.80gb"})
        assert other.status_code == 409
        assert "divided as all-1g.10gb" in other.json()["detail"]
        centre.do(refuse)
        (shown,) = http.get("/v1/clusters/seoul").json()["partitions"]
        assert (shown["phase"], shown["reason"]) == ("refused", "used by j1")
        assert shown["endedAt"] is not None
        assert http.post(PATH, json={"layout": "all-7g.80gb"}).json()["phase"] == "asked"
    assert centre.do(kinds) == ["asked", "refused", "asked"]


def test_a_wish_that_has_not_ended_can_be_withdrawn(centre: Centre) -> None:
    with centre.client() as http:
        assert http.delete(PATH).status_code == 404
        http.post(PATH, json=LAYOUT)
        assert http.delete(PATH).status_code == 204
        assert http.delete(PATH).status_code == 404
        (shown,) = http.get("/v1/clusters/seoul").json()["partitions"]
        actions = [each["action"] for each in http.get("/v1/audit").json()["items"]]
    assert (shown["phase"], shown["reason"]) == ("failed", "withdrawn")
    assert {"cluster.partition", "cluster.partition.withdraw"} <= set(actions)


def test_what_a_cluster_warned_of_is_shown_newest_first_to_those_who_see_the_fleet(
    centre: Centre,
) -> None:
    async def warn(tx: Transaction) -> None:
        for number in range(25):
            tx.events.add(NewEvent("warning", "seoul", None, {"what": f"warning {number}"}))

    centre.do(warn)
    with centre.client("viewer") as http:
        shown = http.get("/v1/clusters/seoul").json()
    assert [each["what"] for each in shown["warnings"]] == [
        f"warning {number}" for number in range(24, 4, -1)
    ]
    with centre.client("acme") as http:
        hidden = http.get("/v1/clusters/seoul").json()
    assert (hidden["warnings"], hidden["nodes"], hidden["partitions"]) == ([], [], [])
