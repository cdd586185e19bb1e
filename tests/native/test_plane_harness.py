"""The data plane under real threads, processes, kills and scribbling, plain and with sanitizers."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.native.compiling import compile_with_plane

SOURCE = Path(__file__).with_name("plane_harness.c")
NS_PER_MS = 1_000_000
Run = Callable[..., dict[str, float]]


def _runner(folder: Path, sanitize: str | None) -> Run:
    program = compile_with_plane(SOURCE, folder, sanitize)

    def run(*arguments: str) -> dict[str, float]:
        done = subprocess.run(
            [program, *arguments], capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        pairs = (line.split() for line in done.stdout.splitlines())
        return {name: float(value) for name, value in pairs}

    return run


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return _runner(tmp_path_factory.mktemp("plain"), None)


@pytest.fixture(scope="module")
def under_thread_sanitizer(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return _runner(tmp_path_factory.mktemp("thread"), "thread")


@pytest.fixture(scope="module")
def under_address_sanitizer(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return _runner(tmp_path_factory.mktemp("address"), "address")


def test_threads_lose_no_launch_and_leave_nobody_waiting(plain: Run) -> None:
    said = plain("threads", "1")
    assert said["launches"] > 1000
    assert said["edges"] > 10


def test_threads_race_nowhere(under_thread_sanitizer: Run) -> None:
    assert under_thread_sanitizer("threads", "1.5")["launches"] > 100


def test_threads_stay_in_bounds(under_address_sanitizer: Run) -> None:
    assert under_address_sanitizer("threads", "1")["launches"] > 100


def test_budgets_divide_the_device_however_threads_are_scheduled(plain: Run) -> None:
    """3 ms to 1 ms a cycle, overrun by one launch of 20 to 24 µs at most."""
    said = plain("shares", "1")
    assert said["edges"] > 20
    assert said["ratio"] == pytest.approx(3.0, rel=0.08)


def test_a_held_thread_passes_when_the_agent_dies(plain: Run) -> None:
    """The beat goes on for 100 ms and counts for 250 more; the rest is a busy machine."""
    held_ms = plain("agent-dies")["held_ns"] / NS_PER_MS
    assert 300 < held_ms < 1500


def test_a_held_thread_passes_when_what_it_waited_for_ended(plain: Run) -> None:
    """200 times, each within seconds; on a quiet machine it takes about 40 µs."""
    assert plain("wake")["wake_median_ns"] < 100 * NS_PER_MS


def test_an_unasked_launch_costs_next_to_nothing(plain: Run) -> None:
    """Generous: what is measured on a quiet machine is under a third of it."""
    said = plain("bench")
    assert said["ask_ns"] < 500
    assert said["launched_ns"] < 300
    assert said["alone_ns"] < 50


@pytest.mark.slow
def test_a_held_thread_serves_signals_and_passes_in_the_end(plain: Run) -> None:
    said = plain("longest")
    assert 2_000 <= said["held_ns"] / NS_PER_MS < 3_500
    assert said["alarms"] > 50


@pytest.mark.faults
@pytest.mark.parametrize("sanitize", [None, "thread", "address"])
def test_a_killed_process_holds_up_nobody(tmp_path: Path, sanitize: str | None) -> None:
    said = _runner(tmp_path, sanitize)("processes", "7")
    assert said["kills"] > 100


@pytest.mark.faults
@pytest.mark.parametrize("sanitize", [None, "address"])
def test_a_scribbling_process_harms_nobody(tmp_path: Path, sanitize: str | None) -> None:
    """Every word it may write gets rubbish; the others go on launching and end well.

    The harness ends with an error, which the runner refuses, where one of them did not.
    """
    assert _runner(tmp_path, sanitize)("scribble", "7")["kills"] == 0
