from tests.server.rest.centre import Centre, job


def test_a_submitted_job_can_be_read_listed_and_cancelled(centre: Centre) -> None:
    with centre.client("acme") as http:
        made = http.post("/v1/jobs", json=job("slice", labels={"run": "one"}))
        assert made.status_code == 201, made.text
        (job_id,) = made.json()["ids"]
        assert made.headers["location"] == f"/v1/jobs/{job_id}"
        shown = http.get(f"/v1/jobs/{job_id}").json()
        assert (shown["phase"], shown["tenant"], shown["name"]) == ("queued", "acme", "slice")
        assert shown["spec"]["work"]["time"] == "2h"
        listed = http.get("/v1/jobs", params={"label": "run=one"}).json()
        assert [each["id"] for each in listed["items"]] == [job_id]
        cancelled = http.post(f"/v1/jobs/{job_id}/cancel")
        assert cancelled.status_code == 202, cancelled.text
        assert cancelled.json()["phase"] == "cancelling"
        assert (
            http.post(f"/v1/jobs/{job_id}/cancel").json()["revision"]
            == cancelled.json()["revision"]
        )


def test_priority_and_suspension_of_a_job_are_changed_one_by_one_and_not_after_its_end(
    centre: Centre,
) -> None:
    with centre.client("acme") as http:
        (job_id,) = http.post("/v1/jobs", json=job("slice")).json()["ids"]
        path = f"/v1/jobs/{job_id}"
        ranked = http.patch(path, json={"priority": 5}).json()
        assert (ranked["priority"], ranked["suspended"]) == (5, False)
        waits = http.patch(path, json={"suspend": True}).json()
        assert (waits["priority"], waits["suspended"]) == (5, True)
        assert http.patch(path, json={}).json()["revision"] == waits["revision"]
        refused = http.patch(path, json={"image": "other"})
        assert refused.status_code == 422
        http.post(f"{path}/cancel")
