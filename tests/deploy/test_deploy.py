"""What deploy/ asks systemd and Docker to run exists, and keeps agent and watchdog apart."""

import configparser
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dure.kit.files import read_yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNITS = ("dure-agent", "dure-watchdog")
LIMIT_S = 60.0


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string((DEPLOY / "systemd" / f"{name}.service").read_text(encoding="utf-8"))
    return parser


def services() -> dict[str, Any]:
    found: Any = read_yaml(DEPLOY / "compose.yaml").data["services"]
    return dict(found)


def assert_known(words: list[str]) -> None:
    """The command line takes these words; `--help` runs nothing."""
    script = "from dure.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, *words, "--help"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for word in words:
        if word.startswith("--"):
            assert word in done.stdout


@pytest.mark.parametrize("name", UNITS)
def test_units_run_commands_that_exist(name: str) -> None:
    service = unit(name)["Service"]
    for key in ("ExecStart", "ExecStopPost"):
        if key in service:
            program, *words = shlex.split(service[key])
            assert program == "/usr/local/bin/dure"
            assert_known(words)


def test_the_end_of_the_agent_lets_everything_go() -> None:
    assert unit("dure-agent")["Service"]["ExecStopPost"].endswith("dure node thaw --all")


def test_neither_unit_takes_the_other_along() -> None:
    tied = ("Requires", "BindsTo", "PartOf", "Requisite", "Conflicts")
    for name in UNITS:
        assert not [key for key in tied if key in unit(name)["Unit"]]
    assert unit("dure-agent")["Unit"]["Wants"] == "dure-watchdog.service"


def test_where_the_watchdog_is_a_service_the_agent_starts_none() -> None:
    started = unit("dure-agent")["Service"]["ExecStart"], services()["agent"]["command"]
    assert all("--no-start-watchdog" in line.split() for line in started)
    assert unit("dure-watchdog")["Service"]["ExecStart"].endswith("dure node watchdog")
    assert services()["watchdog"]["command"] == "node watchdog"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_understands_every_line_of_the_units(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("dure")  # systemd looks whether there is one
    assert program.exists()
    for name in UNITS:
        text = (DEPLOY / "systemd" / f"{name}.service").read_text(encoding="utf-8")
        text = text.replace("/usr/local/bin/dure", str(program))
        (tmp_path / f"{name}.service").write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *tmp_path.glob("*.service")],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if "dure-" in line]
    assert (done.returncode, ours) == (0, []), done.stderr


@pytest.mark.parametrize("name", UNITS)
def test_the_journal_outlives_both_units_which_come_back(name: str) -> None:
    service = unit(name)["Service"]
    assert service["RuntimeDirectory"] == "dure"
    assert service["RuntimeDirectoryPreserve"] == "yes"
    assert service["Environment"] == "DURE_RUN_DIR=/run/dure"
    assert service["Restart"] == "always"


def test_the_compose_file_runs_commands_that_exist() -> None:
    assert set(services()) == {"watchdog", "agent", "thaw"}
    for service in services().values():
        assert_known(shlex.split(service["command"]))


@pytest.mark.parametrize("name", ["watchdog", "agent", "thaw"])
def test_its_containers_see_the_host_and_are_never_paused_themselves(name: str) -> None:
    service = services()[name]
    assert service["labels"] == {"dure.exempt": "true"}
    assert (service["pid"], service["cgroup"]) == ("host", "host")
    shown = [volume.split(":")[0] for volume in service["volumes"]]
    assert shown == ["/var/run/docker.sock", "/run/dure", "/sys/fs/cgroup"]


def test_compose_understands_the_file() -> None:
    command = ["docker", "compose"]
    asked = [*command, "version"]
    if shutil.which("docker") is None or subprocess.call(asked, stdout=subprocess.DEVNULL) != 0:
        pytest.skip("there is no `docker compose`")
    done = subprocess.run(
        [*command, "-f", str(DEPLOY / "compose.yaml"), "--profile", "*", "config", "--services"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == set(services())


def test_the_image_is_built_from_the_sources_alone() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {".git", ".venv", "out", "src/dure/devices/lib"} <= set(ignored)
    for needed in ("pyproject.toml", "setup.py", "constraints.txt", "native", "README.md", "src"):
        assert (ROOT / needed).exists()
        assert needed not in ignored


@pytest.mark.parametrize("name", ["ensure_docker", "pack_docker"])
def test_tools_are_programs_a_plain_shell_can_read(name: str) -> None:
    tool = ROOT / "tools" / name
    assert os.access(tool, os.X_OK)
    done = subprocess.run(["sh", "-n", str(tool)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
