import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dure.cli import main as cli
from tests.cli.agents import UUID, CannedAgent, agent_status

Dure = Callable[..., tuple[int, str, str]]


@pytest.fixture
def dure(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Dure:
    """Run the command line in this process; gives the exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dure", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        output = capfd.readouterr()
        return int(ended.value.code or 0), output.out, output.err

    return run


@pytest.fixture(autouse=True)
def no_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder without an agent: tests never talk to the one of this machine."""
    monkeypatch.setenv("DURE_RUN_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def agent(no_agent: Path) -> Iterator[CannedAgent]:
    """An agent with two tenants that answers what it is told to."""
    canned = CannedAgent(no_agent)
    status = agent_status()
    canned.says("GET", "/v1/status", status)
    canned.says("GET", "/v1/tenants", {"tenants": status.model_dump(by_alias=True)["tenants"]})
    plan = status.gpus[0].plan
    canned.says(
        "GET",
        "/v1/policy",
        {
            "policies": [
                {
                    "gpu": UUID,
                    "policy": "slo",
                    "parameters": {"patience": 0.2},
                    "plan": plan.model_dump() if plan else None,
                }
            ]
        },
    )
    yield canned
    canned.close()
