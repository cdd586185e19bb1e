"""What cannot be: one clear sentence, the right exit code, and the program runs where safe."""

import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import LIMIT_S, Stage

pytestmark = pytest.mark.slow

REFUSED = 2


@pytest.fixture(scope="module")
def lasting(built: None) -> Iterator[Stage]:
    """One stage whose agent runs, for tests that leave it as it is."""
    folder = Path(tempfile.mkdtemp(prefix="dure-e2e-"))
    stage = Stage(folder)
    try:
        assert stage.dure("run", "--", stage.program, "train", "--count", "1")[0] == 0
        yield stage
    finally:
        stage.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("why", "nobody"), "there is no tenant 'nobody'"),
        (("set", "nobody", "weight=2"), "there is no tenant 'nobody'"),
        (("forget", "nobody"), "there is no tenant 'nobody'"),
        (("end", "nobody"), "there is no tenant 'nobody'"),
        (("set", "nobody", "colour=red"), "colour"),
        (("set", "nobody", "weight"), "weight"),
        (("set", "nobody", "weight=heavy"), "heavy"),
        (("policy", "set", "luck"), "luck"),
        (("policy", "set", "slo", "patience=much"), "much"),
        (("policy", "set", "slo", "charm=1"), "charm"),
        (("policy", "set", "slo", "--gpu", "7"), "there is no GPU '7'"),
        (("policy", "apply", "/no/such/goals.yaml"), "/no/such/goals.yaml"),
    ],
)
def test_commands_refuse_with_one_sentence(
    lasting: Stage, arguments: tuple[str, ...], words: str
) -> None:
    code, out, err = lasting.dure(*arguments)
    assert (code, out, err.count("\n")) == (REFUSED, "", 1), err
    assert words in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--latency-slo", "p99=1us"), "no GPU answers within 1 µs; promise 50 µs or more"),
        (("--latency-slo", "p99=soon"), "soon"),
        (("--latency-slo", "p200=20ms"), "p200"),
        (("--latency-slo", "-5ms"), "-5ms"),
        (("--throughput-slo", "many"), "many"),
        (("--availability-slo", "150%"), "150%"),
        (("--memory-limit", "900GiB"), "900 GiB"),
        (("--memory-reserve", "900GiB"), "900 GiB"),
        (("--memory-limit", "some"), "some"),
        (
            ("--memory-limit", "1GiB", "--memory-reserve", "2GiB"),
            "more memory is reserved than the tenant may take",
        ),
        (("--sm-share", "120%"), "120%"),
        (("--weight", "-1"), "-1"),
        (("--weight", "nan"), "nan"),
        (("--class", "royal"), "royal"),
        (("--goal", "fame"), "fame"),
        (("--expect", "forever"), "forever"),
        (("--copy-limit", "fast"), "fast"),
        (("--gpu", "7"), "there is no GPU '7'"),
        (("--tenant", "../../etc"), "../../etc"),
        (("--tenant", ""), "name"),
        (("--best-effort", "--latency-slo", "p99=20ms"), "best-effort"),
    ],
)
def test_a_wish_nobody_can_keep_runs_nothing(
    lasting: Stage, options: tuple[str, ...], words: str
) -> None:
    code, out, err = lasting.dure("run", *options, "--", "sh", "-c", "echo ran")
    assert (code, out, err.count("\n")) == (REFUSED, "", 1), err
    assert words in err
    assert "Traceback" not in err


def test_a_program_that_cannot_be_run_is_told_apart(lasting: Stage, tmp_path: Path) -> None:
    code, _, err = lasting.dure("run", "--", "no-such-program")
    assert (code, err.count("\n")) == (127, 1)
    plain = tmp_path / "plain"
    plain.write_text("no program\n", encoding="utf-8")
    code, _, err = lasting.dure("run", "--", str(plain))
    assert (code, err.count("\n")) == (126, 1)
    code, _, err = lasting.dure("run", "--", str(tmp_path))
    assert (code, err.count("\n")) == (126, 1)


def test_a_program_without_cuda_runs_and_is_told_about_once(lasting: Stage) -> None:
    code, out, err = lasting.dure("run", "--", "sh", "-c", "echo hello; exit 4")
    assert (code, out) == (4, "hello\n")
    assert err == "dure: 'sh' did not use the GPU under Dure\n"
    assert lasting.dure("run", "--quiet", "--", "sh", "-c", "exit 0") == (0, "", "")


