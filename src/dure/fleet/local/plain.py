"""Values of the fleet as plain data (numbers, strings, lists, mappings) and back.

A value that plain data has no word for becomes a mapping with one key that names its kind: a
dataclass or an enum by its class, a tuple, a set. Only the classes listed here are ever made.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import Enum
from typing import Any

import numpy as np

from dure.domain.errors import InputError
from dure.domain.fleet.decisions import (
    Alternative,
    Explanation,
    InstanceId,
    Order,
    Placement,
    Site,
    SiteSummary,
)
from dure.domain.fleet.policy import ClassPolicy, CongestionRules, FleetPolicy
from dure.domain.fleet.profiles import DataType
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.tenancy import Allotment, Budget, FleetTenant, Team, VNodePool
from dure.domain.fleet.workloads import (
    Demand,
    Gang,
    Service,
    Sla,
    WhenCutOff,
    Work,
    Workload,
    WorkloadKind,
)
from dure.fleet.fit import Footprint
from dure.fleet.local.admission import Hold
from dure.fleet.local.instances import Spot

_CLASSES: tuple[type, ...] = (
    *(Alternative, Explanation, InstanceId, Order, Placement, Site, SiteSummary),
    *(ClassPolicy, CongestionRules, FleetPolicy, DataType, ShareMode),
    *(Allotment, Budget, FleetTenant, Team, VNodePool),
    *(Demand, Gang, Service, Sla, WhenCutOff, Work, Workload, WorkloadKind),
    *(Footprint, Hold, Spot),
)
_BY_NAME: dict[str, Any] = {each.__name__: each for each in _CLASSES}


def to_plain(value: Any) -> Any:
    """A value as plain data."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [to_plain(each) for each in value]
    return {_kind(value): _inner(value)}


def _kind(value: Any) -> str:
    """What a value is called in plain data."""
    if isinstance(value, np.ndarray):
        return "array"
    return "map" if isinstance(value, Mapping) else type(value).__name__


def _inner(value: Any) -> Any:
    """What it consists of."""
    match value:
        case Enum():
            inner: Any = value.value
        case np.ndarray():
            inner = [str(value.dtype), list(value.shape), value.ravel().tolist()]
        case tuple():
            inner = [to_plain(each) for each in value]
        case set() | frozenset():
            inner = [to_plain(each) for each in sorted(value, key=str)]
        case Mapping():
            inner = [[to_plain(key), to_plain(each)] for key, each in value.items()]
        case _ if type(value).__name__ in _BY_NAME:
            names = [each.name for each in fields(value) if each.init]
            inner = {name: to_plain(getattr(value, name)) for name in names}
        case _:
            raise InputError(
                f"a {type(value).__name__} has no plain form", "leave it out of the snapshot"
            )
    return inner


def from_plain(value: Any) -> Any:
    """The reverse of `to_plain`."""
    if isinstance(value, list):
        return [from_plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    make = _MAKERS.get(kind)
    if make is not None:
        return make(inner)
    made = _BY_NAME.get(kind)
    if made is None:
        raise InputError(f"'{kind}' is nothing of the fleet", "use a snapshot that was made here")
    if issubclass(made, Enum):
        return made(inner)
    return made(**{name: from_plain(part) for name, part in inner.items()})


_MAKERS: dict[str, Callable[[Any], Any]] = {
    "array": lambda inner: np.array(inner[2], dtype=inner[0]).reshape(inner[1]),
    "tuple": lambda inner: tuple(from_plain(each) for each in inner),
    "set": lambda inner: {from_plain(each) for each in inner},
    "frozenset": lambda inner: frozenset(from_plain(each) for each in inner),
    "map": lambda inner: {from_plain(key): from_plain(each) for key, each in inner},
}
