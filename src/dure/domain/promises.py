"""What people write about a tenant: promises, shares and rates, read into the values they mean.

Every parser raises `ValueError` with a sentence of two halves, what is wrong and what to write,
with '; ' between them, like those of `dure.domain.units`.
"""

import re

from dure.domain.tenant import AvailabilitySlo, LatencySlo, ThroughputSlo
from dure.domain.units import NS_PER_US, format_duration, parse_bytes, parse_duration_ns

LEAST_LATENCY_NS = 50 * NS_PER_US
"""No request is quicker: submitting one kernel and learning of its end takes some 10 to 20 µs."""

_LATENCY = re.compile(
    r"(?:p(?P<percentile>[0-9]+(?:\.[0-9]+)?)\s*(?:<=|=|<|≤|:|within|below|under)\s*)?(?P<target>.+)"
)
_THROUGHPUT = re.compile(
    r"(?:>=|>|≥|at least)?\s*(?P<rate>[0-9]+(?:\.[0-9]+)?(?:[eE][0-9]+)?)\s*"
    r"(?:/\s*s|per second|a second)?"
)
_PERCENT = re.compile(
    r"(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)\s*(?P<percent>%)?"
)
_PER_SECOND = re.compile(r"(?P<size>.+?)\s*(?:/\s*s|per second|a second)")


def parse_latency_slo(text: str) -> LatencySlo:
    """`p99=20ms`, `p99 <= 20ms`, or `20ms` for the 99th percentile."""
    remedy = "write it as 'p99=20ms'"
    match = _LATENCY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is not a latency; {remedy}")
    percentile = float(match["percentile"] or 99.0)
    if not 0.0 < percentile < 100.0:
        raise ValueError(f"p{percentile:g} is not a percentile below 100; {remedy}")
    try:
        target_ns = parse_duration_ns(match["target"])
    except ValueError as error:
        raise ValueError(f"'{match['target']}' is not a duration; {remedy}") from error
    return LatencySlo(check_latency_ns(target_ns), percentile)


def check_latency_ns(target_ns: int) -> int:
    """A target that a GPU could meet; raises `ValueError` for one it cannot."""
    if target_ns < LEAST_LATENCY_NS:
        raise ValueError(
            f"no GPU answers within {format_duration(target_ns)}; "
            f"promise {format_duration(LEAST_LATENCY_NS)} or more"
        )
    return target_ns


def parse_throughput_slo(text: str) -> ThroughputSlo:
    """`100/s`, or a plain number of requests a second."""
    match = _THROUGHPUT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is not a rate; write it as '100/s'")
    rate = float(match["rate"])
    if not 0.0 < rate < float("inf"):
        raise ValueError(f"{rate:g} a second is no rate to promise; write a number above 0")
    return ThroughputSlo(rate)


def parse_availability_slo(text: str) -> AvailabilitySlo:
    """`99.9%` or `0.999`."""
    share = parse_share(text)
    if share <= 0.0:
        raise ValueError(f"'{text}' promises nothing; write a percentage such as '99.9%'")
    return AvailabilitySlo(share)


def parse_share(text: str) -> float:
    """`50%` or `0.5`."""
    remedy = "write a percentage such as '50%', or a number from 0 to 1"
    match = _PERCENT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is not a share; {remedy}")
    share = float(match["number"]) / (100.0 if match["percent"] else 1.0)
    if share > 1.0:
        raise ValueError(f"'{text}' is more than the whole; {remedy}")
    return share


def parse_bytes_per_s(text: str) -> float:
    """`2GB/s`."""
    match = _PER_SECOND.fullmatch(text.strip())
    try:
        rate = parse_bytes(match["size"]) if match else 0
    except ValueError as error:
        raise ValueError(f"'{text}' is not a rate of copying; write it as '2GB/s'") from error
    if rate <= 0:
        raise ValueError(f"'{text}' is not a rate of copying; write it as '2GB/s'")
    return float(rate)
