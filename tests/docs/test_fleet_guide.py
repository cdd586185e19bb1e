"""The guide to fleet scenarios says what the code does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from dure.domain.fleet.catalogue import CATALOGUE
from dure.sim.fleet.scenario import DEFAULT_MODES, read_scenario
from dure.sim.fleet.scenario_file import ScenarioFile

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "fleet-scenarios.md"
SECTIONS = {
    # where each part of a scenario is explained
    "ScenarioFile": "## The file",
    "ClusterPart": "## A cluster",
    "GroupPart": "### Node groups",
    "TariffPart": "### Tariffs",
    "PriceListPart": "### Tariffs",
    "SeriesPart": "### Series",
    "CurvePart": "### Series",
    "TablesPart": "### Series",
    "NetworkPart": "### Network",
    "EgressPart": "### Network",
    "PairPart": "### Network",
    "LatencyPart": "### Network",
    "TenantPart": "## Tenants",
    "TeamPart": "## Tenants",
    "BudgetPart": "## Tenants",
    "PoolPart": "## Tenants",
    "ArtefactPart": "## Tenants",
    "WorkloadPart": "## Workloads",
    "DemandPart": "## Workloads",
    "WorkPart": "## Workloads",
    "GangPart": "## Workloads",
    "ServicePart": "## Workloads",
    "LoadPart": "## Workloads",
    "SlaPart": "## Workloads",
    "SourcePart": "## Sources",
    "PhillyPart": "## Sources",
    "GeneratedJobsPart": "## Sources",
    "JobRulesPart": "## Sources",
    "PolicyPart": "## Policy",
    "ClassPolicyPart": "## Policy",
    "CongestionPart": "## Policy",
    "SwitchPart": "## Policy",
    "LocalPart": "## Policy",
    "FaultPart": "## Faults",
    "NodeFaultPart": "## Faults",
    "ClusterFaultPart": "## Faults",
}


def section(title: str) -> str:
    text = GUIDE.read_text(encoding="utf-8")
    return text.split(f"\n{title}\n", 1)[1].split("\n#", 1)[0]


def parts(model: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    """A document and all documents inside it."""
    if model in seen:
        return
    seen.add(model)
    yield model
    for field in model.model_fields.values():
        yield from inside(field.annotation, seen)


def inside(annotation: Any, seen: set[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from parts(annotation, seen)
    for argument in get_args(annotation):
        yield from inside(argument, seen)


FIELDS = sorted(
    {
        (model.__name__, field.alias or name)
        for model in parts(ScenarioFile, set())
        for name, field in model.model_fields.items()
    }
)


@pytest.mark.parametrize(("document", "field"), FIELDS)
def test_every_field_is_documented_where_it_belongs(document: str, field: str) -> None:
    assert f"`{field}`" in section(SECTIONS[document])


@pytest.mark.parametrize("mode", DEFAULT_MODES)
def test_every_mode_is_documented(mode: str) -> None:
    assert f"`{mode}`" in section("### Modes")


@pytest.mark.parametrize("profile", CATALOGUE)
def test_every_profile_is_documented(profile: str) -> None:
    assert f"`{profile}`" in section("### Node groups")


def test_the_scenario_of_the_guide_works(tmp_path: Path) -> None:
    example = section("## A small one").split("```yaml\n", 1)[1].split("```", 1)[0]
    path = tmp_path / "scenario.yaml"
    path.write_text(example, encoding="utf-8")
    assert read_scenario(path).setting.workloads
