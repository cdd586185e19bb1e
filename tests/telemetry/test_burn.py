import pytest

from dure.telemetry.burn import BurnPair, BurnRate, poisson_tail

PAIRS = (BurnPair(4, 20, 0.5),)


def test_an_allowance_used_up_as_allowed_does_not_burn() -> None:
    burn = BurnRate(0.01, PAIRS)
    assert [burn.add(100, 1) for _ in range(50)] == [None] * 50


def test_a_quiet_tenants_single_failure_is_luck() -> None:
    burn = BurnRate(0.01, PAIRS)
    for _ in range(19):
        burn.add(1, 0)
    assert burn.add(1, 1) is None


def test_failures_that_cannot_be_luck_burn() -> None:
    burn = BurnRate(0.01, PAIRS)
    for _ in range(16):
        burn.add(100, 0)
    found = [burn.add(100, 10) for _ in range(4)][-1]
    assert found is not None
    assert found.rate == pytest.approx(10.0)
    assert found.late_share == pytest.approx(0.1)
    assert found.chance < 1e-4


def test_a_short_burst_that_does_not_matter_in_the_long_window_is_no_alarm() -> None:
    burn = BurnRate(0.01, (BurnPair(2, 40, 1.0),))
    for _ in range(38):
        burn.add(100, 0)
    assert burn.add(100, 8) is None


@pytest.mark.parametrize(
    ("count", "mean", "share"), [(0, 3.0, 1.0), (1, 1.0, 0.632), (5, 1.0, 0.00366)]
)
def test_the_tail_of_a_poisson_distribution(count: int, mean: float, share: float) -> None:
    assert poisson_tail(count, mean) == pytest.approx(share, rel=0.01)
