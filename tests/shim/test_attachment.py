"""When a process registers, and that it runs on whatever becomes of the agent."""

import time
from pathlib import Path

from dure.devices import layout
from tests.shim.agents import StubAgent, member
from tests.shim.kit import Kit, finish


def test_without_an_agent_everything_passes_after_one_line(kit: Kit, tmp_path: Path) -> None:
    done = kit.drive("launch:10", "sync", "launch:10", "sync", socket=tmp_path / "nobody")
    assert (done.code, done.lines) == (0, ["end"])
    assert len(done.said()) == 1
    assert "passing everything through" in done.said()[0]


def test_a_refusal_is_said_once_and_passes(kit: Kit, agent: StubAgent) -> None:
    agent.refuse = 2
    done = kit.drive("launch:10", "sync", "launch:10", "sync", socket=agent.path)
    assert done.code == 0
    assert len(done.said()) == 1
    assert "the test says no" in done.said()[0]


def test_an_agent_of_another_version_is_left_alone(kit: Kit, agent: StubAgent) -> None:
    agent.version = 99
    done = kit.drive("launch:10", "sync", socket=agent.path)
    assert (done.code, done.lines) == (0, ["end"])
    assert "version" in done.said()[0]


def test_a_client_says_who_it_is_and_what_it_uses(kit: Kit, agent: StubAgent) -> None:
    kit.drive("launch:10", "sync", socket=agent.path, DURE_TENANT="web")
    (hello,) = agent.hellos
    assert (hello.tenant, hello.program) == (b"web", b"drive")
    assert bytes(hello.uuid) == b"\x44" * 16
    assert (hello.version, hello.plan_bytes) == (layout.VERSION, layout.CONTROL_BYTES)


def test_an_agent_that_comes_late_is_found(kit: Kit, tmp_path: Path) -> None:
    path = tmp_path / "late.sock"
    process = kit.start(["drive", "launch:10", "say:ready", *("sleep:200", "launch:10") * 20], path)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    agent = StubAgent(path)
    try:
        done = finish(process)
        assert done.code == 0
        assert agent.hellos
        assert agent.read(0).counters.launches > 0
    finally:
        agent.close()


def test_a_restarted_agent_is_found_again_and_told_what_memory_is_in_use(
    kit: Kit, tmp_path: Path
) -> None:
    path = tmp_path / "shim.sock"
    first = StubAgent(path)
    steps = ["alloc:7", "launch:10", "say:ready", *("sleep:200", "launch:10") * 20]
    process = kit.start(["drive", *steps], path)
    assert process.stdout is not None
    while process.stdout.readline() != "ready\n":
        pass
    first.close()
    second = StubAgent(path)
    try:
        done = finish(process)
        assert done.code == 0
        assert second.read(0).counters.launches > 0
        assert second.read(0).activity.memory_bytes == 7 << 20
    finally:
        second.close()


def test_a_held_thread_passes_when_the_agent_dies(kit: Kit, agent: StubAgent) -> None:
    agent.publish(member("other"))  # the program's tenant has no part in any squad
    process = kit.start(["drive", "say:ready", "launch:10", "sync"], agent.path)
    deadline = time.monotonic() + 20
    while not agent.hellos and time.monotonic() < deadline:
        time.sleep(0.01)
    began = time.monotonic()
    agent.stop_beating()
    assert finish(process).code == 0
    assert time.monotonic() - began < 1.5


def test_a_child_registers_for_itself(kit: Kit, agent: StubAgent) -> None:
    done = kit.drive("launch:10", "sync", "fork", "launch:10", "sync", socket=agent.path)
    assert (done.code, done.lines) == (0, ["fork 0", "end"])
    assert len(agent.hellos) == 2
    parent, child = agent.read(0), agent.read(1)
    assert parent.counters.launches == 2
    assert child.counters.launches == 1
    assert parent.activity.pid != child.activity.pid


def test_a_program_after_exec_is_a_client_again(kit: Kit, agent: StubAgent) -> None:
    done = kit.drive("launch:10", "sync", "exec", "launch:10", "sync", socket=agent.path)
    assert (done.code, done.lines) == (0, ["end", "child 0", "end"])
    assert [hello.program for hello in agent.hellos] == [b"drive", b"drive"]
    assert agent.read(1).counters.launches == 1


def test_descriptors_do_not_pile_up(kit: Kit, agent: StubAgent) -> None:
    before = kit.drive("fds").lines
    after = kit.drive("launch:10", "sync", "fds", socket=agent.path).lines
    assert int(after[0].split()[1]) - int(before[0].split()[1]) == 1  # the socket


def test_reports_of_the_program_reach_the_agent(kit: Kit, agent: StubAgent) -> None:
    done = kit.drive("launch:10", "sync", "report:1500000", "progress:3", socket=agent.path)
    assert done.lines == ["report 0", "progress 0", "end"]
    counters = agent.read(0).counters
    assert counters.reported == 1
    assert agent.read(0).reported_latency.sum() == 1
    assert (counters.progress_done, counters.progress_total) == (3_000_000, 10_000_000)
