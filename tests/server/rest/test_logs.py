from collections.abc import Iterator
from pathlib import Path

import pytest

from dure.stores.rows import Attempt
from dure.stores.transaction import Transaction
from tests.server.rest.centre import Centre, job


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Centre, Centre]]:
    """Two servers on one database."""
    address = f"sqlite:///{tmp_path_factory.mktemp('pair') / Path('state.db')}"
    with Centre(address) as one, Centre(address) as other:
        other.secrets = one.secrets
        yield one, other


def running_job(centre: Centre, cluster: str) -> str:
    with centre.client("acme") as http:
        job_id = str(http.post("/v1/jobs", json=job()).json()["ids"][0])

    async def reserve(tx: Transaction) -> None:
        await tx.attempts.add(Attempt(job_id, 1, cluster, 1, 1))

    centre.do(reserve)
    return job_id


def test_logs_come_over_the_link_that_this_server_has(pair: tuple[Centre, Centre]) -> None:
    one, _ = pair
    one.logs.chunks["busan"] = [b"first\n", b"second\n"]
    job_id = running_job(one, "busan")
    with one.client("acme") as http:
        assert http.get(f"/v1/jobs/{job_id}/logs").text == "first\nsecond\n"


def test_a_server_without_the_link_asks_the_one_that_has_it(pair: tuple[Centre, Centre]) -> None:
    one, other = pair
    one.logs.elsewhere["seoul"] = other.url
    other.logs.chunks["seoul"] = [b"from afar\n"]
    job_id = running_job(one, "seoul")
    with one.client("acme") as http:
        assert http.get(f"/v1/jobs/{job_id}/logs").text == "from afar\n"


def test_two_servers_do_not_ask_each_other_for_ever(pair: tuple[Centre, Centre]) -> None:
    one, other = pair
    one.logs.elsewhere["seoul"] = other.url
    other.logs.chunks.pop("seoul", None)
    other.logs.elsewhere["seoul"] = one.url
    job_id = running_job(one, "seoul")
    with one.client("acme") as http:
        answer = http.get(f"/v1/jobs/{job_id}/logs")
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:dure:problem:not-linked")


def test_a_job_that_was_not_started_has_no_logs(pair: tuple[Centre, Centre]) -> None:
    with pair[0].client("acme") as http:
        job_id = http.post("/v1/jobs", json=job()).json()["ids"][0]
        assert http.get(f"/v1/jobs/{job_id}/logs").status_code == 409
