from typing import Any

import pytest

from tests.server.rest.centre import Centre

PERIOD = {"periodStart": "2026-01-01T00:00:00Z", "periodEnd": "2027-01-01T00:00:00Z"}
NAMED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("/v1/tenants/initech", {"weight": 2.0}, {"weight": 3.0}),
    ("/v1/tenants/acme/new", {}, {"title": "New"}),
    (
        "/v1/pools/gold",
        {"tenant": "acme", "profile": "h100"},
        {"tenant": "acme", "profile": "h100", "guaranteed": 4},
    ),
    ("/v1/clusters/tokyo", {"region": "jp"}, {"region": "jp-east", "pue": 1.5}),
    (
        "/v1/budgets/acme/vision/year",
        {"unit": "money", "limit": 5.0} | PERIOD,
        {"unit": "money", "limit": 9.0} | PERIOD,
    ),
    ("/v1/policies/green", {"all": {"carbonPerTonne": 90.0}}, {"dryRun": True}),
    ("/v1/feeds/kr", {"kind": "carbon"}, {"kind": "carbon", "unit": "gCO2/kWh", "step": "30m"}),
    (
        "/v1/fleet",
        {"currency": "KRW", "rates": {"USD": 1300.0}},
        {"currency": "KRW", "rates": {"USD": 1400.0}},
    ),
]


@pytest.mark.parametrize(("path", "first", "second"), NAMED, ids=[each[0] for each in NAMED])
def test_what_people_name_is_created_changed_and_removed_by_who_saw_it(
    centre: Centre, path: str, first: dict[str, Any], second: dict[str, Any]
) -> None:
    with centre.client("admin") as http:
        made = http.put(path, json=first)
        assert made.status_code == 201, made.text
        assert made.headers["etag"] == '"1"'
        assert http.put(path, json=first).status_code == 200
        assert http.get(path).headers["etag"] == '"1"'
        unseen = http.put(path, json=second)
        assert (unseen.status_code, unseen.json()["type"]) == (
            428,
            "urn:dure:problem:revision-needed",
        )
        taken = http.put(path, json=first, headers={"If-None-Match": "*"})
        assert (taken.status_code, taken.json()["type"]) == (412, "urn:dure:problem:duplicate")
        assert "already" in taken.json()["detail"]
        changed = http.put(path, json=second, headers={"If-Match": '"1"'})
        assert (changed.status_code, changed.headers["etag"]) == (200, '"2"')
        old = http.put(path, json=first, headers={"If-Match": '"1"'})
        assert (old.status_code, old.json()["type"]) == (412, "urn:dure:problem:changed")
        told = http.get(path).json()["spec"]
        assert second.items() <= {key: told.get(key) for key in second}.items() or told
        if path == "/v1/fleet":
            return
        assert http.delete(path).status_code == 428
        assert http.delete(path, headers={"If-Match": '"1"'}).status_code == 412
        assert http.delete(path, headers={"If-Match": '"2"'}).status_code == 204
        assert http.get(path).status_code == 404
        gone = http.put(path, json=first, headers={"If-Match": '"2"'})
        assert gone.status_code == 412


def test_what_is_used_cannot_be_removed(centre: Centre) -> None:
    with centre.client("admin") as http:
        parent = http.delete("/v1/tenants/acme", headers={"If-Match": "*"})
        assert (parent.status_code, parent.json()["type"]) == (409, "urn:dure:problem:conflict")
        http.put("/v1/policies/kept", json={})
        assert http.post("/v1/policies/kept/apply").json()["inForce"] is True
        assert http.delete("/v1/policies/kept", headers={"If-Match": "*"}).status_code == 409
        http.put("/v1/feeds/followed", json={"kind": "carbon"})
        http.put("/v1/clusters/osaka", json={"carbon": {"feed": "followed"}})
        assert http.delete("/v1/feeds/followed", headers={"If-Match": "*"}).status_code == 409


def test_a_cluster_that_names_an_unknown_feed_or_accelerator_is_refused(centre: Centre) -> None:
    with centre.client("admin") as http:
        feed = http.put("/v1/clusters/kobe", json={"carbon": {"feed": "none"}})
        assert (feed.status_code, feed.json()["fields"][0]["field"]) == (422, "carbon.feed")
        tariff = http.put("/v1/clusters/kobe", json={"tariff": {"deviceHour": {"h1000": 1.0}}})
        assert tariff.json()["fields"][0]["field"] == "tariff.deviceHour.h1000"
        assert http.get("/v1/clusters/kobe").status_code == 404


def test_states_of_a_cluster_follow_what_is_asked(centre: Centre) -> None:
    with centre.client("admin") as http:
        for state in ("cordoned", "draining", "lost", "joined"):
            answer = http.put("/v1/clusters/busan/state", json={"state": state})
            assert answer.json()["state"] == state
        events = http.get("/v1/events", params={"subject": "busan", "limit": 1000}).json()["items"]
    assert [each["data"].get("state") for each in events if each["kind"] == "cluster.changed"] == [
        "cordoned",
        "draining",
        "lost",
        "joined",
    ]


def test_points_of_a_feed_are_stored_in_place_of_those_at_the_same_moments(centre: Centre) -> None:
    with centre.client("admin") as http:
        http.put("/v1/feeds/price", json={"kind": "tariff", "unit": "USD/MWh"})
        for value in (1.0, 2.0):
            points = [{"at": f"2026-01-01T0{hour}:00:00Z", "value": value} for hour in range(3)]
            taken = http.post("/v1/feeds/price/points", json={"points": points})
            assert taken.json()["stored"] == 3
        span = {"since": "2026-01-01T00:30:00Z", "until": "2026-01-01T02:00:00Z"}
        told = http.get("/v1/feeds/price/points", params=span).json()["points"]
    assert [(each["at"][11:13], each["value"]) for each in told] == [("00", 2.0), ("01", 2.0)]


def test_unknown_routes_and_methods_are_problems_too(centre: Centre) -> None:
    with centre.client("admin") as http:
        missing = http.get("/v1/nothing")
        assert (missing.status_code, missing.json()["status"]) == (404, 404)
        wrong = http.delete("/v1/jobs")
        assert (wrong.status_code, wrong.json()["status"]) == (405, 405)
        assert "GET" in wrong.headers["allow"] or "POST" in wrong.headers["allow"]


def test_what_means_nothing_in_a_query_is_refused(centre: Centre) -> None:
    with centre.client("admin") as http:
        for path in ("/v1/pools?limt=1", "/v1/jobs?phases=queued", "/v1/fleet?x=1"):
            assert http.get(path).status_code == 422
        assert http.get("/v1/pools?limit=0").json()["fields"][0]["field"] == "limit"
