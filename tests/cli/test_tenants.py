import json

from tests.cli.agents import TRAIN, CannedAgent
from tests.cli.conftest import Dure


def test_tenants_lists_what_was_said_of_each(dure: Dure, agent: CannedAgent) -> None:
    code, out, err = dure("tenants")
    assert (code, err) == (0, "")
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert rows["web"][2:] == [
        *("guaranteed", "1", "p99≤20ms", "20", "GiB", "4001", "python", "serve.py")
    ]
    assert rows["train"][2:] == ["best-effort", "2", "4002", "python", "train.py"]


def test_tenants_as_json(dure: Dure, agent: CannedAgent) -> None:
    code, out, _ = dure("tenants", "--json")
    assert code == 0
    assert [each["name"] for each in json.loads(out)["tenants"]] == ["web", "train"]


def test_no_tenants_says_how_to_start_one(dure: Dure, agent: CannedAgent) -> None:
    agent.says("GET", "/v1/tenants", {"tenants": []})
    assert dure("tenants") == (0, "No tenants. Start one: dure run -- PROGRAM\n", "")


def test_set_sends_only_what_was_named(dure: Dure, agent: CannedAgent) -> None:
    agent.says("PATCH", "/v1/tenants/train", {**TRAIN, "spec": {"weight": 3.0}})
    code, out, err = dure("set", "train", "weight=3", "memory-limit=none")
    assert (code, err) == (0, "")
    assert "train" in out
    sent = [body for method, path, body in agent.asked if method == "PATCH"]
    assert sent == [{"weight": 3.0, "memory_limit_bytes": None}]


def test_set_refuses_what_it_does_not_know_before_asking(dure: Dure, agent: CannedAgent) -> None:
    code, out, err = dure("set", "train", "wieght=3")
    assert (code, out) == (2, "")
    assert err == "a tenant has no setting 'wieght'; did you mean 'weight'?\n"
    assert agent.asked == []


def test_set_passes_on_why_the_agent_refused(dure: Dure, agent: CannedAgent) -> None:
    refusal = {"error": "tenant 'train' reserves 200 GiB of memory", "remedy": "lower its reserve"}
    agent.says("PATCH", "/v1/tenants/train", refusal, 422)
    code, _, err = dure("set", "train", "memory-reserve=200GiB")
    assert (code, err) == (2, "tenant 'train' reserves 200 GiB of memory; lower its reserve\n")


def test_forget_deletes(dure: Dure, agent: CannedAgent) -> None:
    agent.says("DELETE", "/v1/tenants/train", {})
    code, out, _ = dure("forget", "train")
    assert code == 0
    assert "train is forgotten" in out
    assert ("DELETE", "/v1/tenants/train", None) in agent.asked
