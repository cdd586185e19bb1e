"""Work is counted, its end is seen, and captures are left alone."""

import time
from pathlib import Path

import pytest

from tests.shim.agents import StubAgent, member
from tests.shim.kit import Kit

IN_FLIGHT = 4


@pytest.mark.parametrize("end", ["sync", "ctxsync", "event", "poll", "callback", "copyout"])
def test_a_wait_that_returns_ends_the_burst(kit: Kit, agent: StubAgent, end: str) -> None:
    burst = ("launch:2000", "launch:2000", end, "sleep:2")
    done = kit.drive(*burst * 5, socket=agent.path)
    assert done.lines == ["end"]
    reading = agent.read(0)
    assert reading.counters.launches == 10
    assert reading.counters.bursts == 5
    assert reading.activity.inflight_ns == 0
    assert reading.activity.busy_since_ns == 0
    assert reading.latency.sum() == 5
    assert reading.counters.busy_ns >= 5 * 4_000_000


def test_work_on_a_stream_nobody_waits_for_is_noticed_too(kit: Kit, agent: StubAgent) -> None:
    steps = ("launch:1000", "stream", "launch:100", "sleep:20", "sync")
    kit.drive(*steps, socket=agent.path)
    assert agent.read(0).counters.bursts == 1
    assert agent.read(0).activity.busy_since_ns == 0


def test_a_capture_is_not_counted_and_its_graph_is_one_launch(
    kit: Kit, agent: StubAgent, tmp_path: Path
) -> None:
    trail = tmp_path / "trail"
    agent.segments.set_sample_every(1)
    agent.publish(member("t", inflight_ns=100_000), member("other"))
    steps = ("launch:20", "capture", "launch:20", "graph:3", "sync")
    done = kit.drive(*steps, socket=agent.path, DURE_FAKE_TRAIL=str(trail))
    assert done.lines == ["end"]
    counters = agent.read(0).counters
    assert (counters.launches, counters.graph_launches) == (5, 3)
    captured = [line for line in trail.read_text().splitlines() if line.endswith("captured")]
    assert captured == ["cuLaunchKernel 50 on 16 captured"] * 2


def test_durations_are_learned(kit: Kit, agent: StubAgent) -> None:
    agent.segments.set_sample_every(16)
    kit.drive("burn:400:300", socket=agent.path)
    samples = agent.segments.take_samples(0)
    assert len(samples) >= 8
    assert {sample.blocks for sample in samples} == {300}
    assert {sample.resident for sample in samples} == {8}
    last = samples[-1]
    assert 290_000 < last.duration_ns < 310_000
    assert 250_000 < last.predicted_ns < 350_000
    assert agent.read(0).counters.prediction_error_ppm < 200_000


def test_work_in_flight_is_bounded_without_idle_gaps(kit: Kit, agent: StubAgent) -> None:
    bound_ns = 4_000_000
    agent.segments.set_sample_every(16)
    agent.publish(member("t", inflight_ns=bound_ns), member("other"))
    done = kit.drive("burn:200:1000", "deep:100:1000", socket=agent.path)
    deepest_us = int(done.lines[1].split()[1])
    assert deepest_us < 3 * bound_ns / 1000  # a free program would have 100 ms queued
    counters = agent.read(0).counters
    assert counters.gated_by_ns[IN_FLIGHT] > 0
    assert counters.gpu_ns > 0.5e9


def test_threads_and_streams_leave_nothing_behind(kit: Kit, agent: StubAgent) -> None:
    agent.segments.set_sample_every(8)
    agent.publish(member("t", inflight_ns=1_000_000), member("other"))
    done = kit.drive("launch:1", "sync", "threads:6:20:200", "leftovers", socket=agent.path)
    assert done.code == 0
    reading = agent.read(0)
    assert reading.counters.launches == 1201
    assert reading.activity.inflight_ns == 0
    events, streams = map(int, done.lines[0].split()[1:])
    assert events == reading.counters.events
    assert streams == 0


def test_launches_are_held_for_a_busy_tenant_with_a_promise(kit: Kit, agent: StubAgent) -> None:
    web = member("web")
    agent.publish(member("t", yields_to=(web.tenant,)), web, protected=("web",))
    busy = kit.start(["drive", "launch:400000", "say:ready", "sync"], agent.path, DURE_TENANT="web")
    assert busy.stdout is not None
    busy.stdout.readline()
    done = kit.drive("launch:10", "sync", socket=agent.path)
    busy.communicate(timeout=30)
    assert done.code == 0
    counters = agent.read(1).counters
    assert counters.gated_ns > 50_000_000
    assert counters.held_for[agent.tenants["web"]] == counters.gated_ns


