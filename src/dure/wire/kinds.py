"""Kinds of fields: how each becomes plain data, and what is refused when it is read back.

The plain form of a value is what the constructor of its message takes: mappings, lists, numbers,
strings, enumerations by name, nothing for what is missing. Reading takes either a message or plain
data, and checks everything: whoever wrote it may be a newer version, broken, or hostile.
"""

import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from dure.domain.errors import DureError

MOST_TEXT = 4096
"""Characters of a name or a sentence."""
MOST_LONG_TEXT = 128 * 1024
"""Characters of an argument, a variable, a reason: Linux takes no longer argument either."""
MOST_ITEMS = 100_000
"""Of anything that is repeated in one message: far above the largest cluster there is."""
MOST_POD_DEPTH = 32
"""Levels of a Pod's fields; Kubernetes' own have ten."""
INT64 = 2**63


class WireError(DureError):
    """What a peer sent, or a store kept, cannot be used; `field` says which part of it."""

    def __init__(self, what: str, field: str = "") -> None:
        super().__init__(what, "check that the peer runs a version this one knows")
        self.field = field

    def __str__(self) -> str:
        said = super().__str__()
        return f"{self.field}: {said}" if self.field else said

    def inside(self, name: str) -> "WireError":
        """The same complaint, seen from the value that contains the field."""
        path = f"{name}.{self.field}" if self.field else name
        return WireError(self.what, path)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of field."""

    plain: Callable[[Any], Any]
    """A value as plain data."""
    read: Callable[[Any], Any]
    """Plain data, or what a message has there, as a value; raises `WireError`."""
    optional: bool = False
    """Whether a missing field is None, whatever default its value has."""
    present: bool = False
    """Whether a message tells a missing field from an empty one."""


def _same(value: Any) -> Any:
    return value


def text(most: int = MOST_TEXT) -> Kind:
    """Characters."""

    def read(raw: Any) -> str:
        if type(raw) is not str:
            raise WireError(f"is a {type(raw).__name__}, not a text")
        if len(raw) > most:
            raise WireError(f"has {len(raw)} characters, at most {most} are taken")
        if "\0" in raw:
            raise WireError("has a NUL character")
        return raw

    return Kind(_same, read)


def name() -> Kind:
    """Characters, at least one."""
    read = text().read

    def read_some(raw: Any) -> str:
        if not raw:
            raise WireError("is missing")
        return str(read(raw))

    return Kind(_same, read_some)


def whole(least: int = 0, most: int = INT64 - 1) -> Kind:
    """A whole number."""

    def read(raw: Any) -> int:
        if type(raw) is not int:
            raise WireError(f"is a {type(raw).__name__}, not a whole number")
        if not least <= raw <= most:
            raise WireError(f"is {raw}, not {least} to {most}")
        return raw

    return Kind(_same, read)


def number(least: float = 0.0, most: float = math.inf) -> Kind:
    """A number that is finite."""

    def read(raw: Any) -> float:
        if type(raw) is not float:
            if type(raw) is not int:
                raise WireError(f"is a {type(raw).__name__}, not a number")
            raw = _as_float(raw)
        if not (least <= raw <= most) or raw - raw != 0.0:
            raise WireError(f"is {raw}, not a finite number from {least} to {most}")
        return float(raw)

    return Kind(float, read)


def _as_float(raw: int) -> float:
    try:
        return float(raw)
    except OverflowError:
        raise WireError("is a whole number beyond all bounds") from None


def signed() -> Kind:
    """A finite number of either sign."""
    return number(-math.inf)


def shown() -> Kind:
    """A figure for people, of either sign: none that is not finite may spoil what carries it."""

    def plain(value: float) -> float:
        if math.isfinite(value):
            return float(value)
        return 0.0 if math.isnan(value) else math.copysign(sys.float_info.max, value)

    return Kind(plain, signed().read)


def moment() -> Kind:
    """A time in nanoseconds on some clock."""
    return whole(-INT64)


def flag() -> Kind:
    """Yes or no."""

    def read(raw: Any) -> bool:
        if type(raw) is not bool:
            raise WireError(f"is a {type(raw).__name__}, not true or false")
        return raw

    return Kind(_same, read)


def data(most: int) -> Kind:
    """Bytes as they are; of messages only."""

    def read(raw: Any) -> bytes:
        if type(raw) is not bytes:
            raise WireError(f"is a {type(raw).__name__}, not bytes")
        if len(raw) > most:
            raise WireError(f"has {len(raw)} bytes, at most {most} are taken")
        return raw

    return Kind(_same, read)


def choice(values: type[Enum], wire: Any, *, as_value: bool = False) -> Kind:
    """A member of an enumeration, or with `as_value` just what it stands for.

    On the line it has the name of its own enumeration and number `wire` gives it.
    """
    prefix = wire.DESCRIPTOR.values[0].name.removesuffix("UNSPECIFIED")
    to_name: dict[Any, str] = {}
    from_wire: dict[Any, Any] = {}
    for each in values:
        label, value = prefix + each.name, each.value if as_value else each
        to_name[value] = label
        from_wire[label] = from_wire[wire.Value(label)] = value

    def plain(value: Any) -> str:
        try:
            return to_name[value]
        except (KeyError, TypeError):
            raise WireError(f"is {value!r}, which is no {values.__name__}") from None

    def read(raw: Any) -> Any:
        try:
            return from_wire[raw]
        except (KeyError, TypeError):
            shown = "not given" if raw in (0, None, "") else repr(raw)[:80]
            raise WireError(f"is {shown}: no {values.__name__} this version knows") from None

    return Kind(plain, read)


def maybe(kind: Kind) -> Kind:
    """Something that may be None, which is not the same as empty or zero."""

    def plain(value: Any) -> Any:
        return None if value is None else kind.plain(value)

    return Kind(plain, kind.read, optional=True, present=True)


def capped() -> Kind:
    """A number of at least zero for which infinity means: no limit."""
    inner = number()

    def plain(value: float) -> float | None:
        return None if value == math.inf else value

    return Kind(plain, inner.read, present=True)


def many(kind: Kind, most: int = MOST_ITEMS) -> Kind:
    """Any number of something, in order."""

    def plain(value: Any) -> list[Any]:
        return [kind.plain(each) for each in value]

    def read(raw: Any) -> tuple[Any, ...]:
        return tuple(_each(kind.read, _items(raw, most)))

    return Kind(plain, read)


def unordered(kind: Kind) -> Kind:
    """A set; it is written in order, so that equal sets look the same."""
    listed = many(kind)

    def plain(value: Any) -> list[Any]:
        return [kind.plain(each) for each in sorted(value)]

    def read(raw: Any) -> frozenset[Any]:
        return frozenset(listed.read(raw))

    return Kind(plain, read)


def mapping(kind: Kind, most: int = MOST_ITEMS) -> Kind:
    """Something for each of some names."""
    key = text().read

    def plain(value: Mapping[str, Any]) -> dict[str, Any]:
        return {name: kind.plain(each) for name, each in value.items()}

    def read(raw: Any) -> dict[str, Any]:
        if not isinstance(raw, Mapping):
            raise WireError(f"is a {type(raw).__name__}, not a mapping")
        if len(raw) > most:
            raise WireError(f"has {len(raw)} entries, at most {most} are taken")
        return {key(name): kind.read(each) for name, each in raw.items()}

    return Kind(plain, read)


def array() -> Kind:
    """Finite numbers, packed."""

    def plain(value: Any) -> Any:
        return value.tolist()

    def read(raw: Any) -> Any:
        items = _items(raw, MOST_ITEMS)
        if isinstance(raw, list) and not {type(each) for each in raw} <= {int, float}:
            raise WireError("has something that is not a number")
        try:
            found = np.array(items, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise WireError("has something that is not a number") from None
        if not np.isfinite(found).all():
            raise WireError("has a number that is not finite")
        return found

    return Kind(plain, read)


def json_object() -> Kind:
    """A mapping whose fields others define, as JSON text."""

    def plain(value: Mapping[str, Any]) -> str:
        if not value:
            return ""
        try:
            return json.dumps(value, allow_nan=False, separators=(",", ":"), sort_keys=True)
        except (TypeError, ValueError, RecursionError) as error:
            raise WireError(f"cannot be written as JSON: {error}") from error

    read_text = text(MOST_LONG_TEXT).read

    def read(raw: Any) -> dict[str, Any]:
        said = read_text(raw)
        if not said:
            return {}
        try:
            found = json.loads(said, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise WireError("is not JSON") from None
        if not isinstance(found, dict):
            raise WireError("is not a JSON object")
        _check_json(found, 0)
        return found

    return Kind(plain, read)


def _no_constant(said: str) -> float:
    raise ValueError(said)


def _check_json(value: Any, depth: int) -> None:
    """Refuse what no sensible object has: great depth, NUL characters, infinite numbers."""
    if depth > MOST_POD_DEPTH:
        raise WireError(f"is nested more than {MOST_POD_DEPTH} deep")
    if isinstance(value, dict):
        for key, each in value.items():
            _check_json(key, depth)
            _check_json(each, depth + 1)
    elif isinstance(value, list):
        for each in value:
            _check_json(each, depth + 1)
    elif isinstance(value, str):
        if "\0" in value:
            raise WireError("has a NUL character")
    elif isinstance(value, float) and not math.isfinite(value):
        raise WireError("has a number beyond all bounds")


def _items(raw: Any, most: int) -> Any:
    """What is repeated: a list, or the like of a message."""
    if isinstance(raw, str | bytes | Mapping) or not hasattr(raw, "__len__"):
        raise WireError(f"is a {type(raw).__name__}, not a list")
    if len(raw) > most:
        raise WireError(f"has {len(raw)} items, at most {most} are taken")
    return raw


def _each(read: Callable[[Any], Any], items: Any) -> list[Any]:
    done: list[Any] = []
    try:
        for raw in items:
            done.append(read(raw))  # noqa: PERF401 (the number of the bad one is wanted)
    except WireError as error:
        raise error.inside(f"[{len(done)}]") from None
    return done
