"""A tenant meets its own limit and others' reserves, and sees them."""

from tests.shim.agents import StubAgent, Words
from tests.shim.kit import Kit

MIB = 1 << 20


def test_only_what_is_beyond_the_limit_is_refused(kit: Kit, agent: StubAgent) -> None:
    agent.set_words("t", Words(memory_limit_bytes=100 * MIB))
    steps = ("alloc:60", "info", "alloc:60", "alloc:40", "free", "alloc:30")
    done = kit.drive(*steps, socket=agent.path)
    assert done.lines == [
        "alloc 60 0",
        "info 40 100",
        "alloc 60 2",
        "alloc 40 0",
        "alloc 30 0",
        "end",
    ]
    reading = agent.read(0)
    assert reading.activity.memory_bytes == 90 * MIB
    assert reading.counters.memory_refused == 1
    assert reading.counters.memory_peak_bytes == 100 * MIB


def test_memory_without_a_context_counts_as_well(kit: Kit, agent: StubAgent) -> None:
    agent.set_words("t", Words(memory_limit_bytes=100 * MIB))
    done = kit.drive("create:80", "create:30", "alloc:30", socket=agent.path)
    assert done.lines == ["create 80 0", "create 30 2", "alloc 30 2", "end"]


def test_what_others_reserved_is_kept_for_them(kit: Kit, agent: StubAgent) -> None:
    agent.set_words("t", Words())
    agent.set_words("web", Words(memory_reserve_bytes=40 << 30))
    done = kit.drive("alloc:30000", "alloc:30000", socket=agent.path)
    assert done.lines == ["alloc 30000 0", "alloc 30000 2", "end"]


def test_copies_keep_to_their_rate(kit: Kit, agent: StubAgent) -> None:
    agent.set_words("t", Words(copy_bytes_per_s=100_000_000))
    done = kit.drive("alloc:1", "copyin:40000000", "copyin:1000", socket=agent.path)
    assert done.code == 0
    counters = agent.read(0).counters
    assert counters.copied_bytes >= 40_000_000
    assert counters.copy_held_ns > 100_000_000


def test_memory_stays_taken_while_it_is_mapped(kit: Kit, agent: StubAgent) -> None:
    """Programs may let go of the handle as soon as it is mapped."""
    agent.set_words("t", Words(memory_limit_bytes=100 * MIB))
    steps = ("create:80", "map:80", "release", "alloc:30", "unmap:80", "alloc:30")
    done = kit.drive(*steps, socket=agent.path)
    assert done.lines == ["create 80 0", "alloc 30 2", "alloc 30 0", "end"]
    assert agent.read(0).activity.memory_bytes == 30 * MIB


def test_memory_stays_taken_while_another_handle_is_held(kit: Kit, agent: StubAgent) -> None:
    agent.set_words("t", Words(memory_limit_bytes=100 * MIB))
    steps = ("create:80", "retain", "release", "alloc:30", "release", "alloc:30")
    done = kit.drive(*steps, socket=agent.path)
    assert done.lines[:2] == ["create 80 0", "alloc 30 2"]
    assert "alloc 30 0" in done.lines[2:]
    assert agent.read(0).activity.memory_bytes == 30 * MIB


def test_what_is_unmapped_in_one_piece_may_have_been_mapped_in_many(
    kit: Kit, agent: StubAgent
) -> None:
    agent.set_words("t", Words(memory_limit_bytes=100 * MIB))
    pieces = [step for at in range(4) for step in ("create:20", f"map:20:{at}", "release")]
    done = kit.drive(*pieces, "alloc:30", "unmap:80", "alloc:90", socket=agent.path)
    assert done.lines[-3:] == ["alloc 30 2", "alloc 90 0", "end"]


def test_a_device_that_is_reset_gives_its_memory_back(kit: Kit, agent: StubAgent) -> None:
    agent.set_words("t", Words(memory_limit_bytes=100 * MIB))
    done = kit.drive("alloc:60", "alloc:30", "reset", "alloc:90", socket=agent.path)
    assert done.lines == ["alloc 60 0", "alloc 30 0", "alloc 90 0", "end"]
    assert agent.read(0).activity.memory_bytes == 90 * MIB
