import asyncio
import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dure.api.problems import MEDIA_TYPE
from dure.domain.fleet.accounts import Role
from dure.domain.fleet.lifecycle import JobPhase
from dure.server.specs import job_terms
from dure.stores.errors import StoreUnavailableError
from dure.stores.repos.access import AuditFilter, Grant
from dure.stores.repos.jobs import JobFilter
from dure.stores.rows import Budget, Json
from dure.stores.submissions import Submission
from dure.stores.transaction import Transaction
from tests.server.rest.centre import Centre, job

YEAR_NS = 365 * 86400 * 10**9


def count(centre: Centre, tenant: str = "acme") -> int:
    async def counted(tx: Transaction) -> int:
        return sum((await tx.jobs.counts(tenant)).values())

    return centre.do(counted)


def refused(centre: Centre, body: Any, who: str = "acme", **more: Any) -> dict[str, Any]:
    """The problem that a submission ends in; nothing of it is stored."""
    before = count(centre), count(centre, "globex")
    with centre.client(who) as http:
        answer = http.post("/v1/jobs", **({"json": body} | more))
    assert answer.status_code >= 400
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert (count(centre), count(centre, "globex")) == before
    problem: dict[str, Any] = answer.json()
    assert problem["status"] == answer.status_code
    return problem


def test_a_submission_under_the_same_key_is_stored_once_and_answered_alike(centre: Centre) -> None:
    with centre.client("acme") as http:
        headers = {"Idempotency-Key": "once"}
        first = http.post("/v1/jobs", json=job("once"), headers=headers)
        before = count(centre)
        again = http.post("/v1/jobs", json=job("once"), headers=headers)
    assert again.status_code == first.status_code == 201
    assert again.json() == first.json()
    assert again.headers["idempotent-replayed"] == "true"
    assert count(centre) == before


def test_another_body_under_the_same_key_is_refused(centre: Centre) -> None:
    with centre.client("acme") as http:
        headers = {"Idempotency-Key": "reused"}
        http.post("/v1/jobs", json=job("one"), headers=headers)
    problem = refused(centre, job("other"), headers=headers)
    assert problem["status"] == 422
    assert problem["fields"][0]["field"] == "Idempotency-Key"
    assert "use a new key" in problem["detail"]


def test_the_same_key_of_another_tenant_is_another_key(centre: Centre) -> None:
    for who in ("acme", "globex"):
        with centre.client(who) as http:
            answer = http.post("/v1/jobs", json=job(), headers={"Idempotency-Key": "shared"})
            assert "idempotent-replayed" not in answer.headers


def test_an_array_is_stored_whole_and_its_jobs_know_their_numbers(centre: Centre) -> None:
    with centre.client("acme") as http:
        answer = http.post("/v1/jobs", json=job("grid", array=25)).json()
        found = http.get("/v1/jobs", params={"arrayId": answer["arrayId"]}).json()["items"]

    async def rows(tx: Transaction) -> list[str]:
        page = await tx.jobs.page(JobFilter(array_id=answer["arrayId"]))
        return [job_terms(row).program.env["DURE_ARRAY_INDEX"] for row in page.rows]

    assert [each["id"] for each in found] == answer["ids"]
    assert centre.do(rows) == [str(number) for number in range(25)]


def test_a_dry_run_stores_nothing(centre: Centre) -> None:
    before = count(centre)
    with centre.client("acme") as http:
        answer = http.post("/v1/jobs", json=job(array=3), params={"dryRun": "true"})
    assert (answer.status_code, answer.json()["count"]) == (200, 3)
    assert count(centre) == before


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"tenant": "globex"}, "tenant", "is not yours"),
        ({"team": "nobody"}, "team", "there is no team"),
        ({"clusters": ["seol"]}, "clusters[0]", "did you mean 'seoul'?"),
        ({"pool": "none"}, "pool", "there is no pool"),
        ({"weights": "unheard-of"}, "weights.name", "add its size"),
        ({"resources": {"profiles": ["h1000"]}}, "resources.profiles[0]", "did you mean 'h100'?"),
        ({"imag": "x"}, "imag", "did you mean 'image'?"),
    ],
)
def test_what_speaks_against_a_job_is_told_with_its_field(
    centre: Centre, changes: dict[str, Any], field: str, words: str
) -> None:
    problem = refused(centre, job() | changes)
    assert problem["fields"][0]["field"] == field
    assert words in problem["detail"]


def test_a_token_of_a_team_submits_for_its_team_alone(centre: Centre) -> None:
    with centre.client("vision") as http:
        made = http.post("/v1/jobs", json=job("of-team")).json()["ids"][0]
        assert http.get(f"/v1/jobs/{made}").json()["team"] == "vision"
    problem = refused(centre, job(team="speech"), "vision")
    assert (problem["status"], problem["fields"][0]["field"]) == (403, "team")


