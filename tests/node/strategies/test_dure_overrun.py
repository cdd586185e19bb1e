"""The strategy `dure` where bursts last longer than was known."""

from dataclasses import replace

import pytest

from dure.domain.containers import PauseWay
from dure.domain.units import NS_PER_S
from dure.node.history import ImageRecord
from tests.node.factories import BOTH, MS, Host, container
from tests.node.strategies.hosts import DOCKER, LOCK, compute, host_with, known

STEADY = replace(known("job", 4.0), gaps=False)
"""Bursts of 4 s that use the GPU all the time, and give their memory back at the end."""


def overrun(*records: ImageRecord, ways: tuple[PauseWay, ...] = LOCK) -> Host:
    """Three jobs, of which the first goes on though the second was let go ahead of its end."""
    host = host_with(*records, ways=ways)
    for name in ("a", "b", "c"):
        compute(host, name)
    assert host.free == {"a"}
    while "b" in host.paused:
        host.run(20 * MS)
    assert host.free == {"a", "b"}
    host.run(2 * NS_PER_S, every_ns=20 * MS)
    return host


@pytest.mark.parametrize("ways", [LOCK, DOCKER, BOTH])
def test_who_was_let_go_ahead_of_an_end_that_did_not_come_waits_on(
    ways: tuple[PauseWay, ...],
) -> None:
    host = overrun(STEADY, ways=ways)
    assert host.free == {"a"}
    host.run(2 * NS_PER_S, every_ns=20 * MS)
    assert host.free == {"a"}, "its end is not known any more, so nobody goes ahead of it"
    host.end("a")
    host.run(20 * MS)
    assert host.free == {"b"}, "it has kept its place"


def test_nobody_is_taken_back_where_nobody_else_waits_but_the_end_comes_in_time() -> None:
    host = host_with(STEADY, ways=LOCK)
    compute(host, "a")
    compute(host, "b")
    while "b" in host.paused:
        host.run(20 * MS)
    host.run(300 * MS)
    host.end("a")
    host.run(1 * NS_PER_S)
    assert host.order("pause") == ["b"]


def test_two_alone_do_not_share_for_ever_either() -> None:
    host = host_with(STEADY, ways=LOCK)
    compute(host, "a")
    compute(host, "b")
    host.run(6 * NS_PER_S, every_ns=20 * MS)
    assert host.free == {"a"}


@pytest.mark.parametrize("gaps", [True, None])
def test_who_has_gaps_or_may_have_some_shares_them(gaps: bool | None) -> None:
    host = overrun(replace(STEADY, gaps=gaps))
    assert host.free == {"a", "b"}


def test_a_kernel_that_runs_on_is_left_alone_after_a_while() -> None:
    host = host_with(STEADY, ways=LOCK)
    for name in ("a", "b", "c"):
        compute(host, name)
    host.launched = {"b"}
    while "b" in host.paused:
        host.run(20 * MS)
    host.run(4 * NS_PER_S, every_ns=20 * MS)
    assert host.free == {"a", "b"}


def test_a_wait_that_goes_on_counts_from_its_beginning() -> None:
    host = host_with(STEADY, ways=LOCK)
    compute(host, "a")
    host.start(container("b", image="job", max_wait="6s"))
    host.work("b", share=1.0)
    host.run(60 * MS)
    first_ns = host.paused["b"].resume_by_ns
    while "b" in host.paused:
        host.run(20 * MS)
    let_go_ns = host.now_ns
    while "b" not in host.paused:
        host.run(20 * MS)
    had_turn_ns = host.now_ns - let_go_ns + 40 * MS  # a step of this loop at either end
    assert host.paused["b"].resume_by_ns <= first_ns + had_turn_ns
    host.run(3 * NS_PER_S, every_ns=20 * MS)
    assert "b" in host.free, "it has waited as long as it may"


def test_two_longer_bursts_in_a_row_are_the_usual_ones_from_then_on() -> None:
    longer = (4 * NS_PER_S,) * 5 + (6 * NS_PER_S,) * 2
    record = replace(STEADY, held_lengths_ns=longer)
    assert record.burst_ns == record.left_ns(held=True) == 6 * NS_PER_S
    assert replace(record, held_lengths_ns=longer[:-1]).burst_ns == 4 * NS_PER_S, (
        "one is an outlier"
    )
    assert replace(record, gaps=True).burst_ns == 4 * NS_PER_S, "its end would show late"


def test_it_is_learned_whether_bursts_leave_gaps() -> None:
    host = host_with(ways=LOCK)
    compute(host, "steady", "steady")
    host.run(2 * NS_PER_S, every_ns=20 * MS)
    host.end("steady")
    compute(host, "idles", "idles")
    for share in (1.0, 0.0) * 3:
        host.work("idles", share=share)
        host.run(500 * MS, every_ns=20 * MS)
    host.end("idles")
    learned = {record.image: record.gaps for record in host.machine.history()}
    assert learned == {"steady": False, "idles": True}
