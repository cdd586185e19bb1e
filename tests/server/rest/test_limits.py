from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dure.server.rest.limits import RateLimit
from dure.server.rest.settings import RestSettings
from dure.server.settings import ServerSettings
from tests.server.rest.centre import Centre, job
from tests.stores.services import Postgres


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Centre]:
    """A centre that allows little."""
    folder: Path = tmp_path_factory.mktemp("tight")
    rest = RestSettings(requests_per_s=0.001, burst=5, strangers_per_s=0.001, strangers_burst=3,
                        body_bytes=400, streams=1)  # fmt: skip
    settings = replace(ServerSettings(), rest=rest)
    with Centre(f"sqlite:///{folder / 'state.db'}", settings=settings) as running:
        yield running


def test_who_asks_too_often_is_told_to_wait_and_others_are_not(tight: Centre) -> None:
    with tight.client("viewer") as http:
        answers = [http.get("/v1/whoami") for _ in range(6)]
    assert [each.status_code for each in answers] == [200] * 5 + [429]
    assert int(answers[-1].headers["retry-after"]) > 0
    with tight.client("globex") as http:
        assert http.get("/v1/whoami").status_code == 200


def test_strangers_have_a_limit_of_their_own(tight: Centre) -> None:
    with tight.client("dure_guess") as http:
        statuses = [http.get("/v1/whoami").status_code for _ in range(4)]
    assert statuses == [401, 401, 401, 429]


def test_the_largest_body_is_a_setting(tight: Centre) -> None:
    with tight.client("acme") as http:
        assert http.post("/v1/jobs", json=job()).status_code == 201
        assert http.post("/v1/jobs", json=job(args=["x" * 400])).status_code == 413


def test_streams_are_bounded(tight: Centre) -> None:
    with tight.client("admin") as http, http.stream("GET", "/v1/events/stream") as first:
        chunks = first.iter_raw()
        next(chunks)
        second = http.get("/v1/events/stream")
    assert (second.status_code, second.json()["type"]) == (
        503,
        "urn:dure:problem:too-many-streams",
    )


def test_a_bucket_fills_again() -> None:
    limit = RateLimit(per_s=2.0, burst=1)
    assert limit.wait_s("a", 0.0) == 0.0
    assert limit.wait_s("a", 0.0) == pytest.approx(0.5)
    assert limit.wait_s("b", 0.0) == 0.0
    assert limit.wait_s("a", 0.5) == 0.0


@pytest.mark.services
def test_while_the_database_is_away_one_is_told_to_come_back(postgres: Postgres) -> None:
    with Centre(postgres.fresh()) as centre, centre.client("admin") as http:
        assert http.get("/v1/jobs").status_code == 200
        postgres.kill()
        try:
            away = http.get("/v1/jobs")
            unready = http.get("/readyz")
            alive = http.get("/healthz")
        finally:
            postgres.start()
        assert (away.status_code, away.json()["type"]) == (503, "urn:dure:problem:unavailable")
        assert away.headers["retry-after"] == "1"
        assert (unready.status_code, alive.status_code) == (503, 200)
        assert http.get("/v1/jobs").status_code == 200
