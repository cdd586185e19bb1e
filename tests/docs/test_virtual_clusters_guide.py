"""The guide to virtual clusters: its documents are taken, its commands and files exist."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import yaml
from typer.main import get_command

from dure.api.base import read_document
from dure.api.virtual import VirtualClusterSpec, VirtualNode
from dure.cli.main import app
from dure.domain.fleet.virtual import SpacePhase, VirtualTier
from dure.virtual.nodes import SHARES
from dure.virtual.translating import HOST_IMAGE, WORK, job_of

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guide" / "virtual-clusters.md").read_text(encoding="utf-8")
COMMAND: Any = get_command(app)
SCOPED, DEDICATED, JOB = re.findall(r"```yaml\n(.*?)```", GUIDE, flags=re.DOTALL)


def test_its_documents_are_taken() -> None:
    scoped = read_document(VirtualClusterSpec, json.dumps(yaml.safe_load(SCOPED)))
    dedicated = read_document(VirtualClusterSpec, json.dumps(yaml.safe_load(DEDICATED)))
    assert (scoped.tier, dedicated.tier) == (VirtualTier.SCOPED, VirtualTier.DEDICATED)
    assert scoped.quota["requests.nvidia.com/gpu"] == "8"


def test_its_job_becomes_one_of_the_fleet_as_it_is() -> None:
    pod = yaml.safe_load(JOB)["spec"]["template"]
    pod["metadata"] = {"name": "train-x", "namespace": "default", "uid": "u"}
    node = VirtualNode(
        pool="gpus",
        profile="h100",
        slice="",
        resource="nvidia.com/gpu",
        capacity=8,
        allocatable=8,
        cpu_milli=1000,
        memory_bytes=1,
        unit_memory_bytes=1,
        shares=[],
    )
    made = job_of(pod, node, "acme-own", "plane")
    assert (made.pool, made.resources.devices, made.command) == ("gpus", 1, ["python", "train.py"])


def test_its_words_are_those_of_the_code() -> None:
    assert all(f"`{phase.value}`" in GUIDE for phase in SpacePhase)
    assert all(f"`{word}`" in GUIDE for word in (SHARES, HOST_IMAGE))
    assert f"`{WORK}:" in GUIDE


def test_commands_options_and_files_exist() -> None:
    for line in re.findall(r"^dure (.*)$", GUIDE, flags=re.MULTILINE):
        group, name, *words = shlex.split(line)
        command = COMMAND.commands[group].commands[name]
        known = {option for each in command.params for option in each.opts}
        assert {word for word in words if word.startswith("--")} <= known, line
    for file in re.findall(r"(?:deploy|tools)/[a-z_./-]+", GUIDE):
        assert (ROOT / file.rstrip(".")).exists(), file
