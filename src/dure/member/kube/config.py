"""The file of `dure member --config`: how the member uses its Kubernetes cluster."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dure.domain.errors import InputError
from dure.domain.ids import TenantId
from dure.kit.files import YamlFile, read_yaml
from dure.member.kube.partition import PARTITIONERS
from dure.member.kube.settings import KubeSettings

_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_URL = re.compile(r"https://[^\s/]+(/[^\s]*)?")
_TOLERATION = frozenset({"key", "operator", "value", "effect", "tolerationSeconds"})
_MOST_S = 86_400.0
_MOST_REQUESTS = 256


def read_settings(path: Path, defaults: KubeSettings) -> KubeSettings:
    """The settings of a file, the rest as given; `InputError` says what is wrong, and where."""
    file = read_yaml(path)
    given: dict[str, Any] = {}
    for name, value in file.data.items():
        read = FIELDS.get(name)
        if read is None:
            remedy = f"use some of {', '.join(FIELDS)}"
            raise _problem(file, name, f"there is no field '{name}'", remedy)
        try:
            given[name] = read(value)
        except ValueError as error:
            raise _problem(file, name, f"{name} {error}", "correct it") from error
    return replace(defaults, **given)


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _MOST_S:
        raise ValueError(f"is {value!r}, not a number of seconds up to {_MOST_S:g}")
    return float(value)


def _requests(value: Any) -> int:
    if type(value) is not int or not 0 < value <= _MOST_REQUESTS:
        raise ValueError(f"is {value!r}, not a whole number from 1 to {_MOST_REQUESTS}")
    return int(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"is {value!r}, neither true nor false")
    return value


def _gateway(value: Any) -> str:
    namespace, slash, name = str(value).rpartition("/")
    if not (slash and _NAMESPACE.fullmatch(namespace) and _NAMESPACE.fullmatch(name)):
        raise ValueError(f"is {value!r}, not NAMESPACE/NAME of a Gateway")
    return str(value)


def _name(value: Any) -> str:
    if not isinstance(value, str) or not _NAMESPACE.fullmatch(value):
        raise ValueError(f"is {value!r}, which is no name in Kubernetes")
    return value


def _partitioner(value: Any) -> str:
    if not isinstance(value, str) or value not in PARTITIONERS:
        raise ValueError(f"is {value!r}, not one of {', '.join(PARTITIONERS)}")
    return value


def _namespaces(value: Any) -> Mapping[TenantId, str]:
    if not isinstance(value, dict):
        raise ValueError("is no mapping of tenants to namespaces")
    return {TenantId(_name(tenant)): _name(namespace) for tenant, namespace in value.items()}


def _url(value: Any) -> str:
    if not isinstance(value, str) or not _URL.fullmatch(value):
        raise ValueError(f"is {value!r}, not an address such as https://cluster.example:6443")
    return value.rstrip("/")


def _tolerations(value: Any) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(value, list):
        raise ValueError("is no list")
    for each in value:
        if not isinstance(each, dict) or not each or not each.keys() <= _TOLERATION:
            raise ValueError(f"has {each!r}; a toleration has {', '.join(sorted(_TOLERATION))}")
    return tuple(value)


FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "namespaces": _namespaces,
    "bind_within_s": _seconds,
    "start_within_s": _seconds,
    "tolerations": _tolerations,
    "api_url": _url,
    "device_class": _name,
    "partitioner": _partitioner,
    "routes": _flag,
    "gateway": _gateway,
    "concurrency": _requests,
}
"""What may be set, each as `KubeSettings` has it."""


def _problem(file: YamlFile, name: str, what: str, remedy: str) -> InputError:
    return InputError(what, remedy, file=str(file.path), field=f"line {file.line_of((name,))}")