def test_an_administrator_must_say_whose_job_it_is(centre: Centre) -> None:
    assert refused(centre, job(), "admin")["fields"][0]["field"] == "tenant"


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"{", 400), (b"", 400), (b"\xff\xfe", 400), (b"[]", 422), (b'"\\ud800"', 400)],
)
def test_what_is_no_document_is_refused(centre: Centre, content: bytes, status: int) -> None:
    headers = {"Content-Type": "application/json"}
    assert refused(centre, None, content=content, headers=headers, json=None)["status"] == status


def test_a_body_that_is_not_json_or_too_long_is_refused(centre: Centre) -> None:
    yaml: dict[str, Any] = {
        "content": b"name: x",
        "headers": {"Content-Type": "application/yaml"},
        "json": None,
    }
    assert refused(centre, None, **yaml)["status"] == 415
    long = json.dumps(job(env={"A": "x" * 30_000}) | {"args": ["y" * 30_000] * 40}).encode()
    headers = {"Content-Type": "application/json"}
    problem = refused(centre, None, content=long, headers=headers, json=None)
    assert problem["status"] == 413


def test_a_spent_budget_refuses_new_jobs_of_its_team_until_it_is_raised(centre: Centre) -> None:
    async def spend(tx: Transaction) -> None:
        now_ns = tx.now_ns
        await tx.budgets.add(
            Budget("acme/speech", "m", "money", 10.0, now_ns - YEAR_NS, now_ns + YEAR_NS, 10.0)
        )

    centre.do(spend)
    centre.app.state.desk.known.forget()
    problem = refused(centre, job(team="speech"))
    assert (problem["status"], problem["type"]) == (409, "urn:dure:problem:budget")
    assert "ask for a larger budget" in problem["detail"]
    with centre.client("acme") as http:
        assert http.post("/v1/jobs", json=job(team="vision")).status_code == 201
    with centre.client("admin") as http:
        stored = http.get("/v1/budgets/acme/speech/m")
        spec = stored.json()["spec"] | {"limit": 20.0}
        changed = http.put(
            "/v1/budgets/acme/speech/m", json=spec, headers={"If-Match": stored.headers["etag"]}
        )
        assert (changed.status_code, changed.json()["spent"]) == (200, 10.0)
    with centre.client("acme") as http:
        assert http.post("/v1/jobs", json=job(team="speech")).status_code == 201


def test_a_quota_counts_jobs_that_have_not_ended(centre: Centre) -> None:
    with centre.client("admin") as http:
        live = sum(
            1
            for each in http.get("/v1/jobs", params={"tenant": "globex", "limit": 1000}).json()[
                "items"
            ]
            if not JobPhase(each["phase"]).ended
        )
        tag = http.get("/v1/tenants/globex").headers["etag"]
        spec = {"quota": {"jobs": live + 3}}
        http.put("/v1/tenants/globex", json=spec, headers={"If-Match": tag})
    with centre.client("globex") as http:
        assert http.post("/v1/jobs", json=job(array=2)).status_code == 201
    problem = refused(centre, job(array=2), "globex")
    assert (problem["status"], problem["type"]) == (409, "urn:dure:problem:quota")
    with centre.client("globex") as http:
        assert http.post("/v1/jobs", json=job()).status_code == 201
        assert http.post("/v1/jobs", json=job()).status_code == 409


def with_room_for(centre: Centre, jobs: int, tenant: str = "globex") -> None:
    """Set a quota that leaves room for so many jobs more."""

    async def live(tx: Transaction) -> int:
        return sum(n for phase, n in (await tx.jobs.counts(tenant)).items() if not phase.ended)

    quota = {"quota": {"jobs": centre.do(live) + jobs}}
    with centre.client("admin") as http:
        tag = http.get(f"/v1/tenants/{tenant}").headers["etag"]
        assert http.put(f"/v1/tenants/{tenant}", json=quota, headers={"If-Match": tag}).is_success


def test_a_submission_that_was_taken_is_answered_alike_once_there_is_no_room(
    centre: Centre,
) -> None:
    with_room_for(centre, 1)
    headers = {"Idempotency-Key": "last"}
    with centre.client("globex") as http:
        first = http.post("/v1/jobs", json=job("last"), headers=headers)
        again = http.post("/v1/jobs", json=job("last"), headers=headers)
    assert again.status_code == first.status_code == 201
    assert again.json() == first.json()
    assert again.headers["idempotent-replayed"] == "true"
    for other in (job("other"), job("last", priority=1)):
        problem = refused(centre, other, "globex", headers=headers)
        assert (problem["status"], problem["type"]) == (409, "urn:dure:problem:quota")
    assert (
        refused(centre, job("last"), "globex", headers={"Idempotency-Key": "new"})["status"] == 409
    )


