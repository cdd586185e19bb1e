"""Guaranteed thaw: whatever is killed, no container stays frozen, and a person's pause stays."""

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker_bed import Bed, Ticker, docker_bed  # noqa: F401
from tests.faults.thaw_world import ThawWorld, docker_says, frozen, kill, wait_for
from tests.faults.world import Jitter, show

pytestmark = [pytest.mark.docker, pytest.mark.faults]

KILLS = 100
BACK_S = 2.0


@pytest.fixture
def bed(docker_bed: Bed) -> Bed:  # noqa: F811
    return docker_bed


@pytest.fixture
def thaw(bed: Bed, tmp_path: Path) -> Iterator[ThawWorld]:
    world = ThawWorld(bed, tmp_path)
    yield world
    world.close()


def _all_run(tickers: list[Ticker]) -> bool:
    return not any(map(frozen, tickers))


def test_a_hundred_kills_of_who_pauses_leave_no_container_frozen(bed: Bed, thaw: ThawWorld) -> None:
    tickers = [bed.ticker(name=f"kill-{number}") for number in range(6)]
    by_person = bed.ticker(name="by-person")
    by_person.container.pause()
    thaw.start_watchdog()
    chance = random.Random(4)
    waits: list[float] = []
    were_frozen = 0
    with Jitter() as jitter:
        for _ in range(KILLS):
            pauser = thaw.start_pausing(tickers)
            time.sleep(chance.uniform(0.0, 0.3))
            kill(pauser)
            were_frozen += sum(map(frozen, tickers))
            waits.append(wait_for("their thaw", lambda: _all_run(tickers), 30))
            time.sleep(0.05)  # a pause that was under way would come now
            waits.append(wait_for("their thaw", lambda: _all_run(tickers), 30))
    show(f"{were_frozen} frozen at a kill, back after {max(waits):.3f} s at most")
    assert were_frozen > KILLS / 2, "the kills hit nothing"
    assert max(waits) <= BACK_S + jitter.longest_s
    wait_for("an empty journal", lambda: not thaw.owed())
    for ticker in tickers:
        assert docker_says(ticker) == "running"
        ticker.seconds_until_it_moves()
    assert docker_says(by_person) == "paused"
    assert "Traceback" not in thaw.errors()


def test_agent_and_watchdog_killed_together_are_made_up_for_by_the_next_start(
    bed: Bed, thaw: ThawWorld
) -> None:
    tickers = [bed.ticker(), bed.ticker()]
    watchdog = thaw.start_watchdog()
    pauser = thaw.start_holding(tickers)
    watchdog.kill()
    kill(pauser)
    watchdog.communicate()
    time.sleep(0.5)
    assert all(map(frozen, tickers))
    again = thaw.start_watchdog()
    wait_for("their thaw by a new watchdog", lambda: _all_run(tickers), 10)
    kill(again)
    assert [docker_says(ticker) for ticker in tickers] == ["running", "running"]


def test_the_next_agent_alone_thaws_what_the_last_one_left(bed: Bed, thaw: ThawWorld) -> None:
    tickers = [bed.ticker(), bed.ticker()]
    watchdog = thaw.start_watchdog()
    pauser = thaw.start_holding(tickers)
    watchdog.kill()
    kill(pauser)
    watchdog.communicate()
    assert all(map(frozen, tickers))
    thaw._start("tests.faults.pausing", str(thaw.folder), bed.url, "docker")
    wait_for("their thaw by a new agent", lambda: _all_run(tickers), 10)


def test_a_hung_agent_loses_its_containers_though_it_is_alive(bed: Bed, thaw: ThawWorld) -> None:
    ticker = bed.ticker()
    thaw.start_watchdog()
    pauser = thaw.start_holding([ticker])
    pauser.send_signal(signal.SIGSTOP)
    waited = wait_for("the thaw", lambda: not frozen(ticker), 20)
    show(f"a hung agent was noticed after {waited:.1f} s")
    assert pauser.poll() is None
    assert docker_says(ticker) == "running"


def test_a_pause_ends_at_its_deadline_by_the_watchdog_alone(bed: Bed, thaw: ThawWorld) -> None:
    ticker, other = bed.ticker(), bed.ticker()
    thaw.start_watchdog()
    thaw.start_holding([ticker], DEADLINE_S="1.5")
    other.container.pause()
    waited = wait_for("the thaw", lambda: not frozen(ticker), 20)
    assert waited > 0.5, "let go before its deadline"
    assert docker_says(ticker) == "running"
    assert docker_says(other) == "paused"


