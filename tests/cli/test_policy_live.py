import json
from pathlib import Path

from tests.cli.agents import UUID, CannedAgent
from tests.cli.conftest import Dure

SWITCHED = {
    "policies": [
        {
            "gpu": UUID,
            "policy": "jct",
            "parameters": {"floor": 0.05},
            "reason": "train goes before web",
        }
    ]
}
APPLIED = {
    "policy": "slo",
    "parameters": {"patience": 0.2},
    "reasons": ["Something was promised to web."],
    "tenants": {},
    "policies": [],
}


def test_show_prints_policy_parameters_and_plan(dure: Dure, agent: CannedAgent) -> None:
    code, out, err = dure("policy", "show")
    assert (code, err) == (0, "")
    assert "policy slo" in out
    assert "patience = 0.2" in out
    row = next(line for line in out.splitlines() if "train" in line)
    assert row.split() == ["train", "64-131", "2", "ms", "web"]


def test_set_sends_policy_parameters_and_gpu(dure: Dure, agent: CannedAgent) -> None:
    agent.says("PUT", "/v1/policy", SWITCHED)
    code, out, _ = dure("policy", "set", "jct", "floor=0.05", "--gpu", "0")
    assert code == 0
    assert "policy jct" in out
    assert agent.asked[-1] == (
        "PUT",
        "/v1/policy",
        {"policy": "jct", "parameters": {"floor": 0.05}, "gpu": "0", "dry_run": False},
    )


def test_a_dry_run_says_what_would_change_and_that_nothing_did(
    dure: Dure, agent: CannedAgent
) -> None:
    agent.says("PUT", "/v1/policy", {**SWITCHED, "dry_run": True})
    code, out, _ = dure("policy", "set", "jct", "--dry-run")
    assert code == 0
    assert "train goes before web" in out
    assert "Nothing was changed." in out
    assert agent.asked[-1][2]["dry_run"] is True


def test_unknown_policies_and_parameters_are_refused_before_asking(
    dure: Dure, agent: CannedAgent
) -> None:
    for arguments, sentence in (
        (("fair",), "'fair' is not a policy; use one of jct, slo, hybrid\n"),
        (("slo", "speed=1"), "policy 'slo' has no parameter 'speed'; use patience, "),
        (("slo", "patience"), "'patience' is no parameter; write NAME=NUMBER, "),
        (("slo", "patience=-1"), "parameter 'patience' of policy 'slo' is -1; use a number "),
    ):
        code, out, err = dure("policy", "set", *arguments)
        assert (code, out) == (2, "")
        assert err.startswith(sentence)
    assert agent.asked == []


def test_set_without_an_agent_exits_1(dure: Dure) -> None:
    code, _, err = dure("policy", "set", "slo")
    assert code == 1
    assert "start one with `dure agent`" in err


def test_apply_hands_goals_to_a_running_agent(
    dure: Dure, agent: CannedAgent, tmp_path: Path
) -> None:
    goals = tmp_path / "goals.yaml"
    goals.write_text("tenants: {web: {latency: p99 <= 20ms}}\n", encoding="utf-8")
    agent.says("POST", "/v1/goals", APPLIED)
    code, out, _ = dure("policy", "apply", str(goals))
    assert code == 0
    assert out.startswith("policy slo\n")
    assert out.endswith("The running agent follows it now.\n")
    method, path, sent = agent.asked[-1]
    assert (method, path) == ("POST", "/v1/goals")
    assert sent["tenants"]["web"]["latency_slo"]["target_ns"] == 20_000_000


def test_apply_for_a_kind_of_accelerator_leaves_the_agent_alone(
    dure: Dure, agent: CannedAgent, tmp_path: Path
) -> None:
    goals = tmp_path / "goals.yaml"
    goals.write_text("tenants: {web: {latency: p99 <= 20ms}}\n", encoding="utf-8")
    code, out, _ = dure("policy", "apply", str(goals), "--gpu", "h200", "--json")
    assert code == 0
    assert json.loads(out)["policy"] == "slo"
    assert agent.asked == []


def test_goals_the_agent_refuses_name_their_file(
    dure: Dure, agent: CannedAgent, tmp_path: Path
) -> None:
    goals = tmp_path / "goals.yaml"
    goals.write_text("tenants: {nobody: {weight: 2}}\n", encoding="utf-8")
    refusal = {"error": "there is no such tenant", "remedy": "use web"}
    agent.says("POST", "/v1/goals", refusal, 422)
    code, _, err = dure("policy", "apply", str(goals))
    assert (code, err) == (2, f"{goals}: there is no such tenant; use web\n")
