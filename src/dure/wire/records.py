"""Values with named fields: a message of the same names, each field of some kind."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.message import Message

from dure.domain.errors import InputError
from dure.wire.kinds import Kind, WireError


def record(value: type, message: type[Message], **fields: Kind) -> Kind:
    """A dataclass and its message; the fields of both are those named here."""
    own = [each for each in dataclasses.fields(value) if each.init]
    has_default = {
        each.name
        for each in own
        if each.default is not dataclasses.MISSING
        or each.default_factory is not dataclasses.MISSING
    }
    rows = tuple(fields.items())

    def plain(given: Any) -> dict[str, Any]:
        done: dict[str, Any] = {}
        for name, kind in rows:
            part = kind.plain(getattr(given, name))
            if part is not None:
                done[name] = part
        return done

    return Kind(plain, _reader(message, fields, has_default, value), present=True)


def pair(message: type[Message], **fields: Kind) -> Kind:
    """A tuple of two, and the message that names them."""
    (first, one), (second, other) = fields.items()

    def plain(value: tuple[Any, Any]) -> dict[str, Any]:
        return {first: one.plain(value[0]), second: other.plain(value[1])}

    def make(**given: Any) -> tuple[Any, Any]:
        return given[first], given[second]

    return Kind(plain, _reader(message, fields, set(), make), present=True)


def wrapped(message: type[Message], **field: Kind) -> Kind:
    """Something that alone could not be missing, in a message of its own."""
    ((name, kind),) = field.items()

    def plain(value: Any) -> dict[str, Any]:
        return {name: kind.plain(value)}

    def make(**given: Any) -> Any:
        return given[name]

    return Kind(plain, _reader(message, field, set(), make), present=True)


def _reader(
    message: type[Message],
    fields: Mapping[str, Kind],
    has_default: set[str],
    make: Callable[..., Any],
) -> Callable[[Any], Any]:
    """Reads a message or plain data; what is missing is None, a default, or refused."""
    always = tuple((name, kind.read) for name, kind in fields.items() if not kind.present)
    mostly = tuple(
        (name, kind.read, kind.optional) for name, kind in fields.items() if kind.present
    )
    everything = tuple((name, kind.read, kind.optional) for name, kind in fields.items())

    def read_message(raw: Any) -> dict[str, Any]:
        given: dict[str, Any] = {}
        name = ""
        try:
            for name, read in always:
                given[name] = read(getattr(raw, name))
            for name, read, optional in mostly:
                if raw.HasField(name):
                    given[name] = read(getattr(raw, name))
                elif optional:
                    given[name] = None
                elif name not in has_default:
                    raise WireError("is missing")
        except WireError as error:
            raise error.inside(name) from None
        return given

    def read_plain(raw: Mapping[str, Any]) -> dict[str, Any]:
        given: dict[str, Any] = {}
        name = ""
        try:
            for name, read, optional in everything:
                part = raw.get(name)
                if part is not None:
                    given[name] = read(part)
                elif optional:
                    given[name] = None
                elif name not in has_default:
                    raise WireError("is missing")
        except WireError as error:
            raise error.inside(name) from None
        return given

    def read(raw: Any) -> Any:
        if type(raw) is message:
            given = read_message(raw)
        elif isinstance(raw, Mapping):
            given = read_plain(raw)
        else:
            raise WireError(f"is a {type(raw).__name__}, not a mapping")
        try:
            return make(**given)
        except InputError as error:
            raise WireError(error.what, error.field) from error

    return read
