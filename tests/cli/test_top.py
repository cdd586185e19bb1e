import json
from pathlib import Path

import pytest
from rich.console import Console

from dure.cli.top_view import status_view
from dure.client.schema import AgentStatus
from tests.cli.agents import TRAIN, WEB, CannedAgent, agent_status
from tests.cli.conftest import Dure


def shown(status: AgentStatus, width: int) -> str:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(status_view(status, width, now_unix_s=9000.0))
    return captured.get()


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_no_column_is_cut(width: int) -> None:
    lines = shown(agent_status(), width).splitlines()
    assert max(map(len, lines)) <= width
    table = [line for line in lines if line.startswith(("tenant", "web", "train"))]
    assert len(table) == 3
    assert not any("…" in line for line in table)


def test_a_wide_terminal_shows_everything_of_a_tenant() -> None:
    view = shown(agent_status(), 120)
    row = next(line for line in view.splitlines() if line.startswith("web"))
    assert row.split() == [
        *("web", "0", "guar", "p99≤20ms", "99.5%", "4.2ms", "18.1ms", "180*"),
        *("41", "0", "5.0/20.0", "1", "1"),
    ]
    row = next(line for line in view.splitlines() if line.startswith("train"))
    assert row.split() == ["train", "0", "best", "48", "37", "web", "30.0", "2→2.4", "1.5h", "1"]


def test_gpu_policy_squads_others_and_events_are_shown() -> None:
    view = shown(agent_status(), 100)
    for words in (
        "agent 77 of root, isolated, up 2.22 h",
        "GPU 0 NVIDIA H200  93 % in use  36.0/141 GiB  540 W  61 °C",
        "policy slo, plan 812 of 1 squad, 98 turns/s",
        "[web + train SM 64-131 after web] 10 ms",
        "Not managed by Dure, and not held for anybody:\n  pid 5005  GPU 0  python  3 GiB",
        "web: at risk",
    ):
        assert words in view


def test_a_tenant_at_risk_is_marked() -> None:
    view = shown(agent_status(tenants=[{**WEB, "at_risk": True}, TRAIN]), 100)
    assert "\nweb! " in view


def test_under_jct_it_says_whose_length_nobody_stated() -> None:
    status = agent_status().model_dump(by_alias=True)
    status["gpus"][0]["policy"] = "jct"
    status["tenants"][1]["remaining_source"] = "least attained service"
    view = shown(AgentStatus.model_validate(status), 120)
    assert "Nobody said how long train will run: who had least goes first" in view
    assert "1.5h" not in view


def test_without_tenants_it_says_how_to_start_one() -> None:
    assert "No tenants. Start one: dure run -- PROGRAM" in shown(agent_status(tenants=[]), 80)


def test_json_is_the_whole_status(dure: Dure, agent: CannedAgent) -> None:
    code, out, err = dure("top", "--once", "--json")
    assert (code, err) == (0, "")
    assert AgentStatus.model_validate_json(out) == agent_status()
    assert json.loads(out)["tenants"][0]["spec"]["class"] == "guaranteed"


def test_once_prints_the_view_and_ends(dure: Dure, agent: CannedAgent) -> None:
    code, out, _ = dure("top", "--once")
    assert code == 0
    assert "policy slo" in out


def test_without_an_agent_it_says_how_to_start_one(dure: Dure, no_agent: Path) -> None:
    code, out, err = dure("top", "--once")
    assert (code, out) == (1, "")
    assert err.startswith(f"no agent answers at {no_agent}/api.sock; start one with `dure agent`")
    assert err.count("\n") == 1
