"""What all documents share: their strictness, and the kinds of values people write in them.

In JSON and YAML the fields are in camel case, in Python in snake case. Unknown fields, conversions
that were not asked for, numbers without end and NUL characters are refused.
"""

import datetime
import json
import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

from dure.domain.errors import InputError
from dure.domain.fleet.windows import window_of
from dure.domain.units import NS_PER_S, parse_bytes, parse_duration_ns

MOST = 1e12
"""Largest number anything is given in: products of a few of them and their sums stay finite."""
MOST_NS = 2**62
"""Moments and durations beyond this do not fit the database's whole numbers with room to add."""
MOST_JSON_CHARACTERS = 16_384
_NO_NUL = r"^[^\x00]*$"
_NUMBER = r"[0-9]{1,15}(\.[0-9]{1,9})?"
_DURATION = rf"{_NUMBER}(ns|us|ms|s|m|min|h|d)"
_CLOCK = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"
_MOMENT = rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}T{_CLOCK}(Z|[+-][0-9]{{2}}:[0-9]{{2}})"


class Document(BaseModel):
    """A JSON object of `/v1`."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        use_attribute_docstrings=True,
    )


DocumentT = TypeVar("DocumentT", bound=Document)


def read_document(model: type[DocumentT], raw: bytes | str) -> DocumentT:
    """A document from JSON, by the names of the interface; raises pydantic's `ValidationError`."""
    return model.model_validate_json(raw, by_alias=True, by_name=False)


