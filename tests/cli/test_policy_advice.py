"""`dure policy advice`: the proposal, what it would bring, why, and how to take it."""

import json

from tests.cli.agents import UUID, CannedAgent
from tests.cli.conftest import Dure

LINE = {
    "at_unix_s": 1.0,
    "kind": "proposed",
    "before": {"policy": "hybrid", "parameters": {}},
    "after": {"policy": "slo", "parameters": {"patience": 0.4}},
    "measured": 0.61,
    "gain": 0.08,
    "reason": "'web' joined; dry runs give it +0.080 over hybrid",
}
ADVICE = {
    "adapt": "advise",
    "objective": "by weight, the mean of on-time requests and of progress",
    "gpus": [
        {
            "gpu": UUID,
            "inforce": {"policy": "hybrid", "parameters": {}},
            "objective": 0.61,
            "proposal": LINE,
            "foretold": [{"policy": "slo", "parameters": {}, "score": 0.7}],
            "dry_runs": 3,
            "history": [LINE],
        }
    ],
}


def test_a_proposal_is_shown_with_its_gain_its_reason_and_the_command(
    dure: Dure, agent: CannedAgent
) -> None:
    agent.says("GET", "/v1/policy/advice", ADVICE)
    code, out, err = dure("policy", "advice")
    assert (code, err) == (0, "")
    assert "slo (patience=0.4) would add +0.080: 'web' joined" in out
    assert "dure policy set slo patience=0.4" in out
    assert "dry run: slo 0.700" in out


def test_as_json_it_is_what_the_agent_said(dure: Dure, agent: CannedAgent) -> None:
    agent.says("GET", "/v1/policy/advice", ADVICE)
    code, out, _ = dure("policy", "advice", "--json")
    assert code == 0
    assert json.loads(out)["gpus"][0]["proposal"]["gain"] == 0.08


def test_where_adaptation_is_off_it_says_how_to_have_it(dure: Dure, agent: CannedAgent) -> None:
    agent.says("GET", "/v1/policy/advice", {**ADVICE, "adapt": "off"})
    code, out, _ = dure("policy", "advice")
    assert code == 0
    assert "--adapt advise" in out
