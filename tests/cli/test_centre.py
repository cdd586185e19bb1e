"""Commands that ask the centre, against a real one."""

import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dure.domain.fleet.decisions import Alternative, Explanation, Site
from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.ids import ClusterId
from dure.server.records import inventory_data
from dure.stores.repos.jobs import Step
from dure.stores.rows import Attempt
from dure.stores.transaction import Transaction
from dure.wire.plain import pack
from tests.server.members import inventory
from tests.server.rest.centre import Centre

Dure = Callable[..., tuple[int, str, str]]
JOB = "name: train\nkind: training\nimage: trainer:1\nwork: 2h\n"


@pytest.fixture(scope="module")
def centre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Centre]:
    folder: Path = tmp_path_factory.mktemp("cli")
    with Centre(f"sqlite:///{folder / 'state.db'}") as running:
        yield running


@pytest.fixture(autouse=True)
def as_acme(centre: Centre, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DURE_SERVER", centre.url)
    monkeypatch.setenv("DURE_TOKEN", centre.secrets["acme"])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def as_admin(centre: Centre, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DURE_TOKEN", centre.secrets["admin"])


def write(folder: Path, text: str, name: str = "job.yaml") -> str:
    file = folder / name
    file.write_text(text)
    return str(file)


def finish(centre: Centre, job: str, phase: JobPhase) -> None:
    async def step(tx: Transaction) -> None:
        await tx.jobs.lock([job])
        await tx.jobs.step_all([Step(job, phase, 1, None, 0, "so it ended")])

    centre.do(step)


def test_jobs_of_several_documents_are_submitted_listed_and_shown(
    dure: Dure, tmp_path: Path
) -> None:
    file = write(tmp_path, f"{JOB}---\n# nothing\n---\n{JOB}labels: {{run: two}}\n")
    code, out, _ = dure("submit", file, "--set", "resources.memory=20GiB", "--set", "gang=4")
    assert code == 0
    first, second = out.split()
    code, out, _ = dure("jobs", "--json", "--label", "run=two")
    assert [each["id"] for each in json.loads(out)["jobs"]] == [second]
    code, out, _ = dure("jobs", first, "--json")
    spec = json.loads(out)["spec"]
    assert (spec["resources"]["memory"], spec["gang"]["workers"]) == ("20GiB", 4)
    code, out, _ = dure("jobs", first)
    assert out.startswith("train (training) of acme: queued")
    code, out, _ = dure("jobs")
    assert first in out
    assert "queued" in out


def test_a_mistake_in_a_file_is_told_with_line_and_field_and_nothing_is_sent(
    dure: Dure, tmp_path: Path
) -> None:
    good = write(tmp_path, JOB, "good.yaml")
    bad = write(tmp_path, f"{JOB}---\nname: x\nkind: training\nimagee: y\n", "bad.yaml")
    before = dure("jobs", "--json")[1]
    code, _, err = dure("submit", good, bad)
    assert code == 2
    assert "bad.yaml, line 8: imagee: there is no such field; did you mean 'image'?" in err
    assert dure("jobs", "--json")[1] == before


def test_malformed_yaml_is_told_with_its_line(dure: Dure, tmp_path: Path) -> None:
    code, _, err = dure("submit", write(tmp_path, "name: [x\nkind: y\n"))
    assert code == 2
    assert "this is not valid YAML" in err


def test_a_refusal_of_the_centre_is_one_sentence(dure: Dure, tmp_path: Path) -> None:
    code, _, err = dure("submit", write(tmp_path, JOB), "--set", "tenant=globex")
    assert code == 1
    assert err.count("\n") == 1
    assert "tenant: 'globex' is not yours" in err


def test_a_dry_run_and_a_key_store_nothing_twice(dure: Dure, tmp_path: Path) -> None:
    file = write(tmp_path, JOB)
    before = dure("jobs", "--json")[1]
    assert dure("submit", file, "--dry-run")[1] == "train: would be accepted\n"
    assert dure("jobs", "--json")[1] == before
    first = dure("submit", file, "--key", "k1")[1]
    assert dure("submit", file, "--key", "k1")[1] == first


def test_wait_tells_by_its_exit_code_how_jobs_ended(
    dure: Dure, centre: Centre, tmp_path: Path
) -> None:
    file = write(tmp_path, JOB)
    ids = [dure("submit", file)[1].strip() for _ in range(3)]
    finish(centre, ids[0], JobPhase.SUCCEEDED)
    finish(centre, ids[1], JobPhase.FAILED)
    assert dure("wait", ids[0])[0] == 0
    code, _, err = dure("wait", ids[0], ids[1])
    assert code == 1
    assert f"{ids[1]} failed (so it ended)" in err
    assert dure("wait", ids[2], "--timeout", "100ms")[0] == 3


def test_a_job_is_ranked_anew_suspended_and_let_go_on(dure: Dure, tmp_path: Path) -> None:
    job = dure("submit", write(tmp_path, JOB))[1].strip()
    suspended = dure("edit", job, "--priority", "5", "--suspend")
    assert suspended == (0, f"{job} queued priority 5 suspended\n", "")
    assert dure("edit", job, "--resume")[1] == f"{job} queued priority 5\n"
    code, _, err = dure("edit", job)
    assert code == 2
    assert "--priority, --suspend or --resume" in err


def test_cancel_explain_and_logs_of_a_job(dure: Dure, centre: Centre, tmp_path: Path) -> None:
    job = dure("submit", write(tmp_path, JOB))[1].strip()

    async def placed(tx: Transaction) -> None:
        why = Explanation(
            terms=(("rent", 12.0), ("locality", -2.0)),
            g_co2=900.0,
            congestion=1.5,
            runner_up=Alternative(Site(ClusterId("seoul"), "a"), 0, 14.0),
        )
        await tx.attempts.add(Attempt(job, 1, "busan", 1, 1, spec={"explanation": pack(why)}))

    centre.do(placed)
    centre.logs.chunks["busan"] = [b"hello\n"]
    assert dure("logs", job) == (0, "hello\n", "")
    code, out, _ = dure("explain", job)
    assert code == 0
    assert "next best: seoul/a at 14.00" in out
    told = json.loads(dure("explain", job, "--json")[1])["attempts"][0]["explanation"]
    assert (told["money"], told["total"]) == (10.0, 11.5)
    assert dure("cancel", job)[1] == f"{job} cancelling\n"


@pytest.mark.usefixtures("as_admin")
def test_a_cluster_is_added_cordoned_and_removed(dure: Dure, centre: Centre) -> None:
    code, out, _ = dure("clusters", "add", "tokyo", "--region", "jp", "--set", "pue=1.5")
    assert code == 0
    secret = out.strip()
    with centre.client(secret) as http:
        assert http.get("/v1/whoami").json()["cluster"] == "tokyo"
    code, _, err = dure("clusters", "add", "tokyo")
    assert code == 1
    assert "there is a cluster tokyo already" in err
    assert dure("clusters", "cordon", "tokyo")[1] == "cluster tokyo is cordoned.\n"
    listed = json.loads(dure("clusters", "--json")[1])["clusters"]
    assert [(each["name"], each["state"]) for each in listed if each["name"] == "tokyo"] == [
        ("tokyo", "cordoned")
    ]
    assert "tokyo" in dure("clusters")[1]
    assert dure("clusters", "declare-lost", "tokyo", "--yes")[1] == "cluster tokyo is lost.\n"
    assert dure("clusters", "remove", "tokyo")[0] == 0
    with centre.client(secret) as http:
        assert http.get("/v1/whoami").status_code == 401


@pytest.mark.usefixtures("as_admin")
def test_what_people_name_is_set_listed_shown_and_removed(dure: Dure, tmp_path: Path) -> None:
    budget = "unit: money\nlimit: 10.0\nperiodStart: '2026-01-01T00:00:00Z'\nperiodEnd: '2027-01-01T00:00:00Z'\n"  # noqa: E501
    for group, name, text in (
        (("fleet", "tenants"), "initech", "weight: 2.0\n"),
        (("pool",), "gold", "tenant: acme\nprofile: h100\nguaranteed: 2\n"),
        (("feed",), "kr", "kind: carbon\n"),
        (("budget",), "acme/year", budget),
        (("fleet", "policy"), "green", "all: {carbonPerTonne: 90.0}\n"),
    ):
        file = write(tmp_path, text)
        assert "is created" in dure(*group, "set", name, file)[1]
        assert "is changed" in dure(*group, "set", name, file)[1]
        assert json.loads(dure(*group, "show", name)[1])["revision"] == 1
        assert name in dure(*group, "list")[1]
        assert name.rpartition("/")[2] in dure(*group, "list", "--json")[1]
        assert "is removed" in dure(*group, "remove", name)[1]
        assert dure(*group, "show", name)[0] == 1


@pytest.mark.usefixtures("as_admin")
def test_points_of_a_feed_go_in_and_out_as_csv(dure: Dure, tmp_path: Path) -> None:
    dure("feed", "set", "price", write(tmp_path, "kind: tariff\n"))
    table = "at,value\n2026-01-01T00:00:00Z,40\n2026-01-01T01:00:00Z,50.5\n"
    assert "2 points" in dure("feed", "push", "price", write(tmp_path, table, "p.csv"))[1]
    span = ("--since", "2026-01-01T00:00:00Z", "--until", "2026-01-02T00:00:00Z")
    assert dure("feed", "points", "price", *span)[1].splitlines()[1:] == [
        "2026-01-01T00:00:00.000Z,40",
        "2026-01-01T01:00:00.000Z,50.5",
    ]
    code, _, err = dure("feed", "push", "price", write(tmp_path, "at,value\nx,1\n", "bad.csv"))
    assert code == 2
    assert "bad.csv, line 2" in err


@pytest.mark.usefixtures("as_admin")
def test_tokens_events_and_the_audit_log(dure: Dure, tmp_path: Path) -> None:
    made = json.loads(dure("token", "create", "--role", "viewer", "--name", "graphs", "--json")[1])
    token = made["token"]["id"]
    assert token in dure("token", "list")[1]
    assert dure("token", "revoke", token)[0] == 0
    assert "token.revoke" in dure("audit", "--subject", token)[1]
    code, _, err = dure("token", "create", "--role", "tenant")
    assert code == 2
    assert "bound to one" in err
    dure("fleet", "tenants", "set", "umbrella", write(tmp_path, "{}"))
    assert "tenant.changed" in dure("events", "--subject", "umbrella")[1]


def test_a_bill_of_a_quiet_period_says_so(dure: Dure) -> None:
    code, out, _ = dure("bill", "--tenant", "acme")
    assert code == 0
    assert "Nothing was used" in out
    assert json.loads(dure("bill", "--tenant", "acme", "--json")[1])["totals"] == []


def test_login_tries_the_token_and_stores_it_for_its_owner_alone(
    dure: Dure, centre: Centre, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = dure("login", centre.url, "--token", "dure_wrong")
    assert code == 1
    assert "unknown, expired or revoked" in err
    code, out, _ = dure("login", centre.url, "--token", centre.secrets["viewer"])
    assert code == 0
    assert "viewer" in out
    file = tmp_path / "config" / "dure" / "config.yaml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    monkeypatch.delenv("DURE_SERVER")
    monkeypatch.delenv("DURE_TOKEN")
    assert json.loads(dure("whoami", "--json")[1])["role"] == "viewer"


def test_no_server_is_one_sentence_with_the_remedy(
    dure: Dure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DURE_TOKEN")
    assert "run `dure login URL`" in dure("jobs")[2]
    monkeypatch.setenv("DURE_SERVER", "localhost:7600")
    code, _, err = dure("jobs")
    assert code == 2
    assert "write http://HOST:PORT" in err


@pytest.mark.usefixtures("as_admin")
def test_without_a_file_set_changes_what_it_names_and_keeps_the_rest(dure: Dure) -> None:
    assert "is created" in dure("fleet", "tenants", "set", "initech", "--set", "weight=3.0")[1]
    assert "is changed" in dure("fleet", "tenants", "set", "initech", "--set", "title=I")[1]
    spec = json.loads(dure("fleet", "tenants", "show", "initech")[1])["spec"]
    assert (spec["weight"], spec["title"]) == (3.0, "I")
    code, _, said = dure("fleet", "tenants", "set", "initech", "--set", "wieght=1")
    assert code == 2
    assert "weight" in said
    dure("clusters", "add", "cellar", "--kind", "process", "--region", "kr")
    changed = json.loads(dure("clusters", "set", "cellar", "--set", "pue=1.4")[1])["spec"]
    assert (changed["pue"], changed["region"], changed["kind"]) == (1.4, "kr", "process")


@pytest.mark.usefixtures("as_admin")
def test_a_node_is_asked_to_be_divided_anew_and_the_wish_withdrawn(
    centre: Centre, dure: Dure
) -> None:
    async def add(tx: Transaction) -> None:
        await tx.news.said("seoul", inventory=inventory_data(inventory()))

    centre.do(add)
    where = ("clusters", "repartition", "seoul", "node-0")
    code, out, _ = dure(*where, "all-1g.10gb")
    assert (code, out) == (0, "node node-0 of seoul shall become all-1g.10gb: asked.\n")
    (wish,) = json.loads(dure("clusters", "show", "seoul")[1])["partitions"]
    assert (wish["node"], wish["phase"]) == ("node-0", "asked")
    code, _, err = dure(*where, "all-7g.80gb")
    assert code != 0
    assert "divided as all-1g.10gb" in err
    assert dure(*where)[0] == 2
    code, out, _ = dure(*where, "--withdraw")
    assert (code, out) == (0, "node node-0 of seoul stays as it is.\n")
