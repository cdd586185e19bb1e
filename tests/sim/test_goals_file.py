from pathlib import Path

import pytest

from dure.domain.errors import InputError
from dure.domain.ids import TenantId
from dure.domain.tenant import (
    AvailabilitySlo,
    Goal,
    LatencySlo,
    MemoryClaim,
    Slo,
    TenantClass,
    ThroughputSlo,
)
from dure.domain.units import GIB, NS_PER_MS, NS_PER_S
from dure.kernel.goals import Goals, Objective, TenantGoal
from dure.sim.goals_file import read_goals

FULL = """\
objective: Most useful  work
tenants:
  web:   {latency: p99.9 <= 20ms, importance: high}
  api:   {throughput: 100/s, availability: 99.9%}
  train: {deadline: 2h, expect: 90min, weight: 2, goal: finish soon}
  batch: {floor: 10%, importance: low, memory: {limit: 20GiB, reserve: 5GiB}}
fairness: 0.3
starvation: 2s
"""


def read(tmp_path: Path, text: str) -> Goals:
    path = tmp_path / "goals.yaml"
    path.write_text(text, encoding="utf-8")
    return read_goals(path)


def test_every_field_is_understood(tmp_path: Path) -> None:
    goals = read(tmp_path, FULL)
    assert goals == Goals(
        tenants=(
            TenantGoal(
                TenantId("web"),
                slo=Slo(latency=LatencySlo(20 * NS_PER_MS, 99.9)),
                tenant_class=TenantClass.GUARANTEED,
            ),
            TenantGoal(
                TenantId("api"),
                slo=Slo(
                    throughput=ThroughputSlo(100.0),
                    availability=AvailabilitySlo(99.9 / 100),
                ),
            ),
            TenantGoal(
                TenantId("train"),
                goal=Goal.FINISH,
                weight=2.0,
                expected_ns=5400 * NS_PER_S,
                deadline_ns=7200 * NS_PER_S,
            ),
            TenantGoal(
                TenantId("batch"),
                tenant_class=TenantClass.BEST_EFFORT,
                floor_share=0.1,
                memory=MemoryClaim(20 * GIB, 5 * GIB),
            ),
        ),
        objective=Objective.WORK,
        fairness=0.3,
        starvation_ns=2 * NS_PER_S,
        file=str(tmp_path / "goals.yaml"),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20ms", LatencySlo(20 * NS_PER_MS)),
        ("p95 < 1.5s", LatencySlo(1500 * NS_PER_MS, 95.0)),
        ("p50 within 3 ms", LatencySlo(3 * NS_PER_MS, 50.0)),
    ],
)
def test_a_latency_may_be_said_in_several_ways(
    tmp_path: Path, text: str, expected: LatencySlo
) -> None:
    goals = read(tmp_path, f"tenants: {{web: {{latency: {text}}}}}")
    assert goals.tenants[0].slo.latency == expected


@pytest.mark.parametrize("text", ["100/s", "'>= 100/s'", "at least 100 per second", "100"])
def test_a_throughput_may_be_said_in_several_ways(tmp_path: Path, text: str) -> None:
    goals = read(tmp_path, f"tenants: {{web: {{throughput: {text}}}}}")
    assert goals.tenants[0].slo.throughput == ThroughputSlo(100.0)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("objective: win", "objective"),
        ("objective: 3", "objective"),
        ("fairness: 1.5", "fairness"),
        ("fairness: -1", "fairness"),
        ("fairness: .nan", "fairness"),
        ("fairness: 150%", "fairness"),
        (f"fairness: 1{'0' * 400}", "fairness"),
        ("starvation: 0s", "starvation"),
        ("starvation: 5", "starvation"),
        ("nonsense: 1", "nonsense"),
        ("tenants: {web: {speed: 1}}", "tenants.web.speed"),
        ("tenants: {web: {weight: 0}}", "tenants.web.weight"),
        ("tenants: {web: {weight: .inf}}", "tenants.web.weight"),
        ("tenants: {web: {weight: heavy}}", "tenants.web.weight"),
        ("tenants: {web: {latency: fast}}", "tenants.web.latency"),
        ("tenants: {web: {latency: 20}}", "tenants.web.latency"),
        ("tenants: {web: {latency: p100 <= 1ms}}", "tenants.web.latency"),
        ("tenants: {web: {latency: p99 <= 0ms}}", "tenants.web.latency"),
        ("tenants: {web: {throughput: 0}}", "tenants.web.throughput"),
        ("tenants: {web: {throughput: -5/s}}", "tenants.web.throughput"),
        (f"tenants: {{web: {{throughput: 1{'0' * 400}}}}}", "tenants.web.throughput"),
        ("tenants: {web: {availability: 0%}}", "tenants.web.availability"),
        ("tenants: {web: {floor: lots}}", "tenants.web.floor"),
        ("tenants: {web: {floor: true}}", "tenants.web.floor"),
        ("tenants: {web: {deadline: -2h}}", "tenants.web.deadline"),
        ("tenants: {web: {importance: vital}}", "tenants.web.importance"),
        ("tenants: {web: {memory: {limit: 3}}}", "tenants.web.memory.limit"),
        ("tenants: [web]", "tenants"),
    ],
)
def test_what_cannot_be_used_is_one_sentence_with_file_field_and_remedy(
    tmp_path: Path, text: str, field: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert caught.value.field == field
    assert "goals.yaml, line 1" in caught.value.file
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: there is no such file"):
        read_goals(tmp_path / "none.yaml")
