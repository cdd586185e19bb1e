"""A member's memory in files, and who of several members acts."""

import asyncio
import contextlib
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dure.domain.errors import DureError
from dure.member.process import memory as memory_module
from dure.member.process.election import FileElection
from dure.member.process.memory import FileMemory


def load(folder: Path) -> dict[str, Any]:
    memory = FileMemory(folder)
    try:
        return dict(asyncio.run(memory.load()))
    finally:
        memory.close()


_CHANGES = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9), max_size=3),
        st.lists(st.sampled_from("abcd"), max_size=2),
    ),
    max_size=12,
)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(changes=_CHANGES, rewrite=st.booleans())
def test_what_was_stored_is_there_after_death(
    tmp_path_factory: pytest.TempPathFactory, changes: Any, rewrite: bool
) -> None:
    folder = tmp_path_factory.mktemp("memory")
    expected: dict[str, int] = {}

    async def scenario() -> None:
        memory = FileMemory(folder)
        await memory.load()
        for changed, removed in changes:
            await memory.save(changed, removed)
            expected.update(changed)
            for name in removed:
                expected.pop(name, None)
        memory.close()

    with pytest.MonkeyPatch.context() as patch:
        if rewrite:
            patch.setattr(memory_module, "_LEAST_JOURNAL_BYTES", 40)
        asyncio.run(scenario())
    assert load(folder) == expected
    assert load(folder) == expected


def test_a_line_that_was_torn_by_a_crash_is_passed_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        memory = FileMemory(tmp_path)
        await memory.load()
        await memory.save({"a": 1})
        memory.close()

    asyncio.run(scenario())
    with (tmp_path / "memory.journal").open("ab") as journal:
        journal.write(b'{"set": {"a": 2}, "dr')
    assert load(tmp_path) == {"a": 1}


@contextlib.contextmanager
def room_for(file: Path, more_bytes: int) -> Iterator[None]:
    """No file may grow beyond what this one has and so much: writes are cut off, as on a disk that
    is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + more_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("stuck", [False, True])
def test_what_is_stored_after_the_disk_was_full_is_there_after_death(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stuck: bool
) -> None:
    def fail(*_: object) -> int:
        raise OSError("it cannot be cut off")

    async def scenario() -> None:
        memory = FileMemory(tmp_path)
        await memory.load()
        await memory.save({"a": 1})
        with monkeypatch.context() as patch, room_for(tmp_path / "memory.journal", 9):
            if stuck:
                patch.setattr(memory._journal, "truncate", fail)
            with pytest.raises(DureError, match="see to its state folder"):
                await memory.save({"b": "long" * 5000})
        assert await asyncio.to_thread(load_copy, tmp_path) == {"a": 1}
        await memory.save({"c": 3}, ["a"])
        await memory.save({"d": 4})
        memory.close()

    asyncio.run(scenario())
    assert load(tmp_path) == {"c": 3, "d": 4}


def load_copy(folder: Path) -> dict[str, Any]:
    """What a member would find that started now."""
    return load(Path(shutil.copytree(folder, folder / "copy")))


@pytest.mark.parametrize("file", ["memory.json", "memory.journal"])
def test_what_was_spoilt_in_the_midst_is_told_with_a_remedy(tmp_path: Path, file: str) -> None:
    load(tmp_path)
    spoilt = b'{"set": {"a": 1}, "dr{"set": {"b": 2}, "drop": []}\n{"set": {}, "drop": []}\n'
    (tmp_path / file).write_bytes(spoilt)
    with pytest.raises(DureError, match=rf"{file} is not what .*; bring it back from a copy"):
        load(tmp_path)
    assert (tmp_path / file).read_bytes() == spoilt


def test_one_member_of_a_folder_acts_at_a_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        first, second = FileElection(tmp_path), FileElection(tmp_path)
        await first.lead()
        waiting = asyncio.create_task(second.lead())
        await asyncio.sleep(0.7)
        assert not waiting.done()
        first.close()
        async with asyncio.timeout(30):
            await waiting
        second.close()

    asyncio.run(scenario())
