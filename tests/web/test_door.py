"""The door of `dure dashboard`: to agent and centre for whoever has its key, and nobody else."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from dure.web.door import Door, Upstream
from tests.cli.agents import CannedAgent
from tests.web.served import served

KEY = "k" * 32
SHOWN = {"Authorization": f"Bearer {KEY}"}


class Centre(BaseHTTPRequestHandler):
    """Says what it was shown."""

    def do_GET(self) -> None:
        said = f'{{"token": "{self.headers["authorization"]}", "path": "{self.path}"}}'.encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(said)))
        self.send_header("set-cookie", "a=b")
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[CannedAgent]:
    made = CannedAgent(tmp_path)
    yield made
    made.close()


@pytest.fixture
def centre() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Centre)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def client(agent: CannedAgent, centre: str) -> Iterator[httpx.Client]:
    up = Upstream("http://agent", "the agent", "start it", socket=agent.path)
    fleet = Upstream(centre, "the centre", "ask", headers={"Authorization": "Bearer stored"})
    with served(lambda host: Door(up, fleet, host, KEY).app()) as made:
        yield made


def test_questions_reach_the_agent_with_all_they_say(
    client: httpx.Client, agent: CannedAgent
) -> None:
    agent.says("PUT", "/v1/policy?x=1&x=2", {"policies": []})
    answer = client.put("/agent/v1/policy?x=1&x=2", json={"policy": "slo"}, headers=SHOWN)
    assert answer.json() == {"policies": []}
    assert agent.asked == [("PUT", "/v1/policy?x=1&x=2", {"policy": "slo"})]


def test_the_centre_gets_the_stored_token_and_never_the_key(client: httpx.Client) -> None:
    answer = client.get("/fleet/v1/overview", headers=SHOWN)
    assert answer.json() == {"token": "Bearer stored", "path": "/v1/overview"}
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("shown", [{}, {"Authorization": "Bearer wrong"}, {"Cookie": "key=x"}])
def test_without_the_key_nothing_is_asked(
    client: httpx.Client, agent: CannedAgent, shown: dict[str, str]
) -> None:
    for path in ("/agent/v1/status", "/fleet/v1/overview"):
        answer = client.get(path, headers=shown)
        assert answer.status_code == 401
        assert "dure dashboard" in answer.json()["remedy"]
    assert agent.asked == []


def test_another_name_that_leads_here_is_refused(client: httpx.Client, agent: CannedAgent) -> None:
    headers = {**SHOWN, "Host": "evil.example"}
    assert client.get("/agent/v1/status", headers=headers).status_code == 421
    assert agent.asked == []


def test_refusals_of_the_agent_come_through(client: httpx.Client, agent: CannedAgent) -> None:
    agent.says("GET", "/v1/status", {"error": "no", "remedy": "ask"}, 403)
    answer = client.get("/agent/v1/status", headers=SHOWN)
    assert (answer.status_code, answer.json()) == (403, {"error": "no", "remedy": "ask"})


def test_an_agent_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    gone = Upstream("http://agent", "the agent", "start it", socket=tmp_path / "none.sock")
    with served(lambda host: Door(gone, None, host, KEY).app()) as client:
        answer = client.get("/agent/v1/status", headers=SHOWN)
        assert answer.status_code == 502
        assert answer.json()["error"].startswith("the agent does not answer")
        assert answer.json()["remedy"] == "start it"
        assert client.get("/fleet/v1/overview", headers=SHOWN).status_code == 404


def test_keys_are_long_and_never_the_same() -> None:
    door, other = Door(None, None, "127.0.0.1:1"), Door(None, None, "127.0.0.1:1")
    assert door.key != other.key
    assert len(door.key) >= 32
    assert door.url == f"http://127.0.0.1:1/ui/#key={door.key}"


def test_too_long_a_message_is_refused(client: httpx.Client, agent: CannedAgent) -> None:
    answer = client.put("/agent/v1/policy", content=b"x" * (1 << 20 | 1), headers=SHOWN)
    assert answer.status_code == 413
    assert agent.asked == []
