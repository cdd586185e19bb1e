"""A comparison as plain data: every figure, ready for JSON."""

from dataclasses import asdict, fields
from typing import Any

from dure.domain.risks import Risk
from dure.domain.units import NS_PER_S
from dure.sim.figures import finite
from dure.sim.kernel.compare import Comparison, ModeRun
from dure.sim.kernel.judging import overall
from dure.sim.kernel.results import Alone, TenantResult
from dure.sim.kernel.verdicts import figure_of, promise_kept

SCHEMA = 1
"""Raised when a field changes its meaning or goes."""


MOST_SIGNALS = 100
"""Signals, risks and adaptations of a mode that are listed."""


def comparison_data(comparison: Comparison) -> dict[str, Any]:
    """Everything that was found; what could not be measured is None, never NaN."""
    scenario = comparison.scenario
    setting = scenario.setting
    data = {
        "schema": SCHEMA,
        "simulated": True,
        "title": scenario.title,
        "gpu": setting.accelerator.name,
        "seed": scenario.seed,
        "duration_s": setting.duration_ns / NS_PER_S,
        "drain_s": setting.drain_ns / NS_PER_S,
        "notes": list(comparison.notes),
        "alone": [
            _alone(load.tenant.id, figures)
            for load, figures in zip(setting.loads, comparison.alone, strict=True)
        ],
        "modes": [_mode(run) for run in comparison.runs],
    }
    plain: dict[str, Any] = finite(data)
    return plain


def _alone(name: str, figures: Alone) -> dict[str, Any]:
    return {"name": name, **asdict(figures)}


def _mode(run: ModeRun) -> dict[str, Any]:
    outcome, result = run.outcome, run.result
    data = {field.name: getattr(result, field.name) for field in fields(result)}
    data["policy"] = outcome.mode.policy
    data["switches"] = [
        {"at_s": switch.at_ns / NS_PER_S, "policy": switch.policy, "preview": preview}
        for switch, (_, preview) in zip(outcome.mode.switches, outcome.previews, strict=False)
    ]
    data["signals_raised"] = [
        {"at_s": at_ns / NS_PER_S, "signal": str(signal)}
        for at_ns, signal in outcome.signals[:MOST_SIGNALS]
    ]
    data["risks"] = [
        {"at_s": at_ns / NS_PER_S, **_risk(risk)} for at_ns, risk in outcome.risks[:MOST_SIGNALS]
    ]
    data["adaptations"] = [
        {"at_s": at_ns / NS_PER_S, **asdict(adapted)}
        for at_ns, adapted in outcome.adaptations[:MOST_SIGNALS]
    ]
    data["objective"] = overall(outcome)
    data["advice"] = [
        {
            "at_s": advice.at_ns / NS_PER_S,
            "kind": advice.kind.value,
            "before": str(advice.before),
            "after": str(advice.after),
            "measured": advice.measured,
            "gain": advice.gain,
            "reason": advice.reason,
        }
        for advice in outcome.advice[:MOST_SIGNALS]
    ]
    data["tenants"] = [
        {
            **_tenant(tenant),
            "slo_kept": promise_kept(load, tenant),
            "diverging": diverging,
        }
        for load, tenant, diverging in zip(
            outcome.setting.loads, result.tenants, run.diverging, strict=True
        )
    ]
    return data


def _risk(risk: Risk) -> dict[str, Any]:
    soon_ns = risk.violation_in_ns
    return {
        "tenant": risk.tenant,
        "series": risk.series,
        "kind": risk.kind.value,
        "confidence": risk.confidence,
        "violation_in_s": None if soon_ns is None else soon_ns / NS_PER_S,
        "reason": risk.reason,
    }


def _tenant(result: TenantResult) -> dict[str, Any]:
    values = {field.name: getattr(result, field.name) for field in fields(result)}
    for name, value in values.items():
        if isinstance(value, float):
            values[name] = figure_of(result, name)
    return values