def test_a_dead_docker_is_made_up_for_by_the_cgroup_and_told_when_it_is_back(
    bed: Bed, thaw: ThawWorld
) -> None:
    tickers = [bed.ticker(), bed.ticker()]
    thaw.start_watchdog()
    pauser = thaw.start_holding(tickers)
    bed.kill_daemon()
    try:
        kill(pauser)
        with Jitter() as jitter:
            waited = wait_for("their thaw", lambda: _all_run(tickers), 30)
        assert waited <= BACK_S + jitter.longest_s
        for ticker in tickers:
            ticker.seconds_until_it_moves(5)
    finally:
        bed.start_daemon(live_restore=True)
    wait_for(
        "Docker's own word", lambda: all(docker_says(each) == "running" for each in tickers), 20
    )
    wait_for("an empty journal", lambda: not thaw.owed(), 20)
    for ticker in tickers:
        ticker.seconds_until_it_moves(5)


def test_a_docker_that_hangs_is_made_up_for_by_the_cgroup(bed: Bed, thaw: ThawWorld) -> None:
    assert bed.process is not None
    tickers = [bed.ticker(), bed.ticker(), bed.ticker()]
    thaw.start_watchdog()
    pauser = thaw.start_holding(tickers)
    bed.process.send_signal(signal.SIGSTOP)
    try:
        kill(pauser)
        with Jitter() as jitter:
            waited = wait_for("their thaw", lambda: _all_run(tickers), 30)
        assert waited <= BACK_S + jitter.longest_s
    finally:
        bed.process.send_signal(signal.SIGCONT)
    wait_for(
        "Docker's own word", lambda: all(docker_says(each) == "running" for each in tickers), 20
    )
    wait_for("their run", lambda: _all_run(tickers), 20)


def test_a_pause_under_way_in_a_docker_that_hangs_is_undone_when_it_goes_on(
    bed: Bed, thaw: ThawWorld
) -> None:
    assert bed.process is not None
    ticker = bed.ticker()
    thaw.start_watchdog()
    pauser = thaw.start_pausing([ticker], HOLD="1", ASK="1")
    assert pauser.stdin is not None
    began_s = int(time.time())
    bed.process.send_signal(signal.SIGSTOP)
    try:
        pauser.stdin.write("go\n")
        pauser.stdin.flush()
        wait_for("the intention", thaw.owed, 10)
        time.sleep(0.3)  # for the request to be on its way
        kill(pauser)
        time.sleep(1.0)  # for the watchdog to find that Docker does not answer
    finally:
        bed.process.send_signal(signal.SIGCONT)
    wait_for("an empty journal", lambda: not thaw.owed(), 20)
    assert _pauses(bed, ticker, began_s) == 1, "Docker did not carry it out, so nothing was shown"
    assert not frozen(ticker)
    assert docker_says(ticker) == "running"


def _pauses(bed: Bed, ticker: Ticker, since_s: int) -> int:
    """How often Docker paused a container since then."""
    filters = {"container": ticker.id, "event": "pause"}
    until_s = int(time.time()) + 1
    return len(list(bed.client.events(since=since_s, until=until_s, filters=filters, decode=True)))


def test_a_docker_restarted_without_live_restore_owes_nothing(bed: Bed, thaw: ThawWorld) -> None:
    ticker = bed.ticker()
    bed.kill_daemon(signal.SIGKILL)
    bed.start_daemon(live_restore=False)
    thaw.start_watchdog()
    pauser = thaw.start_holding([ticker])
    bed.kill_daemon(signal.SIGKILL)
    bed.start_daemon(live_restore=False)
    kill(pauser)
    wait_for("an empty journal", lambda: not thaw.owed(), 20)
    assert docker_says(ticker) == "exited"
    assert "Traceback" not in thaw.errors()
    bed.kill_daemon()
    bed.start_daemon(live_restore=True)


@pytest.mark.parametrize("end", ["stop", "kill", "remove", "restart", "rename"])
def test_a_container_that_ends_while_paused_leaves_nothing_behind(
    bed: Bed, thaw: ThawWorld, end: str
) -> None:
    ticker = bed.ticker()
    thaw.start_watchdog()
    pauser = thaw.start_holding([ticker])
    match end:
        case "stop":
            ticker.container.stop(timeout=1)
        case "kill":
            ticker.container.kill()
        case "remove":
            ticker.container.remove(force=True)
        case "restart":
            ticker.container.restart(timeout=1)
            ticker.container.pause()  # by a person, in its next life
        case "rename":
            ticker.container.rename(f"{ticker.container.name}-renamed")
    kill(pauser)
    wait_for("an empty journal", lambda: not thaw.owed(), 10)
    assert "Traceback" not in thaw.errors()
    if end == "restart":
        assert docker_says(ticker) == "paused"
    if end == "rename":
        assert docker_says(ticker) == "running"
