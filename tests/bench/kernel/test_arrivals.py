from itertools import islice

import pytest

from dure.bench.kernel.arrivals import poisson_s
from dure.bench.kernel.shard import seed_of


def test_the_same_seed_gives_the_same_arrivals() -> None:
    assert list(islice(poisson_s(50.0, 7), 100)) == list(islice(poisson_s(50.0, 7), 100))
    assert list(islice(poisson_s(50.0, 7), 100)) != list(islice(poisson_s(50.0, 8), 100))


def test_arrivals_come_in_order_at_the_stated_rate() -> None:
    times = list(islice(poisson_s(50.0, 1), 5000))
    assert times == sorted(times)
    assert times[0] > 0.0
    assert 5000 / times[-1] == pytest.approx(50.0, rel=0.05)


def test_arrivals_scale_with_the_rate() -> None:
    """So that a draw is the same draw whatever a machine can serve."""
    slow = list(islice(poisson_s(10.0, 3), 20))
    fast = list(islice(poisson_s(20.0, 3), 20))
    assert slow == pytest.approx([2.0 * when for when in fast])


def test_every_repeat_and_tenant_has_a_draw_of_its_own() -> None:
    seeds = [seed_of(repeat, index) for repeat in range(20) for index in range(6)]
    assert len(set(seeds)) == len(seeds)
