"""The charts by their files alone: values, their schema, rights, commands. No helm is needed."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

import dure
from dure.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
CHARTS = ROOT / "deploy" / "helm"
NAMES = ("dure-server", "dure-member")
MANIFESTS = ROOT / "deploy" / "kubernetes"


def load(chart: str, name: str) -> Any:
    return yaml.safe_load((CHARTS / chart / name).read_text(encoding="utf-8"))


def manifest_rules() -> dict[str, Any]:
    """Rules of the manifests, by what the chart calls them."""
    names = {
        ("ClusterRole", "dure-member"): "cluster",
        ("ClusterRole", "dure-member-tenant"): "tenant",
        ("Role", "dure-member"): "own",
        ("ClusterRole", "dure-member-partitioner"): "partitioner",
        ("ClusterRole", "dure-member-door"): "door",
        ("ClusterRole", "dure-member-routes"): "routes",
        ("ClusterRole", "dure-jobs-edit"): "peopleEdit",
        ("ClusterRole", "dure-jobs-view"): "peopleView",
        ("ClusterRole", "dure-member-virtual"): "virtual",
        ("ClusterRole", "dure-virtual-tenant"): "virtualTenant",
    }
    found = {}
    for file in MANIFESTS.glob("*.yaml"):
        for thing in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            if thing and "rules" in thing:
                found[names[thing["kind"], thing["metadata"]["name"]]] = thing["rules"]
    return found


def test_the_chart_gives_the_rights_of_the_manifests_and_no_others() -> None:
    assert load("dure-member", "files/rights.yaml") == manifest_rules()


@pytest.mark.parametrize("chart", NAMES)
def test_a_chart_has_the_version_of_the_package(chart: str) -> None:
    described = load(chart, "Chart.yaml")
    assert (described["version"], described["appVersion"]) == (dure.__version__, dure.__version__)


def leaves(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Every value that a schema knows by name."""
    if "$ref" in schema:
        schema = whole["definitions"][schema["$ref"].rpartition("/")[2]]
    properties = schema.get("properties")
    if properties is None:
        yield ()
        return
    assert schema["additionalProperties"] is False
    for name, inner in properties.items():
        for rest in leaves(inner, whole):
            yield (name, *rest)


def paths(values: Any, known: set[tuple[str, ...]], here: tuple[str, ...] = ()) -> Iterator[Any]:
    if here in known or not isinstance(values, dict):
        yield here
        return
    for name, inner in values.items():
        yield from paths(inner, known, (*here, name))


@pytest.mark.parametrize("chart", NAMES)
def test_values_and_schema_know_the_same_names(chart: str) -> None:
    schema = json.loads((CHARTS / chart / "values.schema.json").read_text(encoding="utf-8"))
    known = set(leaves(schema, schema)) - {("global",)}
    assert set(paths(load(chart, "values.yaml"), known)) == known


@pytest.mark.parametrize("chart", NAMES)
def test_templates_use_values_that_exist(chart: str) -> None:
    values = load(chart, "values.yaml")
    for file in (CHARTS / chart / "templates").iterdir():
        for name in re.findall(r"\.Values\.([A-Za-z.]+)", file.read_text(encoding="utf-8")):
            part = values
            for word in name.rstrip(".").split("."):
                assert word in part, f"{file.name}: {name}"
                part = part[word]


@pytest.mark.parametrize(
    ("chart", "file", "command"),
    [
        ("dure-server", "statefulset.yaml", "server"),
        ("dure-member", "deployment.yaml", "member"),
    ],
)
def test_a_chart_gives_its_program_options_that_exist(chart: str, file: str, command: str) -> None:
    text = (CHARTS / chart / "templates" / file).read_text(encoding="utf-8")
    given = set(re.findall(r"^ +- (--[a-z-]+)", text, flags=re.MULTILINE))
    found = get_command(app).commands[command]  # type: ignore[attr-defined]
    assert given
    assert given <= {word for parameter in found.params for word in parameter.opts}
    variables = set(re.findall(r"name: (DURE_[A-Z]+)", text))
    known = {parameter.envvar for parameter in found.params if parameter.envvar}
    assert variables <= known
