import json
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from dure.cli import doctor_checks
from dure.cli.doctor_checks import (
    check_agent,
    check_driver,
    check_environment,
    check_gpus,
    check_green,
    check_modes,
    check_mps,
    check_nvml,
    check_others,
    check_risk,
    check_run_dir,
    check_shim,
    probe,
)
from dure.cli.findings import Finding
from dure.devices import library
from tests.cli.agents import CannedAgent, agent_status
from tests.cli.conftest import Dure

H200: dict[str, Any] = {
    "library": "/usr/lib/libcuda.so.580",
    "init": 0,
    "version": "13.0",
    "devices": [{"index": 0, "name": "NVIDIA H200", "sms": 132, "capability": [9, 0]}],
    "green": {"works": True},
}
GPU: dict[str, Any] = {
    "index": 0,
    "memory_bytes": 141 * 2**30,
    "compute_mode": "default",
    "persistence": 1,
    "mig": 0,
    "processes": [],
}


def levels(findings: Iterable[Finding]) -> list[str]:
    return [finding.level for finding in findings]


def only(findings: Iterable[Finding]) -> Finding:
    (finding,) = findings
    return finding


@pytest.mark.parametrize(
    ("answer", "level", "words"),
    [
        (H200, "ok", "CUDA 13.0 at /usr/lib/libcuda.so.580"),
        ({**H200, "library": "/x/lib/emulator/libcuda.so.1"}, "ok", "Dure's emulator"),
        ({"missing": "no such file"}, "fail", "libcuda.so.1 was not found"),
        ({"crashed": "was ended by SIGSEGV"}, "fail", "loads the CUDA driver was ended by SIGSEGV"),
        ({**H200, "init": 803}, "fail", "does not start (error 803)"),
    ],
)
def test_the_driver_is_judged_by_what_it_answered(
    answer: dict[str, Any], level: str, words: str
) -> None:
    finding = only(check_driver(answer))
    assert finding.level == level
    assert words in finding.what
    assert bool(finding.remedy) == (level == "fail")


def test_every_gpu_is_named_with_its_size() -> None:
    finding = only(check_gpus(H200, {"gpus": [GPU]}))
    assert finding.what == "NVIDIA H200, 132 SMs, compute capability 9.0, 141 GiB"
    assert only(check_gpus({**H200, "devices": []}, {})).level == "fail"


def test_modes_that_forbid_sharing_are_found_with_the_command_that_ends_them() -> None:
    assert levels(check_modes(GPU, "isolated")) == []
    exclusive = {**GPU, "compute_mode": "exclusive-process"}
    assert "nvidia-smi -i 0 -c DEFAULT" in only(check_modes(exclusive, "isolated")).remedy
    assert levels(check_modes(exclusive, "mps")) == []
    assert levels(check_modes({**GPU, "compute_mode": "prohibited"}, "mps")) == ["fail"]
    assert levels(check_modes({**GPU, "mig": 1, "persistence": 0}, "isolated")) == ["warn", "warn"]


def test_green_contexts_that_fail_name_the_step() -> None:
    assert only(check_green(H200)).level == "ok"
    broken = {"works": False, "step": "cuGreenCtxCreate", "code": 801}
    finding = only(check_green({**H200, "green": broken}))
    assert finding.level == "warn"
    assert "cuGreenCtxCreate failed (error 801)" in finding.what
    assert list(check_green({"missing": "x"})) == []


def test_mps_is_needed_only_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert only(check_mps(H200, in_use=False)).level == "warn"
    assert only(check_mps(H200, in_use=True)).level == "fail"


def test_a_shim_that_was_not_built_or_is_no_library_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    finding = only(check_shim())
    assert finding.level == "fail"
    assert "native/build.py" in finding.remedy
    (tmp_path / "libdure.so").write_text("no library")
    finding = only(check_shim())
    assert finding.level == "fail"
    assert "does not load" in finding.what


def test_a_run_folder_of_somebody_else_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert only(check_run_dir()).level == "ok"
    monkeypatch.setenv("DURE_RUN_DIR", str(tmp_path / "new"))
    assert "will be made" in only(check_run_dir()).what
    monkeypatch.setenv("DURE_RUN_DIR", str(tmp_path))
    if os.getuid() == 0:
        os.chown(tmp_path, 4141, -1)
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    assert "who could pose as your agent" in only(check_run_dir()).what


def test_a_missing_agent_is_no_failure_and_another_version_is_named(agent: CannedAgent) -> None:
    status, findings = check_agent()
    assert status is not None
    assert levels(findings) == ["warn"]  # the canned one is of version 0.0.0
    assert "restart it" in findings[0].remedy
    agent.close()
    agent.path.unlink()
    status, findings = check_agent()
    assert status is None
    assert levels(findings) == ["warn"]
    assert "`dure run` starts one" in findings[0].what


def test_programs_that_are_not_managed_are_named() -> None:
    assert "python (5005)" in only(check_others({}, agent_status())).what
    assert "pid 12" in only(check_others({"gpus": [{**GPU, "processes": [12]}]}, None)).what
    assert only(check_others({"gpus": [GPU]}, None)).level == "ok"


def test_the_risk_of_the_sharing_mode_is_said() -> None:
    isolated, mps = only(check_risk("isolated")), only(check_risk("mps"))
    assert (isolated.level, mps.level) == ("ok", "warn")
    assert "harms nobody else" in isolated.what
    assert "SIGKILL" in mps.what
    assert "SIGINT or SIGTERM" in mps.remedy


def test_variables_that_confine_or_slow_programs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50")
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    assert levels(check_environment()) == ["warn", "warn"]


def test_a_driver_that_kills_its_process_does_not_kill_the_doctor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    assert probe("cuda") == {"crashed": "failed (exit code 1)"}


def test_nvml_that_is_missing_fails() -> None:
    assert only(check_nvml({"missing": "not found"})).level == "fail"
    assert only(check_nvml({"driver": "580.1", "gpus": []})).what == "driver 580.1"


def test_the_exit_code_and_json_follow_the_findings(
    dure: Dure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_checks, "examine", lambda: [Finding("ok", "driver", "fine")])
    code, out, _ = dure("doctor")
    assert code == 0
    assert "Programs can be tenants here" in out
    bad = Finding("fail", "shim", "not built", "build it")
    monkeypatch.setattr(doctor_checks, "examine", lambda: [bad])
    code, out, _ = dure("doctor", "--json")
    assert code == 1
    assert json.loads(out) == {"ok": False, "findings": [bad.data()]}


def test_on_any_machine_the_doctor_ends_with_an_answer(dure: Dure) -> None:
    code, out, err = dure("doctor", "--json")
    answer = json.loads(out)
    assert code == (0 if answer["ok"] else 1)
    assert err == ""
    assert {"driver", "nvml", "mps", "shim", "run folder", "agent", "risk"} <= {
        finding["subject"] for finding in answer["findings"]
    }
