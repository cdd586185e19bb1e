"""`dure dashboard`: says what is missing, prints an address that works, ends when told to."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dure.web.serving import open_browser
from tests.cli.agents import CannedAgent, agent_status
from tests.processes import read_to_end

DURE = [sys.executable, "-c", "from dure.cli.main import main; main()"]
LIMIT_S = 60.0


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("DURE_")}
    return {**kept, "XDG_CONFIG_HOME": str(tmp_path), "DURE_RUN_DIR": str(tmp_path)}


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[CannedAgent]:
    made = CannedAgent(tmp_path)
    made.says("GET", "/v1/status", agent_status())
    yield made
    made.close()


def test_with_nothing_to_show_it_says_what_to_start(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [*DURE, "dashboard"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 2
    assert "dure agent" in done.stderr
    assert "dure login" in done.stderr


def test_the_printed_address_leads_to_the_agent(
    environment: dict[str, str], agent: CannedAgent
) -> None:
    process = subprocess.Popen(
        [*DURE, "dashboard"], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    url, _, key = line.split()[4].partition("#key=")
    origin = url.removesuffix("/ui/")
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=origin, timeout=LIMIT_S) as client:
        levels = client.get("/ui/levels.json").json()
        assert (levels["agent"], levels["fleet"]) == ("/agent", None)
        status = client.get("/agent/v1/status", headers=headers).json()
    assert [each["name"] for each in status["tenants"]] == ["web", "train"]
    process.send_signal(signal.SIGTERM)
    read_to_end(process, LIMIT_S)


def test_a_port_that_is_taken_is_said_to_be(
    environment: dict[str, str], agent: CannedAgent
) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [*DURE, "dashboard", "--port", port],
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    assert done.returncode == 2
    assert "use another port" in done.stderr


def test_a_browser_is_told_the_key_by_a_file_of_its_owner_alone() -> None:
    shown: list[str] = []

    def show(url: str) -> bool:
        shown.append(url)
        return True

    page = open_browser("http://127.0.0.1:1/ui/#key=secret", show)
    try:
        assert shown == [page.as_uri()]
        assert "secret" not in shown[0]
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        assert "#key=secret" in page.read_text()
    finally:
        page.unlink()
