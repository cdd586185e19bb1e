"""Recordings: what is written can be read, and a torn or foreign file is said to be one."""

from pathlib import Path

import pytest

from dure.domain.containers import Container, GpuLoad, GpuTask, PauseWay, TaskTable
from dure.domain.errors import InputError
from dure.domain.ids import ContainerId, GpuUuid
from dure.domain.node_events import (
    ContainerStarted,
    GuardChanged,
    Missing,
    NodeEvent,
    PauseEnded,
    TableTaken,
)
from dure.domain.node_instructions import NodeInstruction, Pause, PollEvery, WakeAt
from dure.runtimes.recording import Recording, read_recording

BOX, GPU = ContainerId("c" * 64), GpuUuid("GPU-1")
TABLE = TaskTable(
    5, (GpuLoad(GPU, 100, 50, 0.5, None, 700.0),), (GpuTask(GPU, 1, 2, BOX, 3, 0.25, "web"),)
)
ENTRIES: list[tuple[NodeEvent, tuple[NodeInstruction, ...]]] = [
    (GuardChanged(1, Missing.MONITOR), ()),
    (ContainerStarted(2, Container(BOX, "a", "i", 3, (GPU,), (("k", "v"),)), found=True), ()),
    (TableTaken(5, TABLE), (Pause(BOX, PauseWay.CUDA_LOCK, 9, "why"), PollEvery(7), WakeAt(None))),
    (PauseEnded(6, BOX, PauseWay.DOCKER, "no"), ()),
]


def written(path: Path) -> Path:
    recording = Recording(path, {"strategy": "dure"})
    for event, answer in ENTRIES:
        recording.add(event, answer)
    recording.close()
    return path


def test_a_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = read_recording(written(tmp_path / "deep" / "r.jsonl"))
    assert found.header["strategy"] == "dure"
    assert list(found.entries) == ENTRIES


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl")
    path.write_text(path.read_text(encoding="utf-8")[:-10], encoding="utf-8")
    assert list(read_recording(path).entries) == ENTRIES[:-1]


@pytest.mark.parametrize(
    "text", ["", "{}\n", "no\n", '{"version":1}\n{"event":{"kind":"X"}}\n', "[]\n"]
)
def test_what_is_no_recording_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"r\.jsonl"):
        read_recording(path)


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be written"):
        Recording(tmp_path / "file" / "r.jsonl", {})