def test_a_program_with_collectives_is_never_held(kit: Kit, agent: StubAgent) -> None:
    agent.publish(member("other"))
    done = kit.drive("launch:10", "sync", socket=agent.path, WORLD_SIZE="2")
    assert done.code == 0
    counters = agent.read(0).counters
    assert (counters.launches, counters.gated_ns) == (1, 0)
    assert counters.flags & 8


@pytest.mark.parametrize("end", ["sync", "ctxsync", "event", "poll", "callback", "copyout"])
def test_launches_that_pass_lightly_are_all_counted(kit: Kit, agent: StubAgent, end: str) -> None:
    agent.segments.set_sample_every(16)
    steps = ("threads:1:5:2000", "train:3000:2", end, "sleep:2", "train:500:2", end, "sleep:2")
    done = kit.drive(*steps, socket=agent.path)
    assert done.lines == ["end"]
    reading = agent.read(0)
    assert reading.counters.launches == done.count("cuLaunchKernel") == 5500
    assert reading.activity.inflight_ns == 0
    assert reading.activity.busy_since_ns == 0
    assert reading.counters.gpu_ns > 0


def test_a_callback_does_not_wait_for_who_is_in_the_driver(kit: Kit, agent: StubAgent) -> None:
    """That one may wait for the very callback, with what it holds in the shim."""
    agent.segments.set_sample_every(1)
    steps = ("train:300:20", "called", "train:300:2") * 5
    done = kit.drive(*steps, "sync", socket=agent.path, DURE_FAKE_LOCKED="1")
    assert done.lines == ["end"], "nobody was stuck"
    assert agent.read(0).activity.inflight_ns == 0


def test_few_launches_are_timed_when_all_are_known(kit: Kit, agent: StubAgent) -> None:
    agent.segments.set_sample_every(16)
    kit.drive("train:20000:3", "sync", socket=agent.path)
    assert agent.read(0).counters.launches == 20000
    timed = len(agent.segments.take_samples(0))
    assert 5 < timed < 20000 / 64


def test_a_tenant_alone_has_few_events_between_its_kernels_once_all_are_known(
    kit: Kit, agent: StubAgent
) -> None:
    agent.segments.set_sample_every(16)
    done = kit.drive("mix:60000:20", "records", "mix:60000:20", "records", socket=agent.path)
    learning, later = (int(line.split()[1]) for line in done.lines[:2])
    assert later - learning < 60 * 2.5  # of 60 thousand launches


def test_threads_that_pass_lightly_lose_no_launch(kit: Kit, agent: StubAgent) -> None:
    agent.segments.set_sample_every(16)
    done = kit.drive("launch:1", "sync", "threads:6:2:3000", "leftovers", socket=agent.path)
    assert done.code == 0
    reading = agent.read(0)
    assert reading.counters.launches == 18001
    assert reading.activity.inflight_ns == 0
    assert int(done.lines[0].split()[1]) == reading.counters.events


def test_a_program_that_passes_lightly_is_held_once_others_have_a_promise(
    kit: Kit, agent: StubAgent
) -> None:
    web = member("web")
    steps = ("train:5000:1", "sync", "say:free", "train:100000000:100")
    busy = kit.start(["drive", *steps], agent.path)
    assert busy.stdout is not None
    busy.stdout.readline()
    agent.publish(member("t", yields_to=(web.tenant,), inflight_ns=100_000), web)
    try:
        limit = time.monotonic() + 30
        while agent.read(0).counters.gated_ns == 0 and time.monotonic() < limit:
            time.sleep(0.01)
        assert agent.read(0).counters.gated_by_ns[IN_FLIGHT] > 0
    finally:
        busy.kill()
        busy.communicate()


def test_a_capture_amid_light_launches_is_left_alone(
    kit: Kit, agent: StubAgent, tmp_path: Path
) -> None:
    trail = tmp_path / "trail"
    steps = ("train:1000:1", "capture", "train:1000:1", "graph:2", "sync")
    kit.drive(*steps, socket=agent.path, DURE_FAKE_TRAIL=str(trail))
    counters = agent.read(0).counters
    assert (counters.launches, counters.graph_launches) == (2002, 2)
    captured = [line for line in trail.read_text().splitlines() if line.endswith("captured")]
    assert captured == ["cuLaunchKernel 50 on 16 captured"] * 2
