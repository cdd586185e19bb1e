"""Policies by name, with their parameters checked."""

import math
from dataclasses import fields

from dure.domain.errors import InputError
from dure.domain.events import PolicyParameters
from dure.kernel.policies.base import Policy
from dure.kernel.policies.hybrid import HybridPolicy
from dure.kernel.policies.jct import JctPolicy
from dure.kernel.policies.slo import SloPolicy

POLICIES: dict[str, type[JctPolicy] | type[SloPolicy] | type[HybridPolicy]] = {
    "jct": JctPolicy,
    "slo": SloPolicy,
    "hybrid": HybridPolicy,
}

_MOST = {"patience": 1_000.0, "starvation_s": 86_400.0}
"""Largest values of parameters that are not shares."""


def make_policy(name: str, parameters: PolicyParameters = ()) -> Policy:
    """A policy by name; raises `InputError` for unknown names and impossible numbers."""
    kind = POLICIES.get(name)
    if kind is None:
        raise InputError(f"'{name}' is not a policy", f"use one of {', '.join(POLICIES)}")
    known = {field.name for field in fields(kind)}
    for key, value in parameters:
        if key not in known:
            raise InputError(
                f"policy '{name}' has no parameter '{key}'", f"use {', '.join(sorted(known))}"
            )
        most = _MOST.get(key, 1.0)
        if not math.isfinite(value) or not 0 <= value <= most:
            raise InputError(
                f"parameter '{key}' of policy '{name}' is {value:g}",
                f"use a number between 0 and {most:g}",
            )
    return kind(**dict(parameters))
