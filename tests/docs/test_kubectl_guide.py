"""The guide to kubectl: its example is a job that the centre takes, its words are the code's."""

import re
import shlex
from pathlib import Path
from typing import Any

import yaml
from typer.main import get_command

from dure.api.crds import CHANGEABLE, KINDS, NOT_SAID
from dure.cli.main import app
from dure.domain.fleet.protocol.wishes import Wish
from dure.member.door import wording
from dure.server.links.wishing import spec_of

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guide" / "kubectl.md").read_text(encoding="utf-8")
COMMAND: Any = get_command(app)


def test_the_example_is_a_job_that_the_centre_takes() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", GUIDE, flags=re.DOTALL)
    thing = yaml.safe_load(text)
    spec = spec_of(Wish("u", 1, "team-vision", thing["metadata"]["name"], thing["spec"]), "acme")
    assert (spec.name, spec.gang.workers) == ("finetune", 8)


def test_columns_phases_and_kinds_are_those_of_the_code() -> None:
    job = next(kind for kind in KINDS if kind.name == "AcceleratorJob")
    shown = ["NAME", *(column.name for column in job.columns if not column.wide)]
    assert re.search(r"^" + r" +".join(shown) + "$", GUIDE, flags=re.MULTILINE)
    phases = {wording.PENDING, wording.REFUSED, wording.SUSPENDED, *wording.ENDS}
    assert all(f"`{phase}`" in GUIDE for phase in phases)
    assert all(f"`{kind.name}`" in GUIDE or kind.name in GUIDE for kind in KINDS)
    assert all(f"`{name}`" in GUIDE for name in (*CHANGEABLE, *NOT_SAID))


def test_commands_and_files_exist() -> None:
    for line in re.findall(r"^dure (.*)$", GUIDE, flags=re.MULTILINE):
        group, name, *_ = shlex.split(line)
        assert name in COMMAND.commands[group].commands
    for file in re.findall(r"deploy/[a-z./-]+", GUIDE):
        assert (ROOT / file.rstrip(".")).exists(), file
