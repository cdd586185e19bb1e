"""Units: constants to convert with, and parsing of what people write (`20ms`, `10GiB`)."""

import math
import re

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

KIB = 1024
MIB = 1024**2
GIB = 1024**3

_DURATION_NS = {
    "ns": 1,
    "us": NS_PER_US,
    "µs": NS_PER_US,
    "ms": NS_PER_MS,
    "s": NS_PER_S,
    "m": 60 * NS_PER_S,
    "min": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
    "d": 86400 * NS_PER_S,
}
_BYTES = {
    "B": 1,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "TB": 1000**4,
    "KiB": KIB,
    "MiB": MIB,
    "GiB": GIB,
    "TiB": 1024**4,
}
_NUMBER_AND_UNIT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*([A-Za-zµ]+)\s*")


def _parse(text: str, units: dict[str, int], kind: str, example: str) -> int:
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if match is None or match.group(2) not in units:
        raise ValueError(
            f"'{text}' is not a {kind}; write a number and one of {', '.join(units)}, "
            f"for example '{example}'"
        )
    value = float(match.group(1)) * units[match.group(2)]
    if not math.isfinite(value) or value > 2**62:
        raise ValueError(f"'{text}' is too large for a {kind}")
    return round(value)


def parse_duration_ns(text: str) -> int:
    """`20ms`, `1.5s`, `2h` in nanoseconds."""
    return _parse(text, _DURATION_NS, "duration", "20ms")


def parse_bytes(text: str) -> int:
    """`10GiB`, `512MB` in bytes."""
    return _parse(text, _BYTES, "size", "10GiB")


def format_duration(ns: float) -> str:
    """Nanoseconds as a person reads them, three significant digits."""
    for limit, unit in ((NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "µs")):
        if abs(ns) >= limit:
            return f"{ns / limit:.3g} {unit}"
    return f"{ns:.0f} ns"


def format_bytes_like(size: float, written: int) -> str:
    """Bytes in the kind of unit another size was written in: decimal, or else binary.

    What is whole in MB and not in MiB was written in GB or the like.
    """
    if written % 10**6 or not written % MIB:
        return format_bytes(size)
    for unit in ("TB", "GB", "MB", "KB"):
        if abs(size) >= _BYTES[unit]:
            return f"{size / _BYTES[unit]:.3g} {unit}"
    return f"{size:.0f} B"


def format_bytes(size: float) -> str:
    """Bytes as a person reads them, in binary units."""
    if abs(size) >= 1000 * GIB:
        return f"{size / _BYTES['TiB']:,.4g} TiB"
    for limit, unit in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(size) >= limit:
            return f"{size / limit:.3g} {unit}"
    return f"{size:.0f} B"
