import pytest

from dure.domain.promises import (
    parse_availability_slo,
    parse_bytes_per_s,
    parse_latency_slo,
    parse_share,
    parse_throughput_slo,
)
from dure.domain.tenant import AvailabilitySlo, LatencySlo, ThroughputSlo
from dure.domain.units import NS_PER_MS, NS_PER_US


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p99=20ms", LatencySlo(20 * NS_PER_MS)),
        ("20ms", LatencySlo(20 * NS_PER_MS)),
        ("p95 <= 1.5s", LatencySlo(1500 * NS_PER_MS, 95.0)),
        ("p99.9:3ms", LatencySlo(3 * NS_PER_MS, 99.9)),
        ("50us", LatencySlo(50 * NS_PER_US)),
    ],
)
def test_a_latency_is_a_percentile_and_a_target(text: str, expected: LatencySlo) -> None:
    assert parse_latency_slo(text) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("fast", "'fast' is not a duration; write it as 'p99=20ms'"),
        ("p100=20ms", "p100 is not a percentile below 100; write it as 'p99=20ms'"),
        ("p99=20", "'20' is not a duration; write it as 'p99=20ms'"),
        ("49us", "no GPU answers within 49 µs; promise 50 µs or more"),
        ("0ms", "no GPU answers within 0 ns; promise 50 µs or more"),
    ],
)
def test_what_is_no_latency_says_what_to_write(text: str, sentence: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011, the sentence is compared whole
        parse_latency_slo(text)
    assert str(refused.value) == sentence


def test_a_rate_is_a_number_a_second() -> None:
    assert parse_throughput_slo("100/s") == ThroughputSlo(100.0)
    assert parse_throughput_slo("2.5 per second") == ThroughputSlo(2.5)
    for wrong in ("0/s", "-1/s", "many", "100/min"):
        with pytest.raises(ValueError, match="; write "):
            parse_throughput_slo(wrong)


def test_a_share_is_a_percentage_or_a_part_of_one() -> None:
    assert parse_share("50%") == parse_share("0.5") == parse_share(".5") == 0.5
    assert parse_availability_slo("0.999") == AvailabilitySlo(0.999)
    for wrong in ("150%", "2", "half", "-1"):
        with pytest.raises(ValueError, match="; write a percentage"):
            parse_share(wrong)
    with pytest.raises(ValueError, match="promises nothing"):
        parse_availability_slo("0%")


def test_a_rate_of_copying_is_a_size_a_second() -> None:
    assert parse_bytes_per_s("2GB/s") == 2e9
    for wrong in ("2GB", "0GB/s", "fast/s"):
        with pytest.raises(ValueError, match="is not a rate of copying; write it as '2GB/s'"):
            parse_bytes_per_s(wrong)
