"""An agent of a bench's own is ended whatever becomes of its start."""

import os
import sys
import time
from pathlib import Path

import pytest

from dure.bench.common import agents
from dure.bench.common.agents import AgentFailedError, AgentProcess
from dure.client.api import AgentClient
from dure.domain.errors import DureError

SLEEPS = (sys.executable, "-c", "import time; time.sleep(600)")


class _StrangeError(DureError):
    """An answer that nobody expects."""


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    "problem", [_StrangeError("it speaks another language"), KeyboardInterrupt()]
)
def test_an_agent_whose_answer_is_no_status_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: BaseException
) -> None:
    closed: list[AgentClient] = []

    def strange(_: AgentClient) -> None:
        raise problem

    def close(client: AgentClient) -> None:
        closed.append(client)

    monkeypatch.setattr(AgentClient, "status", strange)
    monkeypatch.setattr(AgentClient, "close", close)
    agent = AgentProcess(tmp_path / "run", {}, (), SLEEPS)
    with pytest.raises(type(problem)):
        agent.__enter__()
    assert agent.pid
    assert not _runs(agent.pid)
    assert len(closed) == 1


def test_an_agent_that_never_answers_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "START_LIMIT_S", 0.2)
    agent = AgentProcess(tmp_path / "run", {}, ("--strange",), SLEEPS)
    with pytest.raises(AgentFailedError, match="--strange"):
        agent.__enter__()
    assert not _runs(agent.pid)


def test_an_agent_that_ends_at_once_says_why(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path / "run", {}, (), (sys.executable, "-c", "exit('no driver')"))
    began_s = time.monotonic()
    with pytest.raises(AgentFailedError, match="no driver"):
        agent.__enter__()
    assert time.monotonic() - began_s < agents.START_LIMIT_S
