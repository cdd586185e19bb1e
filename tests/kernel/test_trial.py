"""Which of two ways of sharing stays in force, by what each was measured to be worth."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.domain.latency import bucket_of
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.kernel.policies.base import Measure, Worth
from dure.kernel.trial import Trial, measured_worth
from tests.kernel.factories import TICK_NS, reading, served, working

Reward = Callable[[float, bool], float]
"""What a way is worth at a time in seconds."""
TICKS_PER_S = NS_PER_S // TICK_NS
WINDOW_S = 0.6
"""Longer than one try."""


def ways(reward: Reward, seconds: float) -> list[bool]:
    """Tick by tick, whether everybody was left free."""
    trial, chosen = Trial(), []
    for number in range(1, int(seconds * TICKS_PER_S) + 1):
        chosen.append(trial.free)
        worth = reward(number / TICKS_PER_S, trial.free)
        trial.learn(number * TICK_NS, TICK_NS, [(worth, 1.0)])
    return chosen


def tries(chosen: list[bool], worse: bool) -> list[float]:
    """When in seconds the worse way was begun to be tried, after both were known."""
    known = 4 * TICKS_PER_S
    return [
        number / TICKS_PER_S
        for number in range(known, len(chosen))
        if chosen[number] is worse and chosen[number - 1] is not worse
    ]


def better_is(free: bool, by: float = 0.3) -> Reward:
    return lambda _, way: 0.5 + (by if way is free else 0.0)


@pytest.mark.parametrize("free", [False, True])
def test_the_better_way_stays_in_force(free: bool) -> None:
    chosen = ways(better_is(free), 120.0)
    assert sum(way is free for way in chosen[10 * TICKS_PER_S :]) > 0.9 * 110 * TICKS_PER_S


@pytest.mark.parametrize("free", [False, True])
def test_a_way_that_costs_less_is_better_where_worth_is_negative(free: bool) -> None:
    chosen = ways(lambda _, way: -1.0 if way is free else -2.0, 120.0)
    assert sum(way is free for way in chosen[10 * TICKS_PER_S :]) > 0.9 * 110 * TICKS_PER_S


@pytest.mark.parametrize("free", [False, True])
def test_the_worse_way_is_tried_again_and_kept_once_it_is_better(free: bool) -> None:
    turn_s = 60.0

    def reward(at_s: float, way: bool) -> float:
        return 0.8 if (way is free) == (at_s < turn_s) else 0.5

    chosen = ways(reward, 120.0)
    settled = chosen[int((turn_s + 20.0) * TICKS_PER_S) :]
    assert sum(way is not free for way in settled) > 0.8 * len(settled)


@pytest.mark.parametrize("free", [False, True])
def test_the_more_clearly_a_way_lost_the_later_it_is_tried_again(free: bool) -> None:
    close = tries(ways(better_is(free, by=0.005), 120.0), worse=not free)
    clear = tries(ways(better_is(free, by=0.3), 120.0), worse=not free)
    assert len(close) > 2 * len(clear) > 4
    assert max(after - before for before, after in pairwise(clear)) <= 18.0


@pytest.mark.parametrize("free", [False, True])
def test_a_try_is_short(free: bool) -> None:
    chosen = ways(better_is(free), 60.0)
    begun = tries(chosen, worse=not free)
    assert begun
    for at_s in begun:
        after = chosen[int((at_s + WINDOW_S) * TICKS_PER_S)]
        assert after is free


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_the_same_rewards_give_the_same_choices(rewards: list[float]) -> None:
    def reward(at_s: float, way: bool) -> float:
        return rewards[int(at_s * 10 + way) % len(rewards)]

    assert ways(reward, 10.0) == ways(reward, 10.0)


def test_time_in_which_nothing_counted_decides_nothing() -> None:
    trial = Trial()
    for number in range(1, 1000):
        trial.learn(number * TICK_NS, TICK_NS, [(0.0, 0.0)])
    assert trial == Trial(_since_ns=TICK_NS)


# What a reading is worth


def test_progress_is_worth_its_speed() -> None:
    got, counted = measured_worth(Worth(3.0), working("a", 0.25), TICK_NS)
    assert got == pytest.approx(0.75)
    assert counted == pytest.approx(3.0)


def test_who_had_work_half_the_time_counts_half() -> None:
    half = working("a", 0.25, busy_ns=TICK_NS // 2)
    got, counted = measured_worth(Worth(1.0), half, TICK_NS)
    assert got / counted == pytest.approx(0.5)
    assert counted == pytest.approx(0.5)


def test_a_promise_is_worth_the_share_that_was_on_time() -> None:
    worth = Worth(2.0, Measure.PROMISE)
    late = served("a", requests=4, latency_ns=30 * NS_PER_MS, late=1)
    got, counted = measured_worth(worth, late, TICK_NS)
    assert got == pytest.approx(1.5)
    assert counted == 2.0


def test_a_queue_is_worth_the_less_the_more_wait_in_it() -> None:
    """Ten requests of 4 ms each in 20 ms: two at a time, by Little's law."""
    worth = Worth(1.0, Measure.QUEUE)
    long, _ = measured_worth(worth, served("a", requests=10, latency_ns=4 * NS_PER_MS), TICK_NS)
    short, _ = measured_worth(worth, served("a", requests=10, latency_ns=NS_PER_MS), TICK_NS)
    assert long == pytest.approx(-2.0, rel=0.1)
    assert long < short < 0.0


@pytest.mark.parametrize("measure", Measure)
def test_who_did_nothing_counts_for_nothing(measure: Measure) -> None:
    assert measured_worth(Worth(1.0, measure), reading("a"), TICK_NS) == (0.0, 0.0)


@given(st.sampled_from(Measure), st.floats(0.0, 1.0), st.integers(0, 50), st.integers(0, 50))
def test_nobody_is_worth_more_than_it_counts_for(
    measure: Measure, share: float, requests: int, late: int
) -> None:
    made = working(
        "a",
        share,
        late=min(late, requests),
        latencies=((bucket_of(NS_PER_MS), requests),) if requests else (),
    )
    got, counted = measured_worth(Worth(2.0, measure), made, TICK_NS)
    assert got <= counted * (1 + 1e-9)
