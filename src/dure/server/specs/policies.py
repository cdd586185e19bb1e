"""Stored policies."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dure.api.base import duration_ns, moment_ns
from dure.api.policies import ClassPolicy as ClassPolicySpec
from dure.api.policies import PolicySpec
from dure.domain.fleet.policy import ClassPolicy, FleetPolicy
from dure.domain.fleet.workloads import (
    WorkloadKind,
)
from dure.server.specs.clusters import FLEET_POLICY, fleet_spec
from dure.server.specs.reading import given, read_spec
from dure.stores import rows

_G_PER_KG = 1000.0


def policy_in_force(policies: Sequence[rows.Policy]) -> rows.Policy | None:
    """The stored policy that the planner is to follow; None: the defaults."""
    name = fleet_spec(policies).policy
    return next((row for row in policies if row.name == name and name != FLEET_POLICY), None)


def policy_spec(row: rows.Policy) -> PolicySpec:
    """What an operator said in a policy."""
    return read_spec(PolicySpec, row.spec, f"policy {row.name}")


def policy_of(row: rows.Policy | None) -> FleetPolicy:
    """A policy; what it does not say keeps its default."""
    if row is None:
        return FleetPolicy()
    spec = policy_spec(row)
    default = FleetPolicy()
    changes: dict[str, Any] = {
        name: value for name, value in given(spec).items() if name in _PLAIN_RULES
    }
    for kind in WorkloadKind:
        own: ClassPolicySpec = getattr(spec, kind.value)
        changes[kind.value] = _class_policy(default.of(kind), spec.all_classes, own)
    if spec.carbon_budget_kg is not None:
        changes["carbon_budget_g"] = spec.carbon_budget_kg * _G_PER_KG
    if spec.period is not None:
        changes["period_ns"] = duration_ns(spec.period)
    start_ns = row.created_ns if spec.period_start is None else moment_ns(spec.period_start)
    changes["period_start_ns"] = start_ns
    if spec.reclaim_after is not None:
        never = spec.reclaim_after == "never"
        changes["reclaim_after_ns"] = None if never else duration_ns(spec.reclaim_after)
    congestion = replace(default.congestion, **given(spec.congestion))
    return replace(default, congestion=congestion, **changes)


_PLAIN_RULES = (
    "adapt_latency",
    "adapt_locality",
    "locality",
    "defer",
    "migrate",
    "forecast",
    "most_moves",
    "most_preemptions",
    "local_moves_at_once",
    "local_moves_per_hour",
    "dry_run",
)


def _class_policy(default: ClassPolicy, *parts: ClassPolicySpec) -> ClassPolicy:
    """The default with what the parts say, later ones last."""
    changes: dict[str, Any] = {}
    for part in parts:
        changes |= given(part)
    for name in ("cool_down", "minimum_runtime"):
        if name in changes:
            changes[f"{name}_ns"] = duration_ns(changes.pop(name))
    return replace(default, **changes)
