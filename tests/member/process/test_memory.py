"""A member's memory in files, and who of several members acts."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
