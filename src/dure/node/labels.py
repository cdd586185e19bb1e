"""What a container's labels ask for, checked."""

import math
from dataclasses import dataclass

from dure.domain.errors import InputError
from dure.domain.units import parse_bytes, parse_duration_ns

PREFIX = "dure."
CLASSES = {"high": 1, "normal": 0, "low": -1}
CLASS_LIMIT = 100
"""Numbers of classes lie between minus this and this; higher goes first."""
WEIGHT_LIMIT = 100.0
_TRUE = {"true", "yes", "1", "on"}
_FALSE = {"false", "no", "0", "off"}


@dataclass(frozen=True, slots=True)
class Labels:
    """The wishes of one container."""

    priority: int = 0
    """Its class; higher goes first."""
    weight: float = 1.0
    """Multiplies how long its turn lasts and how fast its waiting counts."""
    deadline_ns: int | None = None
    """Time from its start within which its work should be done."""
    max_wait_ns: int | None = None
    """Longest it may be kept waiting, for a turn or for memory."""
    memory_bytes: int | None = None
    """GPU memory it will need, on each of its GPUs."""
    exempt: bool = False
    expect_ns: int | None = None
    """Length of its bursts of GPU work, where it is known beforehand."""


def parse_labels(labels: tuple[tuple[str, str], ...]) -> Labels:
    """The labels that are Dure's; raises `InputError` for one that cannot be understood."""
    said = {key: value.strip() for key, value in labels if key.startswith(PREFIX)}
    try:
        return Labels(
            priority=_class(said.get("dure.priority")),
            weight=_weight(said.get("dure.weight")),
            deadline_ns=_duration(said, "dure.deadline"),
            max_wait_ns=_duration(said, "dure.max-wait"),
            memory_bytes=_size(said, "dure.memory"),
            exempt=_flag(said.get("dure.exempt")),
            expect_ns=_duration(said, "dure.expect"),
        )
    except ValueError as error:
        raise InputError(f"label {error}") from error


def _class(text: str | None) -> int:
    if text is None:
        return 0
    if text.lower() in CLASSES:
        return CLASSES[text.lower()]
    try:
        number = int(text)
    except ValueError:
        number = CLASS_LIMIT + 1
    if abs(number) > CLASS_LIMIT:
        raise ValueError(
            f"dure.priority: '{text}' is no class; write {', '.join(CLASSES)} or a whole number "
            f"from -{CLASS_LIMIT} to {CLASS_LIMIT}"
        )
    return number


def _weight(text: str | None) -> float:
    if text is None:
        return 1.0
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 1 / WEIGHT_LIMIT <= weight <= WEIGHT_LIMIT:
        raise ValueError(
            f"dure.weight: '{text}' is no weight; write a number from {1 / WEIGHT_LIMIT:g} to "
            f"{WEIGHT_LIMIT:g}"
        )
    return weight


def _duration(said: dict[str, str], key: str) -> int | None:
    if key not in said:
        return None
    try:
        return parse_duration_ns(said[key])
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


def _size(said: dict[str, str], key: str) -> int | None:
    if key not in said:
        return None
    try:
        return parse_bytes(said[key])
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


def _flag(text: str | None) -> bool:
    if text is None or text.lower() in _FALSE:
        return False
    if text.lower() in _TRUE or text == "":
        return True
    raise ValueError(f"dure.exempt: '{text}' is neither true nor false")
