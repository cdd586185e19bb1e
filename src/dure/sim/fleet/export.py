"""A fleet comparison as plain data: every figure, ready for JSON."""

from typing import Any

from dure.domain.units import NS_PER_S
from dure.sim.figures import finite
from dure.sim.fleet.compare import Comparison

SCHEMA = 1
"""Raised when a field changes its meaning or goes."""


def comparison_data(comparison: Comparison) -> dict[str, Any]:
    """Everything that was found; what is not a finite number is None, never NaN."""
    scenario = comparison.scenario
    setting = scenario.setting
    data = {
        "schema": SCHEMA,
        "simulated": True,
        "title": scenario.title,
        "seed": setting.seed,
        "start_s": setting.start_ns // NS_PER_S,
        "duration_s": setting.duration_ns / NS_PER_S,
        "round_s": setting.round_ns / NS_PER_S,
        "currency": setting.fleet.rates.base,
        "clusters": len(setting.fleet.clusters),
        "workloads": len(setting.workloads),
        "notes": list(scenario.notes),
        "modes": [result.to_json() for result in comparison.results],
    }
    plain: dict[str, Any] = finite(data)
    return plain
