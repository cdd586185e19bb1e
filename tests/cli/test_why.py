import json

from tests.cli.agents import CannedAgent
from tests.cli.conftest import Dure

ANSWER = {
    "tenant": "train",
    "window_s": 10.0,
    "sentences": ["train was held for 3.7 s of the last 10 s, mostly waiting for web."],
    "held_ns": 3_700_000_000,
    "held_share": 0.37,
    "gpu_share": 0.48,
    "reasons": [{"reason": "promise", "held_ns": 3_000_000_000}],
    "holders": [{"tenant": "web", "held_ns": 3_000_000_000, "promise": "p99 within 20 ms"}],
    "longest_hold_ns": 21_000_000,
    "gpu": "GPU-x",
    "advice": ["12 s ago the advisor switched jct → slo: train joined."],
}


def test_it_says_for_whom_how_long_and_which_promise(dure: Dure, agent: CannedAgent) -> None:
    agent.says("GET", "/v1/tenants/train/why", ANSWER)
    code, out, err = dure("why", "train")
    assert (code, err) == (0, "")
    assert out.startswith("train was held for 3.7 s of the last 10 s, mostly waiting for web.\n")
    row = next(line for line in out.splitlines() if line.startswith("for web"))
    assert "p99 within 20 ms" in row
    assert row.endswith("30.0 %")
    assert "12 s ago the advisor switched jct → slo: train joined." in out.splitlines()
    assert "48 % of the GPU, 37 % of the time held, longest 21 ms" in out


def test_json_gives_every_figure(dure: Dure, agent: CannedAgent) -> None:
    agent.says("GET", "/v1/tenants/train/why", ANSWER)
    code, out, _ = dure("why", "train", "--json")
    assert code == 0
    assert json.loads(out) == ANSWER


def test_an_unknown_tenant_is_one_sentence_and_exit_2(dure: Dure, agent: CannedAgent) -> None:
    refusal = {"error": "there is no tenant 'nobody'", "remedy": "declared: train, web"}
    agent.says("GET", "/v1/tenants/nobody/why", refusal, 404)
    assert dure("why", "nobody") == (2, "", "there is no tenant 'nobody'; declared: train, web\n")
