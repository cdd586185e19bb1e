import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from dure.cli.node_view import containers_view
from dure.cli.top_view import status_view
from dure.client.containers import ContainersStatus
from dure.domain.units import GIB, NS_PER_S
from tests.cli.agents import CannedAgent, agent_status
from tests.cli.conftest import Dure

IDS = [f"{number:x}" * 64 for number in range(1, 8)]


def shown(view: RenderableType, width: int) -> str:
    console = Console(width=width)
    with console.capture() as caught:
        console.print(view)
    return caught.get()


def box(number: int, name: str, state: str, **more: Any) -> dict[str, Any]:
    plain = {"id": IDS[number], "name": name, "state": state, "reason": f"{name} has its reason"}
    return {**plain, "gpus": ["GPU-1"], **more}


def containers(**changes: Any) -> ContainersStatus:
    """Four containers, each in another state."""
    status = {
        "strategy": "dure",
        "ways": ["cuda-lock", "docker"],
        "dry_run": False,
        "troubles": [],
        "monitor": {
            "pid": 99,
            "period_ns": 5_000_000,
            "looks": 1000,
            "look_ns": 150_000,
            "cpu_ns": 10**9,
            "left_out": 0,
            "deaths": 0,
        },
        "containers": [
            box(0, "web", "exempt"),
            box(
                1,
                "late",
                "queued",
                queue_place=2,
                waited_ns=3 * NS_PER_S,
                way="docker",
                resume_in_ns=117 * NS_PER_S,
                deadline_in_ns=-5 * NS_PER_S,
            ),
            box(
                2,
                "next",
                "queued",
                queue_place=1,
                waited_ns=90 * NS_PER_S,
                way="cuda-lock",
                memory_bytes=GIB,
                expected_memory_bytes=2 * GIB,
            ),
            box(3, "train", "running", sm_share=0.97, memory_bytes=30 * GIB, burst_ns=2 * 10**9),
        ],
        "without_gpu": 2,
    }
    return ContainersStatus.model_validate({**status, **changes})


def test_containers_are_listed_with_state_place_wait_and_use(
    dure: Dure, agent: CannedAgent
) -> None:
    agent.says("GET", "/v1/containers", containers())
    code, out, _ = dure("node", "ps")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "containers: strategy dure, paused with cuda-lock or docker"
    rows = {line.split()[0]: line for line in lines[3:]}
    assert list(rows) == ["train", "next", "late", "web"], "who runs, then the queue, then others"
    assert all(word in rows["next"] for word in ("queued", "1.5min", "1.0/2.0", "cuda-lock"))
    assert all(word in rows["late"] for word in ("queued", "-5s", "1.95min", "docker"))
    assert all(word in rows["train"] for word in ("running", "97", "30.0", "train has its reason"))


def test_every_figure_is_there_as_json(dure: Dure, agent: CannedAgent) -> None:
    agent.says("GET", "/v1/containers", containers())
    code, out, _ = dure("node", "ps", "--json")
    assert code == 0
    assert ContainersStatus.model_validate(json.loads(out)) == containers()


def test_a_dry_run_and_troubles_are_said_first(dure: Dure, agent: CannedAgent) -> None:
    troubled = containers(dry_run=True, troubles=["there is no Docker"], containers=[])
    agent.says("GET", "/v1/containers", troubled)
    _, out, _ = dure("node", "ps")
    assert "dry run: these are the states that would be" in out
    assert "Nothing is paused: there is no Docker" in out
    assert "No container with a GPU runs (2 without)." in out


def test_a_narrow_terminal_keeps_name_and_state() -> None:
    lines = shown(containers_view(containers(), 40), 40).splitlines()
    assert all(len(line.rstrip()) <= 40 for line in lines[1:])
    assert any("next" in line and "queued" in line for line in lines)


def test_top_shows_containers_too() -> None:
    status = agent_status(containers=containers().model_dump())
    words = shown(status_view(status, 120, 1200.0), 120)
    assert "strategy dure, paused with cuda-lock or docker" in words
    assert "train has its reason" in words
    assert "containers:" not in shown(status_view(agent_status(), 120, 1200.0), 120)


@pytest.mark.parametrize(
    ("arguments", "method", "path", "sent"),
    [
        (("pause", "web"), "POST", "/v1/containers/web/pause", None),
        (("resume", "web"), "POST", "/v1/containers/web/resume", None),
        (("exempt", "web"), "PUT", "/v1/containers/web/exempt", {"exempt": True}),
        (("exempt", "web", "--off"), "PUT", "/v1/containers/web/exempt", {"exempt": False}),
        (("pause", "a/b c"), "POST", "/v1/containers/a%2Fb%20c/pause", None),
    ],
)
def test_a_wish_is_sent_and_what_became_of_it_said(
    dure: Dure,
    agent: CannedAgent,
    arguments: tuple[str, ...],
    method: str,
    path: str,
    sent: Any,
) -> None:
    agent.says(method, path, box(0, "web", "paused by a person", reason="you said so"))
    code, out, _ = dure("node", *arguments)
    assert (code, out) == (0, "web is paused by a person: you said so\n")
    assert agent.asked[-1] == (method, path, sent)


def test_why_answers_in_sentences(dure: Dure, agent: CannedAgent) -> None:
    said = {"id": IDS[0], "name": "web", "sentences": ["It waits.", "Not for long."]}
    agent.says("GET", "/v1/containers/web/why", said)
    assert dure("node", "why", "web")[1] == "It waits.\nNot for long.\n"
    assert json.loads(dure("node", "why", "web", "--json")[1]) == said


def test_a_refusal_is_one_sentence(dure: Dure, agent: CannedAgent) -> None:
    problem = {"error": "no container 'x' is running", "remedy": "there is web"}
    agent.says("POST", "/v1/containers/x/pause", problem, 404)
    code, _, err = dure("node", "pause", "x")
    assert (code, err) == (2, "no container 'x' is running; there is web\n")


def test_without_an_agent_a_sentence_says_how_to_start_one(dure: Dure) -> None:
    code, _, err = dure("node", "ps")
    assert code == 1
    assert "no agent answers" in err


def test_an_emergency_thaw_wants_to_be_asked_for_and_needs_no_agent(
    dure: Dure, no_agent: Path
) -> None:
    code, _, err = dure("node", "thaw")
    assert code == 2
    assert "dure node thaw --all" in err
    assert dure("node", "thaw", "--all")[:2] == (0, "Dure has no container paused.\n")


def test_options_about_containers_need_them_managed(dure: Dure) -> None:
    for option in (
        ("--dry-run",),
        ("--strategy", "paper"),
        ("--pause-with", "docker"),
        ("--no-start-watchdog",),
    ):
        code, _, err = dure("agent", *option)
        assert code == 2
        assert "add --manage-containers" in err
