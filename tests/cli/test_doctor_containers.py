import socket
from collections.abc import Iterable
from pathlib import Path

import pytest

from dure.cli import doctor_containers
from dure.cli.doctor_containers import (
    check_cuda_lock,
    check_docker,
    check_freezer,
    check_watchdog,
)
from dure.cli.findings import Finding


def only(findings: Iterable[Finding]) -> Finding:
    (finding,) = findings
    return finding


def test_no_docker_is_a_warning_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    finding = only(check_docker())
    assert finding.level == "warn"
    assert "containers cannot be managed: there is no Docker at" in finding.what
    assert "DOCKER_HOST" in finding.remedy


@pytest.mark.parametrize(
    ("mounts", "second", "level", "words"),
    [
        (
            "cgroup /sys/fs/cgroup/freezer cgroup rw,relatime,freezer 0 0\n",
            False,
            "ok",
            "version 1",
        ),
        ("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", True, "ok", "version 2"),
        ("cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n", False, "warn", "cannot be paused"),
    ],
)
def test_control_groups_that_freeze_are_looked_for(
    tmp_path: Path, mounts: str, second: bool, level: str, words: str
) -> None:
    (tmp_path / "mounts").write_text(mounts, encoding="utf-8")
    if second:
        (tmp_path / "cgroup.controllers").touch()
    finding = only(check_freezer(tmp_path / "mounts", tmp_path))
    assert (finding.level, words in finding.what) == (level, True)


def test_a_missing_lock_says_what_is_used_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    finding = only(check_cuda_lock())
    if finding.level == "warn":
        assert "containers are paused by Docker" in finding.what
        assert finding.remedy
    else:
        assert "works" in finding.what


def test_a_watchdog_that_answers_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_containers, "_unit_state", lambda: None)
    assert "none runs; an agent" in only(check_watchdog(tmp_path)).what
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / "watchdog.sock"))
        listener.listen(1)
        assert only(check_watchdog(tmp_path)).what == f"runs in {tmp_path}"


def test_a_unit_that_does_not_run_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_containers, "_unit_state", lambda: "failed")
    finding = only(check_watchdog(tmp_path))
    assert finding.level == "warn"
    assert finding.remedy == "systemctl enable --now dure-watchdog.service"
