"""Values as plain data that JSON can hold, for stores and memories: the form of their messages.

Names of fields are those of the messages (and so of the values), enumerations are written by the
names they have there, what is None or without limit is left out. Reading passes over what it does
not know, takes the default of what is missing, and checks the rest as if it had come over the line.
So a newer version may keep more, and an older one can still read it.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from dure.wire.codec import KINDS
from dure.wire.kinds import WireError

V = TypeVar("V")


def pack(value: Any) -> dict[str, Any]:
    """A value as plain data."""
    found = KINDS.get(type(value))
    if found is None:
        raise WireError(f"a {type(value).__name__} has no plain form")
    plain: dict[str, Any] = found[1].plain(value)
    return plain


def unpack(kind: type[V], data: Mapping[str, Any]) -> V:
    """The value of that kind which was packed; `WireError` where it is not sound."""
    found = KINDS.get(kind)
    if found is None:
        raise WireError(f"a {kind.__name__} has no plain form")
    value: V = found[1].read(data)
    return value
