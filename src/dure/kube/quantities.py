"""Amounts as Kubernetes writes them, and what a Pod asks for in all."""

import math
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from dure.domain.errors import InputError
from dure.kube.resources import Object

_FACTORS = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", start=1)},
}
_SUFFIX = "numkKMGTPEi"


def quantity(text: object) -> Decimal:
    """A quantity such as `250m`, `64Gi` or `1e3`."""
    said = str(text)
    number = said.rstrip(_SUFFIX)
    try:
        return Decimal(number) * _FACTORS[said[len(number) :]]
    except (InvalidOperation, KeyError):
        raise InputError(f"'{said}' is not a quantity", "write 250m, 64Gi or 2") from None


def milli(text: object) -> int:
    """In thousandths, rounded up as Kubernetes does."""
    return math.ceil(quantity(text) * 1000)


def whole(text: object) -> int:
    """In whole units, rounded down."""
    return int(quantity(text))


def pod_requests(pod: Object) -> dict[str, Decimal]:
    """What a Pod asks of its node: containers and sidecars together, or its largest first step."""
    spec = pod["spec"]
    stated = (spec.get("resources") or {}).get("requests")
    running: dict[str, Decimal] = {}
    peak: dict[str, Decimal] = {}
    for container in spec.get("initContainers") or ():
        asked = _asked(container)
        if container.get("restartPolicy") == "Always":
            _add(running, asked)
            asked = {}
        for name, amount in asked.items():
            together = amount + running.get(name, Decimal(0))
            peak[name] = max(peak.get(name, Decimal(0)), together)
    for container in spec.get("containers") or ():
        _add(running, _asked(container))
    none = Decimal(0)
    total = {name: max(running.get(name, none), peak.get(name, none)) for name in {*running, *peak}}
    for name, amount in (stated or {}).items():
        total[name] = quantity(amount)
    for name, amount in (spec.get("overhead") or {}).items():
        total[name] = total.get(name, Decimal(0)) + quantity(amount)
    return total


def _asked(container: Mapping[str, Any]) -> dict[str, Decimal]:
    resources = container.get("resources") or {}
    stated = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: quantity(amount) for name, amount in stated.items()}


def _add(total: dict[str, Decimal], asked: Mapping[str, Decimal]) -> None:
    for name, amount in asked.items():
        total[name] = total.get(name, Decimal(0)) + amount
