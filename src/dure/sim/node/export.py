"""A container comparison as plain data: every figure, ready for JSON."""

from dataclasses import asdict
from typing import Any

from dure.sim.figures import finite
from dure.sim.node.compare import Comparison
from dure.sim.node.results import NodeResult

SCHEMA = 1
"""Raised when a field changes its meaning or goes."""


def comparison_data(comparison: Comparison) -> dict[str, Any]:
    """Everything that was found; what could not be measured is None, never NaN."""
    scenario = comparison.scenario
    data = {
        "schema": SCHEMA,
        "simulated": True,
        "title": scenario.title,
        "seed": scenario.seed,
        "gpus": len(scenario.setting.gpus),
        "memory_bytes": scenario.setting.gpus[0].memory_bytes,
        "alone": [
            {"name": each.name, "completion_s": each.completion_s, "p95_ms": each.p95_ms}
            for each in comparison.alone
        ],
        "modes": [_mode(comparison, result) for result in comparison.results],
    }
    plain: dict[str, Any] = finite(data)
    return plain


def _mode(comparison: Comparison, result: NodeResult) -> dict[str, Any]:
    data = asdict(result)
    for index, container in enumerate(data["containers"]):
        container["slowdown"] = comparison.slowdown(result, index)
    return data
