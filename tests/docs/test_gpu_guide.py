"""The guide to sharing a GPU names every option and setting there is, and none that is not."""

import re
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from dure.cli.main import app
from dure.cli.wishes import SETTINGS

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guide" / "gpu.md").read_text(encoding="utf-8")

_SHORT = {"--quiet", "-q", "--help", "--best-effort"}
"""What needs no line of its own."""


def options_of(*path: str) -> set[str]:
    command = get_command(app)
    for name in path:
        command = command.commands[name]  # type: ignore[attr-defined]
    return {word for parameter in command.params for word in parameter.opts if word[0] == "-"}


def test_the_table_of_options_is_the_commands() -> None:
    rows = [line for line in GUIDE.splitlines() if line.startswith("| `--")]
    told = {word for row in rows for word in re.findall(r"`(--[a-z-]+)`", row.split("|")[1])}
    assert told == options_of("run") - _SHORT


@pytest.mark.parametrize("line", re.findall(r"^(?:sudo )?dure [a-z].*$", GUIDE, flags=re.MULTILINE))
def test_every_command_of_the_guide_exists(line: str) -> None:
    words = line.removeprefix("sudo ").partition("#")[0].partition(" -- ")[0].split()
    path = [words[1]]
    if path == ["policy"]:
        path.append(words[2])
    known = options_of(*path)
    for word in words:
        if word.startswith("--"):
            assert word in known, line


def test_settings_that_can_be_changed_are_options_of_run() -> None:
    assert {f"--{name}" for name in SETTINGS} - {"--keep"} <= options_of("run")


def test_the_compose_example_is_a_compose_file() -> None:
    example = ROOT / "examples" / "tenants" / "compose.yaml"
    services = yaml.safe_load(example.read_text(encoding="utf-8"))["services"]
    for name, service in services.items():
        assert service["environment"]["DURE_TENANT"] == name
        assert service["environment"]["LD_PRELOAD"] == "/opt/dure/libdure.so"
