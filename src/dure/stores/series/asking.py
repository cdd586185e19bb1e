"""Questions about series as people send them, checked: `name=…&label=k=v&since=5m&step=10s`."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dure.domain.errors import InputError
from dure.domain.series import Range, Selector, labels_of
from dure.domain.units import NS_PER_MS, parse_duration_ns

_SINCE = "5m"
_POINTS = 120
"""Where no step is stated: about so many points."""
_STEPS_MS = (1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000)
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Question:
    """Which series, and when."""

    selector: Selector
    span: Range


def question(
    asked: Mapping[str, str], labels: Iterable[str], now_ms: int | None = None
) -> Question:
    """A question from its parts: name, since or start and end (ms since 1970), step."""
    name = asked.get("name", "")
    if not name:
        raise InputError(
            "no series is named", "name one; /v1/series/names lists them", field="name"
        )
    now_ms = now_ms if now_ms is not None else time.time_ns() // NS_PER_MS
    end_ms = _moment(asked, "end", now_ms)
    start_ms = _moment(asked, "start", end_ms - _length_ms(asked.get("since") or _SINCE, "since"))
    step = asked.get("step")
    step_ms = _length_ms(step, "step") if step else _fitting_step_ms(end_ms - start_ms)
    return Question(
        Selector(name, labels_of(dict(_pair(each) for each in labels))),
        Range(start_ms, end_ms, step_ms),
    )


def _pair(text: str) -> tuple[str, str]:
    label, equals, value = text.partition("=")
    if not equals or not label:
        raise InputError(f"'{text}' is no label", "write NAME=VALUE", field="label")
    return label, value


def _moment(asked: Mapping[str, str], field: str, otherwise: int) -> int:
    text = asked.get(field)
    if not text:
        return otherwise
    if not text.isdecimal():
        raise InputError(f"'{text}' is no moment", "write milliseconds since 1970", field=field)
    return int(text)


def _length_ms(text: str, field: str) -> int:
    try:
        length_ms = parse_duration_ns(text) // NS_PER_MS
    except ValueError as error:
        what, _, remedy = str(error).partition("; ")
        raise InputError(what, remedy, field=field) from error
    if length_ms < 1:
        raise InputError("is too short", "write '10s'", field=field)
    return length_ms


def _fitting_step_ms(length_ms: int) -> int:
    least = length_ms / _POINTS
    return next((step for step in _STEPS_MS if step >= least), -(-int(least) // _DAY_MS) * _DAY_MS)
