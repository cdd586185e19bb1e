"""Pages about the fleet and the README: every example is read by what reads it in production."""

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel
from typer.main import get_command

from dure.api.clusters import ClusterSpec
from dure.api.jobs import POD_FIELDS, JobSpec
from dure.api.money import BudgetSpec, FeedSpec
from dure.api.policies import FleetSpec, PolicySpec
from dure.api.tenancy import PoolSpec, TenantSpec
from dure.cli.centre import documents
from dure.cli.main import app
from dure.domain.fleet.lifecycle import JobPhase
from dure.member.process.nodes import _FIELDS as NODE_FIELDS
from dure.member.process.nodes import read_nodes
from dure.server.oidc_settings import refuse_incomplete
from dure.server.options import read_settings, with_settings
from dure.server.settings import Listening, ServerSettings

ROOT = Path(__file__).resolve().parents[2]
COMMAND: Any = get_command(app)
GUIDE = ROOT / "docs" / "guide"
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (
        ROOT / "README.md",
        GUIDE / "centre.md",
        GUIDE / "fleet.md",
        GUIDE / "fleet-jobs.md",
        GUIDE / "elasticity.md",
        GUIDE / "fleet-clusters.md",
        GUIDE / "fleet-operating.md",
        GUIDE / "fleet-tenancy.md",
        ROOT / "deploy" / "kubernetes" / "README.md",
    )
}
CENTRE = "docs/guide/centre.md"
"""Has tests of its own."""


def page_of(name: str) -> str:
    return PAGES[f"docs/guide/{name}"]


def _server(path: Path) -> None:
    settings = with_settings(ServerSettings(), read_settings(path), str(path))
    if settings.oidc is not None:
        refuse_incomplete(settings.oidc)


def _document(model: type[Any]) -> Callable[[Path], Any]:
    return lambda path: documents(path, model)


READERS: dict[str, Callable[[Path], Any]] = {
    "budget": _document(BudgetSpec),
    "cluster": _document(ClusterSpec),
    "feed": _document(FeedSpec),
    "job": _document(JobSpec),
    "nodes": read_nodes,
    "policy": _document(PolicySpec),
    "pool": _document(PoolSpec),
    "server": _server,
    "settings": _document(FleetSpec),
    "tenant": _document(TenantSpec),
}


_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", flags=re.DOTALL | re.MULTILINE)


def blocks(*languages: str) -> list[tuple[str, str]]:
    return [
        (page, block)
        for page, text in PAGES.items()
        for language, block in _BLOCK.findall(text)
        if page != CENTRE and language in languages
    ]


@pytest.mark.parametrize(("page", "block"), blocks("yaml"))
def test_every_yaml_example_is_read_by_what_reads_it(page: str, block: str, tmp_path: Path) -> None:
    kind = re.match(r"# ([a-z]+)\b", block)
    assert kind is not None, "begin with a comment that says what it is"
    path = tmp_path / "example.yaml"
    path.write_text(block, encoding="utf-8")
    READERS[kind[1]](path)


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "jobs").glob("*.yaml")))
def test_every_job_of_the_examples_is_one(path: Path) -> None:
    assert documents(path, JobSpec)


def test_the_clusters_of_the_examples_are_what_they_say() -> None:
    folder = ROOT / "examples" / "clusters"
    kinds = {name: documents(folder / f"{name}.yaml", ClusterSpec)[0].kind.value
             for name in ("kubernetes", "process")}  # fmt: skip
    assert kinds == {"kubernetes": "kubernetes", "process": "process"}
    assert read_nodes(folder / "nodes.yaml").nodes
    assert {path.stem for path in folder.iterdir()} == {*kinds, "nodes"}


