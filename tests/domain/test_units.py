import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.domain.units import (
    GIB,
    NS_PER_MS,
    NS_PER_S,
    format_bytes,
    format_bytes_like,
    format_duration,
    parse_bytes,
    parse_duration_ns,
)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("20ms", 20 * NS_PER_MS),
        ("1.5s", 3 * NS_PER_S // 2),
        (" 2 h ", 7200 * NS_PER_S),
        ("5min", 300 * NS_PER_S),
        ("3µs", 3000),
        ("3us", 3000),
        ("1e3 ns", 1000),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, ns: int) -> None:
    assert parse_duration_ns(text) == ns


@pytest.mark.parametrize("text", ["20", "ms", "-1s", "1 week", "1s 2ms", "", "nan s", "1,5s"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="20ms"):
        parse_duration_ns(text)


def test_a_duration_no_clock_could_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="too large"):
        parse_duration_ns("1e300h")


def test_binary_and_decimal_sizes_differ() -> None:
    assert parse_bytes("1GiB") == GIB
    assert parse_bytes("1GB") == 10**9


@given(st.integers(0, 2**62 - 1))
def test_whole_nanoseconds_are_read_to_float_precision(ns: int) -> None:
    assert abs(parse_duration_ns(f"{ns}ns") - ns) <= ns * 2**-52


@pytest.mark.parametrize(
    ("ns", "text"), [(950, "950 ns"), (1500, "1.5 µs"), (2.5e6, "2.5 ms"), (3e9, "3 s")]
)
def test_durations_are_shown_in_the_largest_unit_that_fits(ns: float, text: str) -> None:
    assert format_duration(ns) == text


def test_sizes_are_shown_in_binary_units() -> None:
    assert format_bytes(1.5 * GIB) == "1.5 GiB"
    assert format_bytes(10) == "10 B"
    assert format_bytes(999 * GIB) == "999 GiB"
    assert format_bytes(999 * 1024 * GIB) == "999 TiB"


@pytest.mark.parametrize(
    ("size", "written", "text"),
    [
        (24e9, 40 * 10**9, "24 GB"),
        (24 * GIB, 40 * GIB, "24 GiB"),
        (300e6, 512 * 10**6, "300 MB"),
        (1.2e12, 2 * 10**12, "1.2 TB"),
        (900, 10**9, "900 B"),
        (GIB, 12345, "1 GiB"),
    ],
)
def test_sizes_can_be_shown_in_the_unit_another_was_written_in(
    size: float, written: int, text: str
) -> None:
    assert format_bytes_like(size, written) == text
