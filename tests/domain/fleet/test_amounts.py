"""Sums that are shown add up, whatever they are divided by."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.domain.fleet.amounts import (
    MICRO,
    RunningSum,
    decimal_text,
    minor_digits,
    rounded,
)

amounts = st.lists(st.integers(0, 10**13), max_size=60)


@given(amounts, st.sampled_from([1, 10_000, 10**6]))
def test_lines_add_up_to_the_rounded_total_and_none_is_off_by_a_unit(
    lines: list[int], unit: int
) -> None:
    running = RunningSum(unit)
    shown = [running.add(each) for each in lines]
    assert sum(shown) == rounded(sum(lines), unit)
    assert all(abs(one * unit - exact) < unit for one, exact in zip(shown, lines, strict=True))
    assert all(each >= 0 for each in shown)


@given(st.lists(amounts, max_size=8))
def test_a_group_has_the_same_sum_however_finely_it_is_divided(groups: list[list[int]]) -> None:
    fine, coarse = RunningSum(10_000), RunningSum(10_000)
    assert [sum(fine.add(each) for each in group) for group in groups] == [
        coarse.add(sum(group)) for group in groups
    ]


@pytest.mark.parametrize(
    ("currency", "micro", "text"),
    [("USD", 12_345_678, "12.35"), ("KRW", 1_500_000, "2"), ("KWD", 1_234_500, "1.234")],
)
def test_a_sum_has_the_digits_of_its_currency(currency: str, micro: int, text: str) -> None:
    digits = minor_digits(currency)
    assert decimal_text(rounded(micro, MICRO // 10**digits), digits) == text


def test_less_than_nothing_is_written_with_one_sign() -> None:
    assert decimal_text(-5, 2) == "-0.05"
    assert decimal_text(-1205, 2) == "-12.05"