def said_twice(raw: bytes | str) -> str:
    """A name that an object of a JSON text has twice, so that readers differ; empty: none."""
    found = ""

    def look(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found
        names = dict(pairs)
        if len(names) < len(pairs):
            found = next(name for name in names if sum(name == each for each, _ in pairs) > 1)
        return names

    json.loads(raw, object_pairs_hook=look, parse_int=str, parse_float=str)
    return found


def short_form(expand: Callable[[Any], Any], written: Any) -> BeforeValidator:
    """Lets a part be written short, as one value instead of an object; `written` is its type."""
    return BeforeValidator(
        lambda value: (
            value if value is None or isinstance(value, dict | Document) else expand(value)
        ),
        json_schema_input_type=written,
    )


def stored(document: Document) -> dict[str, Any]:
    """A document as it is kept: what differs from the defaults, as JSON knows it."""
    return document.model_dump(mode="json", exclude_defaults=True)


# Values


def _duration(text: str) -> str:
    duration_ns(text)
    return text


def _size(text: str) -> str:
    parse_bytes(text)
    return text


def _moment(text: str) -> str:
    moment_ns(text)
    return text


def _deadline(text: str) -> str:
    deadline_ns(text, 0)
    return text


def duration_ns(text: str) -> int:
    """`20ms`, `1.5h` in nanoseconds; `ValueError` for what is none."""
    return parse_duration_ns(text)


def moment_ns(text: str) -> int:
    """A moment of RFC 3339 in nanoseconds since 1970; `ValueError` for what is none."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(
            f"'{text}' is no moment; write it with its zone, as '2026-10-01T06:00:00Z'"
        )
    since = moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    found = (since.days * 86400 + since.seconds) * NS_PER_S + since.microseconds * 1000
    if not 0 <= found <= MOST_NS:
        raise ValueError(f"'{text}' cannot be told; write a year from 1970 to 2099")
    return found


def deadline_ns(text: str, submitted_ns: int) -> int:
    """A deadline: a moment, or as `+6h` a time from the submission."""
    if "T" in text:
        return moment_ns(text)
    return submitted_ns + duration_ns(text.removeprefix("+"))


def moment_text(moment: int) -> str:
    """Nanoseconds since 1970 as RFC 3339 in UTC, to the millisecond."""
    seconds, rest = divmod(moment, NS_PER_S)
    told = datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC)
    return f"{told:%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03d}Z"


def maybe_moment(moment: int | None) -> str | None:
    """`moment_text`, or None."""
    return None if moment is None else moment_text(moment)


def _small_json(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    try:
        text = json.dumps(value, allow_nan=False)
    except ValueError:
        raise ValueError("holds a number without end; write an ordinary one") from None
    if len(text) > MOST_JSON_CHARACTERS:
        raise ValueError(f"is longer than {MOST_JSON_CHARACTERS} characters; shorten it")
    if "\\u0000" in text:
        raise ValueError("holds a NUL character; remove it")
    return value


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", max_length=63)]
"""Of what people name: up to 63 letters, digits, '.', '_' and '-'."""
LowerName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", max_length=39)]
"""Of tenants and clusters, which become parts of names in Kubernetes."""
TenantPath = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?(/[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?){0,2}$",
        max_length=119,
        examples=["acme", "acme/vision"],
    ),
]
"""A node of the tenants' tree: tenant, tenant/team or tenant/team/service."""
Line = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]*$", max_length=256)]
"""Text that is shown as it is: no line breaks, nothing that steers a terminal."""
Text = Annotated[str, Field(pattern=_NO_NUL, max_length=32_768)]
LabelKey = Annotated[
    str, Field(pattern=r"^([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$")
]
LabelValue = Annotated[
    str, Field(pattern=r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$", max_length=63)
]
Duration = Annotated[
    str,
    Field(pattern=rf"^{_DURATION}$", max_length=32, examples=["30m", "6h"]),
    AfterValidator(_duration),
]
"""A number and one of ns, us, ms, s, m, min, h, d."""
Size = Annotated[
    str,
    Field(
        pattern=rf"^{_NUMBER}(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)$",
        max_length=32,
        examples=["20GiB"],
    ),
    AfterValidator(_size),
]
"""A number and one of B, KB, MB, GB, TB, KiB, MiB, GiB, TiB."""
Moment = Annotated[
    str,
    Field(pattern=rf"^{_MOMENT}$", max_length=40, examples=["2026-10-01T06:00:00Z"]),
    AfterValidator(_moment),
]
"""A moment with its zone, as RFC 3339 writes it."""
Deadline = Annotated[
    str,
    Field(
        pattern=rf"^(\+?{_DURATION}|{_MOMENT})$",
        max_length=40,
        examples=["+6h", "2026-10-01T06:00:00Z"],
    ),
    AfterValidator(_deadline),
]
"""A moment, or a time from the submission."""
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$", examples=["USD", "KRW"])]
AtLeastZero = Annotated[float, Field(ge=0, le=MOST)]
Positive = Annotated[float, Field(ge=1e-6, le=MOST)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1, le=100_000)]
WholeFromZero = Annotated[int, Field(ge=0, le=1_000_000_000)]
Priority = Annotated[int, Field(ge=-1000, le=1000)]
SmallJson = Annotated[dict[str, JsonValue], AfterValidator(_small_json)]
"""A JSON object of up to 16 Ki characters."""
_ID = r"^[0-9a-hjkmnp-tv-z]{26}$"
Id = Annotated[str, Field(pattern=_ID, max_length=26)]
"""An id that Dure made; ids sort by the time they were made."""


def _window(line: str) -> str:
    try:
        window_of(line)
    except InputError as error:
        raise ValueError(str(error)) from error
    return line


WindowLine = Annotated[
    str,
    Field(
        pattern=r"^[a-z,-]+( [0-9]{2}:[0-9]{2}-[0-9]{2}:[0-9]{2})?( [A-Za-z][A-Za-z0-9_+/-]*)?$",
        max_length=100,
        examples=["mon-fri 22:00-06:00 Europe/Vienna", "sat,sun"],
    ),
    AfterValidator(_window),
]
"""Hours of a week: days, hours (the whole day where they are left out), time zone (UTC)."""
Windows = Annotated[list[WindowLine], Field(max_length=32)]


def is_id(text: str) -> bool:
    """Whether somebody means an id, not a name."""
    return re.match(_ID, text) is not None