def test_a_second_agent_in_the_folder_is_refused_and_the_first_goes_on(lasting: Stage) -> None:
    pid = lasting.agent_pid()
    code, out, err = lasting.dure("agent")
    assert code != 0
    assert out == ""
    assert err.count("\n") == 1
    assert f"an agent (process {pid}) already runs" in err
    assert lasting.agent_pid() == pid


@pytest.mark.parametrize(
    "arguments", [("top", "--once"), ("tenants",), ("why", "t"), ("policy", "show")]
)
def test_without_an_agent_a_command_says_how_to_start_one(
    stage: Stage, arguments: tuple[str, ...]
) -> None:
    code, out, err = stage.dure(*arguments)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "dure agent" in err or "dure run" in err


def test_sockets_and_files_left_by_a_crash_are_in_nobodys_way(stage: Stage) -> None:
    assert stage.dure("run", "--", stage.program, "train", "--count", "1")[0] == 0
    pid = stage.agent_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    _until_gone(pid)
    for name in ("api.sock", "shim.sock", "agent.pid"):
        assert (stage.run_dir / name).exists(), "a crash leaves them"
    code, _, err = stage.dure("top", "--once")
    assert (code, err.count("\n")) == (1, 1)
    code, out, err = stage.dure("run", "--", stage.program, "train", "--count", "3")
    assert (code, err) == (0, "")
    assert "correct: true" in out
    again = stage.agent_pid()
    assert again not in (None, pid)


def test_an_agent_that_hangs_keeps_no_program_from_running(stage: Stage) -> None:
    assert stage.dure("run", "--", stage.program, "train", "--count", "1")[0] == 0
    pid = stage.agent_pid()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        code, out, err = stage.dure("run", "--", stage.program, "train", "--count", "3")
        took = time.monotonic() - began
    finally:
        os.kill(pid, signal.SIGCONT)
    assert code == 0, err
    assert "correct: true" in out
    assert "runs without Dure" in err
    assert took < LIMIT_S / 2
    assert err.count("\n") == 1, err


def test_a_folder_that_is_no_place_for_sockets_is_one_sentence(stage: Stage) -> None:
    stage.environment["DURE_RUN_DIR"] = "/proc/dure"
    code, out, err = stage.dure("run", "--", "sh", "-c", "echo hello")
    assert (code, out, err.count("\n")) == (0, "hello\n", 1), err
    assert "runs without Dure" in err
    code, out, err = stage.dure("agent")
    assert (code, out, err.count("\n")) == (REFUSED, "", 1), err
    long = stage.run_dir / ("d" * 120)
    stage.environment["DURE_RUN_DIR"] = str(long)
    code, out, err = stage.dure("run", "--", "sh", "-c", "echo hello")
    assert (code, out, err.count("\n")) == (0, "hello\n", 1), err


def test_noise_at_the_agents_sockets_changes_nothing(stage: Stage) -> None:
    assert stage.dure("run", "--", stage.program, "train", "--count", "1")[0] == 0
    pid = stage.agent_pid()
    for number in range(50):
        for name, kind in (("shim.sock", socket.SOCK_SEQPACKET), ("api.sock", socket.SOCK_STREAM)):
            with socket.socket(socket.AF_UNIX, kind) as visitor:
                visitor.connect(str(stage.run_dir / name))
                visitor.send(os.urandom(1 + 17 * number))
    assert stage.dure("run", "--", stage.program, "train", "--count", "3")[0] == 0
    assert stage.agent_pid() == pid


def test_state_that_cannot_be_read_is_put_aside(stage: Stage) -> None:
    stage.run_dir.mkdir()
    (stage.run_dir / "state.json").write_text('{"version": 1, "tenants": 3', encoding="utf-8")
    assert stage.dure("run", "--", stage.program, "train", "--count", "1")[0] == 0
    assert (stage.run_dir / "state.json.unreadable").exists()


def test_without_a_gpu_an_agent_says_so_and_exits(stage: Stage) -> None:
    for name in ("LD_LIBRARY_PATH", "DURE_EMULATOR_DIR"):
        del stage.environment[name]
    if stage.json_findings()["driver"] == "ok":
        pytest.skip("this machine has a GPU")
    code, out, err = stage.dure("agent")
    assert (code != 0, out) == (True, "")
    assert len(err.splitlines()) == 1, err
    assert "Traceback" not in err


def _until_gone(pid: int) -> None:
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        except OSError:
            return
        if stat.rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} is still there")
