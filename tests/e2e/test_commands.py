"""The commands of level 1 as a person uses them: real agent, real shim, emulated GPU."""

import os
import signal
from typing import Any

import pytest

from tests.e2e.conftest import LIMIT_S, Stage


def launching(tenants: dict[str, Any], *names: str) -> bool:
    return all(name in tenants and tenants[name]["launches_per_s"] > 0 for name in names)


@pytest.mark.slow
def test_a_service_and_a_job_share_a_gpu_and_every_command_sees_them(stage: Stage) -> None:
    promised = ("--class", "guaranteed", "--latency-slo", "p99=20ms", "--memory-limit", "20GiB")
    web = stage.start(
        "run", "--tenant", "web", *promised, "--", stage.program, "serve", "--seconds", "600"
    )
    stage.until_answers()
    train = stage.start(
        "run",
        "--tenant",
        "train",
        "--best-effort",
        "--",
        stage.program,
        "train",
        "--seconds",
        "600",
    )
    stage.until("both to launch", lambda seen: launching(seen, "web", "train"))

    status = stage.json("top", "--once")
    assert {each["name"] for each in status["tenants"]} == {"web", "train"}
    assert status["unmanaged"] == []
    (gpu,) = status["gpus"]
    assert gpu["gated"]
    assert {member["tenant"] for squad in gpu["plan"]["squads"] for member in squad["members"]} == {
        "web",
        "train",
    }
    code, view, _ = stage.dure("top", "--once")
    assert code == 0
    assert "p99≤20ms" in view

    why = stage.json("why", "train")
    assert why["tenant"] == "train"
    assert why["sentences"]
    code, _, err = stage.dure("why", "nobody")
    assert code == 2
    assert err == "there is no tenant 'nobody'; declared: train, web\n"

    changed = stage.json("set", "train", "weight=3", "memory-limit=10GiB")
    assert changed["spec"]["weight"] == 3.0
    code, _, err = stage.dure("set", "train", "memory-reserve=900GiB")
    assert (code, err.count("\n")) == (2, 1)
    kept = stage.until("a look", lambda seen: "train" in seen)["train"]["spec"]
    assert (kept["weight"], kept["memory_limit_bytes"]) == (3.0, 10 * 2**30)

    planned = stage.json("policy", "set", "slo", "--dry-run")
    assert planned["dry_run"] is True
    assert stage.json("policy", "show")["policies"][0]["policy"] == "hybrid"
    stage.json("policy", "set", "slo", "patience=0.1")
    shown = stage.json("policy", "show")["policies"][0]
    assert (shown["policy"], shown["parameters"]["patience"]) == ("slo", 0.1)
    assert launching(stage.until("more launches", lambda seen: launching(seen, "web")), "train")

    train.send_signal(signal.SIGTERM)
    assert train.wait(LIMIT_S) == 128 + signal.SIGTERM
    stage.until("train to be forgotten", lambda seen: "train" not in seen)
    code, out, _ = stage.dure("end", "web")
    assert code == 0
    assert out.startswith("1 process of web was ended")
    assert web.wait(LIMIT_S) == 128 + signal.SIGTERM
    stage.until("web to be forgotten", lambda seen: seen == {})


@pytest.mark.slow
def test_exit_codes_are_the_programs_own(stage: Stage) -> None:
    program = stage.program
    assert stage.dure("run", "--", program, "train", "--count", "3")[0] == 0
    assert stage.dure("run", "--", program, "no-such-thing")[0] == 2
    assert stage.dure("run", "--", program, "crash", "--how", "segfault")[0] == 139
    assert stage.dure("run", "--", program, "crash", "--how", "kill")[0] == 137
    code, _, err = stage.dure("run", "--", "sh", "-c", "exit 9")
    assert (code, err) == (9, "dure: 'sh' did not use the GPU under Dure\n")
    code, _, err = stage.dure("run", "--", "no-such-program")
    assert code == 127
    assert err.startswith("no program 'no-such-program' was found; ")


@pytest.mark.slow
def test_memory_limits_bind_the_tenant_and_what_the_card_has_not_is_refused(stage: Stage) -> None:
    hog = (stage.program, "hog")
    code, out, _ = stage.dure("run", "--tenant", "m", "--memory-limit", "1GiB", "--", *hog)
    assert code == 0
    assert out.startswith(f"got {2**30} bytes of {2**30} free")
    for option in ("--memory-limit", "--memory-reserve"):
        code, out, err = stage.dure("run", "--tenant", "m", option, "900GiB", "--", *hog)
        assert (code, out) == (2, "")
        assert "900 GiB" in err
        assert err.count("\n") == 1
    code, _, err = stage.dure("run", "--gpu", "7", "--", *hog)
    assert code == 2
    assert err.startswith("there is no GPU '7'")


@pytest.mark.slow
def test_processes_of_one_program_are_one_tenant(stage: Stage) -> None:
    both = f"{stage.program} train --seconds 600 & {stage.program} train --seconds 600 & wait"
    run = stage.start("run", "--tenant", "pair", "--", "sh", "-c", both)
    stage.until_answers()
    seen = stage.until(
        "two processes", lambda seen: len(seen.get("pair", {}).get("clients", ())) == 2
    )
    assert list(seen) == ["pair"]
    os.killpg(run.pid, signal.SIGTERM)
    assert run.wait(LIMIT_S) == 128 + signal.SIGTERM
    stage.until("both to be gone", lambda seen: seen == {})


@pytest.mark.slow
@pytest.mark.faults
def test_a_program_outlives_its_agent(stage: Stage) -> None:
    run = stage.start("run", "--tenant", "t", "--", stage.program, "train", "--seconds", "4")
    stage.until_answers()
    stage.until("launches", lambda seen: launching(seen, "t"))
    pid = stage.agent_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    out, _ = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 0
    assert "correct: true" in out


@pytest.mark.slow
def test_the_doctor_is_content_with_the_emulator(stage: Stage) -> None:
    answer = stage.json("doctor")
    levels = {finding["subject"]: finding["level"] for finding in answer["findings"]}
    assert answer["ok"] is True
    for subject in ("driver", "nvml", "gpu 0", "green contexts", "shim", "run folder", "risk"):
        assert levels[subject] == "ok"


@pytest.mark.slow
def test_without_a_gpu_the_program_runs_after_one_sentence(stage: Stage) -> None:
    for name in ("LD_LIBRARY_PATH", "DURE_EMULATOR_DIR"):
        del stage.environment[name]
    if stage.json_findings()["driver"] == "ok":
        pytest.skip("this machine has a GPU")
    code, out, err = stage.dure("run", "--", "sh", "-c", "echo hello; exit 3")
    assert (code, out) == (3, "hello\n")
    assert "the program runs without Dure" in err
    assert err.count("\n") == 1
    code, out, err = stage.dure("run", "--require", "--", "sh", "-c", "echo hello")
    assert (code, out, err.count("\n")) == (1, "", 1)


@pytest.mark.slow
def test_a_container_is_told_paths_that_exist(stage: Stage) -> None:
    stage.dure("run", "--", stage.program, "train", "--count", "1")
    code, out, _ = stage.dure("docker-args", "--tenant", "api")
    assert code == 0
    words = out.split()
    mounts = [words[at + 1] for at, word in enumerate(words) if word == "--volume"]
    assert len(mounts) == 4
    assert all(os.path.exists(mount.split(":")[0]) for mount in mounts)  # noqa: PTH110
    seen = stage.until("the tenant", lambda seen: "api" in seen)
    assert seen["api"]["spec"]["keep"] is True
    assert stage.dure("forget", "api")[:2] == (0, "api is forgotten.\n")
