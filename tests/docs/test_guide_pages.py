"""The guide: its ten pages, their pictures, and every example in them, run."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml

from dure.agent.http import _Api
from dure.client.fleet.config import SERVER_VARIABLE, TOKEN_VARIABLE
from dure.client.places import RUN_DIR_VARIABLE
from dure.client.schema import TenantSpec
from dure.domain.ids import TenantId
from dure.domain.tenant import Tenant
from dure.kernel.machine import KernelMachine, MachineSettings
from dure.kernel.policies import registry
from dure.sim.kernel.scenario import read_scenario
from tests.agent.conftest import Bench, bench
from tests.docs.commands import ROOT
from tests.kernel.factories import H200, service, tick, working
from tests.server.rest.centre import Centre

__all__ = ["bench"]

GUIDE = ROOT / "docs" / "guide"
NAV = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
TEN = [path for each in NAV[1]["Guide"] for path in each.values()]
MOST_LINES = 200
"""Of a page: they are short."""
MOST_PICTURE_BYTES = 25_000
MOST_RUN_S = 300
"""Generous: an example takes seconds on an idle machine."""


def text_of(name: str) -> str:
    return (GUIDE / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text_of(name), flags=re.DOTALL | re.MULTILINE)


def test_the_ten_pages_come_first_and_are_short() -> None:
    assert [Path(path).stem for path in TEN] == [
        "install",
        "first-tenant",
        "containers",
        "fleet",
        "policies",
        "tuning",
        "troubleshooting",
        "metrics",
        "api",
        "add-a-policy",
    ]
    for path in TEN:
        lines = (ROOT / "docs" / path).read_text(encoding="utf-8").splitlines()
        assert 30 < len(lines) < MOST_LINES, path


def test_the_site_is_built_without_a_broken_link_or_a_page_that_is_left_out(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-m", "properdocs", "build", "--strict", "--quiet"]
    done = subprocess.run(
        [*command, "-f", "mkdocs.yml", "-d", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=MOST_RUN_S,
    )
    assert done.returncode == 0, done.stderr
    made = {path.relative_to(tmp_path / "site").as_posix() for path in tmp_path.rglob("*.html")}
    assert {path.replace(".md", ".html") for path in TEN} <= made
    decisions = {f"adr/{path.stem}.html" for path in (ROOT / "docs" / "adr").glob("0*.md")}
    assert decisions <= made
    page = (tmp_path / "site" / "guide" / "gpu.html").read_text(encoding="utf-8")
    assert "examples/tenants</code>" in page, "a link out of the pages becomes a name"
    assert not re.search(r'(src|<link[^>]*href)="(https?:)?//', page), "pages work offline"


@pytest.mark.parametrize("name", ["mps", *registry.POLICIES])
def test_every_policy_has_a_picture_that_is_small_and_tells_who_is_who(name: str) -> None:
    path = GUIDE / "pictures" / f"policy-{name}.svg"
    assert f"(pictures/{path.name})" in text_of("policies.md")
    assert path.stat().st_size < MOST_PICTURE_BYTES
    words = " ".join(ET.parse(path).getroot().itertext())
    scenario = read_scenario(ROOT / "examples" / "scenarios" / "policies.yaml")
    for load in scenario.setting.loads:
        assert f"{load.tenant.id}:" in words


def test_the_policy_of_the_page_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = blocks("add-a-policy.md", "python")
    made: dict[str, Any] = {"__name__": "fifo"}
    exec(compile(code, "add-a-policy.md", "exec"), made)
    monkeypatch.setitem(registry.POLICIES, "fifo", made["FifoPolicy"])
    machine = KernelMachine(MachineSettings(H200, "fifo", side_by_side=True, validate=True))
    from dure.domain.events import TenantJoined

    for number, tenant in enumerate((Tenant(TenantId("a")), service("web"), Tenant(TenantId("b")))):
        machine.handle(TenantJoined(number, tenant))
    for number in range(1, 40):
        tick(machine, number, working("a", 0.5), working("b", 0.5))
    assert machine.plan is not None
    assert machine.plan.policy == "fifo"
    assert machine.plan.protected == ("web",)
    appraisal = machine.policy.appraise(tuple(machine.tracks.values()), 10**9)
    assert appraisal.order == ("web", "a", "b")


def test_every_address_of_the_agent_in_the_table_is_one_and_all_of_reading_are_there() -> None:
    routes: set[tuple[str, str]] = set()
    for each in object.__new__(_Api).routes(trusted=True):
        methods = getattr(each, "methods", None) or {"GET"}
        routes |= {(method, each.path) for method in methods - {"HEAD"}}
    table = text_of("api.md").partition("| agent | |")[2].partition("\n\n")[0]
    told = {
        (method, path)
        for cell in re.findall(r"`([A-Z][^`]*)`(?:, |(?= \|))", table)
        for method, path in re.findall(r"([A-Z]+) (/\S+)", cell)
    }
    assert len(told) > 15
    assert told <= routes
    reading = {path for method, path in routes if method == "GET" and path.startswith("/v1/")}
    assert reading <= {path for _, path in told}


def test_the_examples_for_programs_run(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    reports, of_agent, _ = blocks("api.md", "python")
    (first_report,) = blocks("first-tenant.md", "python")
    for code in (reports, first_report):
        exec(compile(code, "guide", "exec"), {})
    client = bench.start_agent()
    client.declare("web", TenantSpec(keep=True))
    monkeypatch.setenv(RUN_DIR_VARIABLE, str(bench.folder))
    exec(compile(of_agent, "api.md", "exec"), {})
    assert client.tenants()[0].spec.weight == 2.0


def test_the_example_for_the_centre_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    *_, of_centre = blocks("api.md", "python")
    with Centre(f"sqlite:///{tmp_path / 'state.db'}") as centre:
        monkeypatch.setenv(SERVER_VARIABLE, centre.url)
        monkeypatch.setenv(TOKEN_VARIABLE, centre.secrets["admin"])
        exec(compile(of_centre, "api.md", "exec"), {})


CONSOLES = [
    (path.name, number)
    for path in sorted(GUIDE.glob("*.md"))
    for number in range(len(blocks(path.name, "console")))
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number"), CONSOLES)
def test_what_a_page_types_works_and_prints_what_it_shows(
    name: str, number: int, tmp_path: Path
) -> None:
    block = re.sub(r"\\\n *", "", blocks(name, "console")[number])
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    commands = [part.partition("\n") for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    script = "\n".join(["set -eu", *(f"echo @@\n{command}" for command, _, _ in commands)])
    done = subprocess.run(
        ["bash", "-c", f"export PATH={ROOT / '.venv' / 'bin'}:$PATH\n{script}"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=MOST_RUN_S,
    )
    _end_what_is_left(tmp_path)
    assert done.returncode == 0, done.stdout
    printed = done.stdout.split("@@\n")[1:]
    for (command, _, shown), real in zip(commands, printed, strict=True):
        for part in re.split(r"…|\n", shown):
            assert part.strip() in " ".join(real.split()), f"{command}: {real}"


def _end_what_is_left(folder: Path) -> None:
    """A broker of the emulator, or an agent where an example failed: they know the folder."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"={folder}/".encode() in (process / "environ").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)