def models(model: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    if model not in seen:
        seen.add(model)
        yield model
        for field in model.model_fields.values():
            yield from _inside(field.annotation, seen)


def _inside(annotation: Any, seen: set[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from models(annotation, seen)
    for argument in get_args(annotation):
        yield from _inside(argument, seen)


def names(*roots: type[BaseModel]) -> list[str]:
    seen: set[type[BaseModel]] = set()
    return sorted(
        {
            field.serialization_alias or field.alias or name
            for root in roots
            for model in models(root, seen)
            for name, field in model.model_fields.items()
        }
    )


@pytest.mark.parametrize("name", names(JobSpec))
def test_every_field_of_a_job_is_on_its_pages(name: str) -> None:
    assert re.search(
        rf"`[^`\n]*\b{name}\b[^`\n]*`", page_of("fleet-jobs.md") + page_of("centre.md")
    )


@pytest.mark.parametrize("name", names(ClusterSpec, FleetSpec, FeedSpec))
def test_every_field_of_clusters_and_fleet_is_on_the_page(name: str) -> None:
    text = page_of("fleet-clusters.md")
    assert f"`{name}`" in text or re.search(rf"(^|\{{){name}: ", text, flags=re.MULTILINE)


@pytest.mark.parametrize("name", names(TenantSpec, PoolSpec, BudgetSpec))
def test_every_field_of_tenants_pools_and_budgets_is_on_the_page(name: str) -> None:
    assert re.search(rf"^{name}: |\{{{name}: ", page_of("fleet-tenancy.md"), flags=re.MULTILINE)


@pytest.mark.parametrize("name", names(PolicySpec))
def test_every_field_of_a_policy_is_known_to_the_pages(name: str) -> None:
    snake = re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", name)
    scenarios = (GUIDE / "fleet-scenarios.md").read_text(encoding="utf-8")
    page = page_of("fleet-clusters.md")
    assert f"`{snake}`" in scenarios or f"`{name}`" in page or f".{name}`" in page


@pytest.mark.parametrize("name", sorted(NODE_FIELDS))
def test_every_field_of_a_node_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in page_of("fleet-clusters.md")


@pytest.mark.parametrize("name", sorted(POD_FIELDS))
def test_every_field_of_a_pod_that_a_job_may_set_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in page_of("fleet-jobs.md")


def test_every_phase_of_a_job_is_on_the_page() -> None:
    assert not [phase for phase in JobPhase if f"`{phase.value}`" not in page_of("fleet-jobs.md")]


def test_every_setting_of_a_server_is_in_the_table_with_its_default() -> None:
    table = page_of("fleet-operating.md").partition("## Settings\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    said: dict[str, str] = {}
    for left, right in rows:
        words, defaults = re.findall(r"`([^`]+)`", left), re.findall(r"`([^`]+)`", right)
        said |= dict(zip(words, defaults or [""] * len(words), strict=True))
    settings = ServerSettings()
    for owner in (settings.listening, settings):
        for each in fields(owner):
            value = getattr(owner, each.name)
            if type(value) in (int, float, str) and each.name not in _NOT_IN_FILES:
                shown = f"{value:g}" if isinstance(value, float) else str(value)
                assert said.pop(each.name.replace("_", "-")) == shown
    assert set(said) == {"rest", "oidc"}


_NOT_IN_FILES = {
    each.name for each in fields(ServerSettings) if each.type is int
}  # whole numbers of a server that `with_settings` does not take
assert not _NOT_IN_FILES & {each.name for each in fields(Listening)}


_COMMAND = re.compile(r"(?:^|[$(;&] |-- )(dure (?!0).*?)(?: +#.*)?$")


def lines() -> list[str]:
    """Every command of Dure's in the pages, with lines that go on joined."""
    found = [
        command
        for _, block in blocks("", "sh")
        for line in re.sub(r"\\\n *", "", block).splitlines()
        for command in _COMMAND.findall(line.strip())
    ]
    return [line for line in found if not line.startswith("dure sim")]


@pytest.mark.parametrize("line", lines())
def test_every_command_exists_with_its_options(line: str) -> None:
    for part in re.split(r" && |\)", line.rstrip("&").replace("…", "")):
        words = shlex.split(part.partition(" > ")[0], posix=False)[1:]
        if not part.startswith("dure"):
            continue
        command = COMMAND
        known: set[str] = set()
        while True:
            known |= {option for each in command.params for option in each.opts}
            rest = [word for word in words if not word.startswith("-")]
            inner = getattr(command, "commands", {})
            following = next((word for word in rest if word in inner), None)
            if following is None:
                break
            words.remove(following)
            command = inner[following]
        assert {word for word in words if word.startswith("--") and word != "--"} <= known


@pytest.mark.parametrize(("page", "target"), [
    (page, target)
    for page, text in PAGES.items()
    for target in re.findall(r"\]\(([^)\s]+)\)", text)
    if not target.startswith("http")
])  # fmt: skip
def test_every_link_leads_somewhere(page: str, target: str) -> None:
    path, _, anchor = target.partition("#")
    file = (ROOT / page).parent / path if path else ROOT / page
    assert file.exists()
    if anchor:
        titles = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
        anchors = [re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles]
        assert anchor in anchors


def test_values_that_helm_is_given_exist() -> None:
    given = re.findall(r"helm install \S+ deploy/helm/(\S+) (.*?)\n(?:```|kubectl)",
                       "".join(PAGES.values()).replace("\\\n", " "), flags=re.DOTALL)  # fmt: skip
    assert {chart for chart, _ in given} == {"dure-member", "dure-server"}
    for chart, rest in given:
        path = ROOT / "deploy" / "helm" / chart / "values.schema.json"
        schema = json.loads(path.read_text(encoding="utf-8"))
        for name in re.findall(r"--set '?([A-Za-z]+)", rest):
            assert name in schema["properties"]


def test_the_certificates_of_the_guide_are_for_their_names(tmp_path: Path) -> None:
    (script,) = [block for page, block in blocks("sh") if page == "docs/guide/fleet-operating.md"]
    subprocess.run(["sh", "-euc", script], cwd=tmp_path, check=True, capture_output=True)
    for name in ("dure.example.com", "server-1", "server-2"):
        done = subprocess.run(
            ["openssl", "verify", "-CAfile", "ca.crt", "-verify_hostname", name, "tls.crt"],
            cwd=tmp_path, check=False, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def test_compose_of_the_centre_runs_commands_that_exist() -> None:
    path = ROOT / "deploy" / "compose" / "centre.yaml"
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    servers = [each for name, each in found["services"].items() if name.startswith("server-")]
    assert len(servers) == 2
    command = COMMAND.commands["server"]
    known = {option for each in command.params for option in each.opts}
    variables = {each.envvar for each in command.params if each.envvar}
    for server in servers:
        program, *words = server["command"].split()
        assert program == "server"
        assert {word for word in words if word.startswith("--")} <= known
        assert {"DURE_DATABASE", "DURE_BUS"} <= set(server["environment"]) & variables
        assert server["read_only"]
        assert server["user"] == "65532:65532"


def test_compose_of_the_centre_has_no_password_of_its_own() -> None:
    text = (ROOT / "deploy" / "compose" / "centre.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"\$\{([A-Z_]+)", text)) == {"POSTGRES_PASSWORD", "NATS_PASSWORD"}
    assert text.count("${") == text.count(":?make .env first}")
