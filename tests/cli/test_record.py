"""Recordings that end in another way than they were to: one sentence, and what there is stays."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dure.cli.record import _close, _opened, _write
from dure.domain.errors import DureError
from dure.kit.files import FileProblem

FULL = Path("/dev/full")


def broken_off() -> Iterator[bytes]:
    yield b"first\nsecond\n"
    raise DureError("the agent broke off", "try again")


def never_begun() -> Iterator[bytes]:
    yield from ()
    raise DureError("no agent answers", "start one")


def test_a_full_disk_is_told_in_a_sentence() -> None:
    stream = _opened(FULL, force=True)
    with pytest.raises(FileProblem, match="No space left on device"):
        _write(FULL, stream, iter([b"a line\n"]))
    _close(stream)
    assert stream.closed


def test_what_was_recorded_before_the_agent_was_killed_stays_and_is_named(tmp_path: Path) -> None:
    file = tmp_path / "kept.jsonl"
    stream = _opened(file, force=False)
    with pytest.raises(DureError, match=r"broke off; the 2 lines until then are in .*kept\.jsonl"):
        _write(file, stream, broken_off())
    _close(stream)
    assert file.read_bytes() == b"first\nsecond\n"


def test_a_recording_that_never_began_says_what_its_source_says(tmp_path: Path) -> None:
    stream = _opened(tmp_path / "none.jsonl", force=False)
    with pytest.raises(DureError, match="no agent answers; start one"):
        _write(tmp_path / "none.jsonl", stream, never_begun())
    _close(stream)
