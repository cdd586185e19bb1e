"""A recorded host decides the same again, and today's code shows where it would not."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dure.cli.main import app
from dure.domain.containers import PauseWay
from dure.domain.errors import InputError
from dure.domain.node_events import NodeEvent
from dure.domain.node_instructions import NodeInstruction
from dure.domain.units import NS_PER_S
from dure.node.history import ImageRecord
from dure.node.machine import NodeMachine
from dure.node.notes import note_settings
from dure.node.settings import NodeSettings
from dure.runtimes.recording import Recording
from dure.sim.node.replay import replay
from tests.node.factories import MS, Host, container

SETTINGS = NodeSettings(
    ways=(PauseWay.DOCKER,), history=(ImageRecord("job", 4 << 30, (3 * NS_PER_S,)),)
)


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two jobs on one GPU; the second waits for the first."""
    path = tmp_path / "r.jsonl"
    recording = Recording(path, note_settings(SETTINGS))
    plain = NodeMachine.handle

    def handle(machine: NodeMachine, event: NodeEvent) -> tuple[NodeInstruction, ...]:
        answer = plain(machine, event)
        recording.add(event, answer)
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(NodeMachine, "handle", handle)
        host = Host(SETTINGS)
        for name in ("a", "b"):
            host.start(container(name, image="job"))
            host.work(name, share=1.0)
            host.run(60 * MS)
    recording.close()
    return path


def test_the_same_code_decides_the_same_again(recorded: Path) -> None:
    found = replay(recorded)
    assert found.events > 5
    assert found.differing == 0
    assert found.recorded == found.replayed
    assert [(deed.container, deed.what.split(":")[0]) for deed in found.replayed] == [
        ("b", "pause by docker")
    ]


def test_other_settings_answer_otherwise(recorded: Path) -> None:
    head, *rest = recorded.read_text(encoding="utf-8").splitlines(keepends=True)
    recorded.write_text("".join([head.replace('"dure"', '"none"'), *rest]), encoding="utf-8")
    found = replay(recorded)
    assert found.differing > 0
    assert not any("pause by" in deed.what for deed in found.replayed)


def test_the_command_shows_and_exports_a_replay(recorded: Path) -> None:
    shown = CliRunner().invoke(app, ["sim", "node", "--replay", str(recorded)])
    assert "0 are answered otherwise today" in shown.output
    assert "pause by docker" in shown.output
    exported = CliRunner().invoke(app, ["sim", "node", "--replay", str(recorded), "--json"])
    assert json.loads(exported.output)["differing"] == 0


def test_a_first_line_without_sense_is_named(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(
        '{"version":1,"strategy":"dure","ways":["no"],"history":[]}\n', encoding="utf-8"
    )
    with pytest.raises(InputError, match="line 1"):
        replay(path)
