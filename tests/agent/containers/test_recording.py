"""A host whose containers queue is recorded midway, and the recording decides the same again."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from dure.agent.recording import RecordingDesk, Running
from dure.agent.registry import ROOT_UID
from dure.agent.wire import Peer
from dure.cli.main import app
from dure.client.recordings import RecordingQuery
from dure.domain.errors import InputError
from dure.sim.node.replay import replay
from tests.agent.containers.stand import Stand, container, table, wait_for

A, B, C = container(1), container(2), container(3)


@pytest.fixture(params=["dure", "paper"])
def stand(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stand]:
    made = Stand(tmp_path / "host", strategy=request.param)
    made.start()
    made.guard()
    yield made
    made.stop()


def written(running: Running, path: Path) -> Path:
    """What came out of a recording, in a file."""

    async def whole() -> bytes:
        return b"".join([data async for data in running.lines()])

    path.write_bytes(asyncio.run(whole()))
    return path


@pytest.fixture
def recorded(stand: Stand, tmp_path: Path) -> Path:
    """One waits for another before the recording begins; then people and a third come in."""
    stand.begin(A, B)
    stand.hold(A, B)
    host: Any = SimpleNamespace(container_desk=lambda: SimpleNamespace(manager=stand.manager))
    running = RecordingDesk(host, ROOT_UID).begin(
        RecordingQuery(level="node", seconds=60.0), Peer(pid=1, uid=ROOT_UID)
    )
    stand.manager.person_resumes(B.id)
    wait_for("box2 runs", lambda: stand.runtime.runs(B.id))
    stand.begin(C)
    for _ in range(10):
        stand.manager.take_table(table(A, idle=(B, C)))
    stand.runtime.end(A.id)
    wait_for("box1 is gone", lambda: A.id not in stand.manager.containers)
    running.tap.end("the test has seen enough")
    return written(running, tmp_path / "host.jsonl")


def test_a_host_that_was_recorded_midway_replays_to_the_letter(recorded: Path) -> None:
    found = replay(recorded)
    assert found.events > 10
    assert found.differing == 0
    resumed = [deed for deed in found.recorded if deed.what.startswith("resume")]
    assert resumed[0].container == "box2", "its name is known from before the recording"
    shown = CliRunner().invoke(app, ["sim", "node", "--replay", str(recorded)])
    assert "0 are answered otherwise today" in shown.output


def test_without_what_the_machine_knew_the_replay_differs(recorded: Path) -> None:
    head, *rest = recorded.read_text(encoding="utf-8").splitlines(keepends=True)
    plain = {name: value for name, value in json.loads(head).items() if name != "image"}
    recorded.write_text("".join([json.dumps(plain) + "\n", *rest]), encoding="utf-8")
    assert replay(recorded).differing > 0


@pytest.mark.parametrize(
    ("old", "new", "story"),
    [
        ("dure.node.state:NodeState", "dure.node.state:Gone", "this version of Dure cannot be"),
        ('"kind":"TableTaken"', '"kind":"Nothing"', "nothing that this version of Dure records"),
        ('"version":1', '"version":9', "not of version 1"),
    ],
)
def test_what_is_of_another_version_is_told_in_a_sentence(
    recorded: Path, old: str, new: str, story: str
) -> None:
    text = recorded.read_text(encoding="utf-8")
    assert old in text
    recorded.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError, match=story) as caught:
        replay(recorded)
    assert "\n" not in str(caught.value)