def test_submissions_at_once_do_not_pass_the_quota_together(
    centre: Centre, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_room_for(centre, 2)
    submit = centre.store.submit

    async def slow(submission: Submission) -> Json:
        await asyncio.sleep(0.3)
        return await submit(submission)

    monkeypatch.setattr(centre.store, "submit", slow)
    before = count(centre, "globex")
    with centre.client("globex") as http, ThreadPoolExecutor(6) as many:
        answers = list(many.map(lambda _: http.post("/v1/jobs", json=job()).status_code, range(6)))
    assert sorted(answers) == [201, 201, 409, 409, 409, 409]
    assert count(centre, "globex") == before + 2


def test_a_submission_that_fails_takes_no_room(
    centre: Centre, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_room_for(centre, 1)
    known = centre.app.state.desk.known

    async def away(submission: Submission) -> Json:
        raise StoreUnavailableError("the database is away", "wait")

    with centre.client("globex") as http:
        with monkeypatch.context() as patch:
            patch.setattr(centre.store, "submit", away)
            assert http.post("/v1/jobs", json=job()).status_code == 503
        # Also by what was read before.
        assert known._catalogue.live["globex"] + 1 == known._catalogue.quotas["globex"]
        assert http.post("/v1/jobs", json=job()).status_code == 201


def test_who_submitted_is_in_the_audit_log_and_who_was_refused_too(centre: Centre) -> None:
    with centre.client("acme") as http:
        made = http.post("/v1/jobs", json=job("audited")).json()["ids"][0]
        http.post("/v1/jobs", json=job(tenant="globex"))
        done = http.get("/v1/audit", params={"subject": made}).json()["items"]
        newest = http.get("/v1/audit", params={"limit": 1}).json()["items"][0]
    assert [(each["action"], each["outcome"]) for each in done] == [("job.submit", "done")]
    assert (newest["action"], newest["outcome"]) == ("POST /v1/jobs", "refused: 403 forbidden")


def test_a_refused_stranger_is_in_the_audit_log(centre: Centre) -> None:
    with centre.client("dure_wrong") as http:
        assert http.post("/v1/jobs", json=job()).status_code == 401

    async def newest(tx: Transaction) -> tuple[str, str]:
        entry = (await tx.audit.page(AuditFilter(actor="unknown"), limit=1)).rows[0]
        return entry.action, entry.outcome

    assert centre.do(newest) == ("POST /v1/jobs", "refused: 401 unauthenticated")


@pytest.mark.parametrize("kind", ["expired", "revoked"])
def test_expired_and_revoked_tokens_are_told_no_more_than_unknown_ones(
    centre: Centre, kind: str
) -> None:
    async def issue(tx: Transaction) -> str:
        ends_ns = 1 if kind == "expired" else None
        token, secret = await tx.tokens.issue(Grant(Role.TENANT, tenant="acme", expires_ns=ends_ns))
        if kind == "revoked":
            await tx.tokens.revoke(token.id)
        return secret

    secret = centre.do(issue)
    problems = []
    for each in (secret, "dure_never-issued"):
        with centre.client(each) as http:
            answer = http.get("/v1/whoami")
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        problems.append(answer.json())
    assert problems[0] == problems[1]


def test_a_revocation_is_felt_at_once(centre: Centre) -> None:
    with centre.client("admin") as admin:
        issued = admin.post("/v1/tokens", json={"role": "viewer"}).json()
        with centre.client(issued["secret"]) as http:
            assert http.get("/v1/whoami").status_code == 200
            assert admin.delete(f"/v1/tokens/{issued['token']['id']}").status_code == 204
            assert http.get("/v1/whoami").status_code == 401


def test_secrets_are_stored_only_as_hashes(centre: Centre) -> None:
    with centre.client("admin") as http:
        issued = http.post("/v1/tokens", json={"role": "viewer"}).json()

    async def stored(tx: Transaction) -> str:
        return (await tx.tokens.get(issued["token"]["id"])).secret_hash

    assert centre.do(stored) == hashlib.sha256(issued["secret"].encode()).hexdigest()


def test_a_tenant_may_issue_tokens_only_for_itself_and_below(centre: Centre) -> None:
    with centre.client("acme") as http:
        below = http.post("/v1/tokens", json={"role": "tenant", "tenant": "acme/vision"})
        assert below.status_code == 201
        for wanted in (
            {"role": "admin"},
            {"role": "viewer"},
            {"role": "tenant", "tenant": "globex"},
            {"role": "member", "cluster": "seoul"},
        ):
            assert http.post("/v1/tokens", json=wanted).status_code == 403
