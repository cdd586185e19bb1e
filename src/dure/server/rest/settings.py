"""Limits of the REST interface."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from dure.domain.errors import InputError


@dataclass(frozen=True)
class RestSettings:
    """What one asker may take, and how long answers may wait."""

    body_bytes: int = 1024 * 1024
    """Largest body of a request."""
    requests_per_s: float = 1000.0
    """Of one token, in the long run; the target of 300 submissions a second fits thrice."""
    burst: int = 2000
    """Requests of one token at once."""
    strangers_per_s: float = 20.0
    """Requests from one address without a valid token, in the long run."""
    strangers_burst: int = 100
    wait_s: float = 60.0
    """The longest that `wait` keeps an asker."""
    heartbeat_s: float = 10.0
    """How often a stream of events says that it is alive."""
    streams: int = 1000
    """Streams of events at a time, of all askers."""
    token_cache_s: float = 5.0
    """How long a token that was good is not looked up again: a revocation at another server may
    take so long to be felt."""
    known_s: float = 1.0
    """How old what submissions are checked against may be, where it does not refuse them."""


def with_rest(before: RestSettings, given: Any, file: str) -> RestSettings:
    """The settings with those of a mapping instead, by their names with - for _."""
    if not isinstance(given, Mapping):
        raise InputError("is no mapping", "write NAME: VALUE lines", file=file, field="rest")
    kinds = {each.name: type(getattr(before, each.name)) for each in fields(RestSettings)}
    changes: dict[str, Any] = {}
    for written, value in given.items():
        name, field = str(written).replace("-", "_"), f"rest.{written}"
        if name not in kinds:
            known = ", ".join(sorted(each.replace("_", "-") for each in kinds))
            raise InputError("is no setting", f"use one of {known}", file=file, field=field)
        kind = kinds[name]
        fits = type(value) is kind or (kind is float and type(value) is int)
        if not fits or value <= 0:
            raise InputError(
                f"{value!r} is no {kind.__name__} above zero", "correct it", file=file, field=field
            )
        changes[name] = kind(value)
    return replace(before, **changes)
