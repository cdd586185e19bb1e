"""Tenants see and touch only what is theirs; of others' things they learn not even that they
exist."""

import pytest

from tests.server.rest.centre import Centre, job

SPAN = {"since": "2026-01-01T00:00:00Z", "until": "2027-01-01T00:00:00Z"}
PERIOD = {"periodStart": SPAN["since"], "periodEnd": SPAN["until"]}


@pytest.fixture(scope="module")
def jobs(centre: Centre) -> dict[str, str]:
    """One job each of two teams of acme, and of globex."""
    made = {}
    for who, body in (
        ("vision", job("v", team="vision")),
        ("speech", job("s", team="speech")),
        ("globex", job("g")),
    ):
        with centre.client("globex" if who == "globex" else "acme") as http:
            made[who] = http.post("/v1/jobs", json=body).json()["ids"][0]
    return made


READS = ("", "/explain", "/wait?timeout=0", "/watch", "/logs")


@pytest.mark.parametrize("suffix", READS)
@pytest.mark.parametrize("who", ["globex", "vision"])
def test_the_jobs_of_others_are_not_there(
    centre: Centre, jobs: dict[str, str], who: str, suffix: str
) -> None:
    with centre.client(who) as http:
        others = http.get(f"/v1/jobs/{jobs['speech']}{suffix}")
        nothing = http.get(f"/v1/jobs/{'0' * 26}{suffix}")
    assert (others.status_code, nothing.status_code) == (404, 404)
    assert others.json()["detail"].replace(jobs["speech"], "0" * 26) == nothing.json()["detail"]


def test_the_jobs_of_others_cannot_be_cancelled(centre: Centre, jobs: dict[str, str]) -> None:
    for who in ("globex", "vision"):
        with centre.client(who) as http:
            assert http.post(f"/v1/jobs/{jobs['speech']}/cancel").status_code == 404
    with centre.client("acme") as http:
        assert http.get(f"/v1/jobs/{jobs['speech']}").json()["phase"] == "queued"


@pytest.mark.parametrize(
    ("who", "seen"),
    [
        ("acme", {"vision", "speech"}),
        ("acme-viewer", {"vision", "speech"}),
        ("vision", {"vision"}),
        ("globex", {"globex"}),
        ("viewer", {"vision", "speech", "globex"}),
    ],
)
def test_lists_and_events_hold_ones_own_alone(
    centre: Centre, jobs: dict[str, str], who: str, seen: set[str]
) -> None:
    own = {jobs[name] for name in seen}
    with centre.client(who) as http:
        listed = http.get("/v1/jobs", params={"limit": 1000}).json()["items"]
        events = http.get("/v1/events", params={"limit": 1000}).json()["items"]
        assert http.get("/v1/jobs", params={"tenant": "globex"}).status_code == 200
    assert {each["id"] for each in listed} == own
    assert {each["subject"] for each in events if each["kind"] == "job.submitted"} == own


def test_tenants_pools_budgets_tokens_and_plans_are_those_of_ones_own(centre: Centre) -> None:
    with centre.client("admin") as http:
        http.put("/v1/pools/theirs", json={"tenant": "globex", "profile": "h100"})
        http.put("/v1/budgets/globex/b", json={"unit": "money", "limit": 1.0} | PERIOD)
        spec = {"namespaces": {"acme": "a", "globex": "g"}}
        http.put("/v1/clusters/shared", json=spec)
    with centre.client("acme") as http:
        paths = {each["path"] for each in http.get("/v1/tenants").json()["items"]}
        assert "globex" not in paths
        assert "acme/vision" in paths
        assert http.get("/v1/tenants/globex").status_code == 404
        assert http.get("/v1/pools/theirs").status_code == 404
        assert http.get("/v1/pools").json()["items"] == []
        assert http.get("/v1/budgets/globex/b").status_code == 404
        assert http.get("/v1/budgets").json()["items"] == []
        tokens = http.get("/v1/tokens").json()["items"]
        assert {each["tenant"] for each in tokens} == {"acme", "acme/vision"}
        assert http.get("/v1/bills", params={"tenant": "globex"}).status_code == 404
        shown = http.get("/v1/clusters/shared").json()
        assert shown["spec"]["namespaces"] == {"acme": "a"}
        assert http.get("/v1/clusters/seoul/plan").json()["attempts"] == []
