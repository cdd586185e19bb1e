import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dure.agent import spawn as start
from dure.cli.run import environment_with
from dure.client.api import AgentUnreachableError, find_agent
from tests.cli.agents import WEB, CannedAgent, agent_status
from tests.cli.conftest import Dure

TRUE = shutil.which("true") or "/bin/true"


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """No agent is running and none can be started."""

    def refuse() -> None:
        raise AgentUnreachableError("no GPU was found", "run `dure doctor`")

    monkeypatch.setattr(start, "ensure_agent", refuse)


@pytest.fixture
def declaring(agent: CannedAgent, monkeypatch: pytest.MonkeyPatch) -> CannedAgent:
    """An agent that takes any tenant of the tests."""
    monkeypatch.setattr(start, "ensure_agent", find_agent)
    for name in ("web", "sh", "sh-2", "true", "new"):
        environment = {"DURE_TENANT": name, "DURE_SOCKET": "/nowhere/shim.sock"}
        answer = {"name": name, "gpu": None, "environment": environment}
        agent.says("PUT", f"/v1/tenants/{name}", answer)
    return agent


def sent(agent: CannedAgent) -> list[tuple[str, dict[str, object]]]:
    return [(path, body) for method, path, body in agent.asked if method == "PUT"]


@pytest.mark.usefixtures("nobody")
class TestWithoutAnAgent:
    def test_the_program_runs_after_one_sentence(self, dure: Dure) -> None:
        code, out, err = dure("run", "--", "sh", "-c", "echo hello; exit 7")
        assert (code, out) == (7, "hello\n")
        assert err == "dure: no GPU was found; the program runs without Dure (run `dure doctor`)\n"

    def test_require_refuses_instead(self, dure: Dure) -> None:
        code, out, err = dure("run", "--require", "--", "sh", "-c", "echo hello")
        assert (code, out) == (1, "")
        assert err == "no GPU was found; run `dure doctor`\n"

    def test_a_program_that_is_not_there_exits_127_before_anything_else(self, dure: Dure) -> None:
        code, out, err = dure("run", "--", "no-such-program")
        assert (code, out) == (127, "")
        assert err == "no program 'no-such-program' was found; check its name and PATH\n"

    @pytest.mark.parametrize(
        ("options", "sentence"),
        [
            (["--latency-slo", "10us"], "--latency-slo: no GPU answers within 10 µs; "),
            (["--memory-limit", "lots"], "--memory-limit: 'lots' is not a size; "),
            (["--tenant", "a b"], "--tenant: 'a b' cannot name a tenant; "),
            (["--best-effort", "--class", "guaranteed"], "--best-effort: the class cannot be "),
            (["--best-effort", "--latency-slo", "20ms"], "nothing can be promised to a best-eff"),
        ],
    )
    def test_bad_input_is_one_sentence_and_nothing_runs(
        self, dure: Dure, options: list[str], sentence: str
    ) -> None:
        code, out, err = dure("run", *options, "--", "sh", "-c", "echo hello")
        assert (code, out) == (2, "")
        assert err.startswith(sentence)
        assert err.count("\n") == 1


def test_the_program_gets_the_tenants_environment_and_its_own_options(
    dure: Dure, declaring: CannedAgent
) -> None:
    script = 'echo "$DURE_TENANT $1"'
    code, out, _ = dure("run", "--tenant", "new", "sh", "-c", script, "sh", "--tenant")
    assert (code, out) == (0, "new --tenant\n")
    ((path, body),) = sent(declaring)
    assert path == "/v1/tenants/new"
    assert body["command"] == ["sh", "-c", script, "sh", "--tenant"]


def test_what_was_said_of_a_tenant_that_is_there_holds_unless_stated_anew(
    dure: Dure, declaring: CannedAgent
) -> None:
    dure("run", "--tenant", "web", "--weight", "3", "--", TRUE)
    ((_, body),) = sent(declaring)
    assert body["weight"] == 3.0
    assert body["class"] == WEB["spec"]["class"]
    assert body["memory_limit_bytes"] == WEB["spec"]["memory_limit_bytes"]


def test_a_tenant_nobody_named_gets_a_name_of_its_own(dure: Dure, declaring: CannedAgent) -> None:
    status = agent_status(tenants=[{**WEB, "name": "sh"}])
    declaring.says("GET", "/v1/tenants", {"tenants": status.model_dump(by_alias=True)["tenants"]})
    dure("run", "--", "sh", "-c", "true")
    assert [path for path, _ in sent(declaring)] == ["/v1/tenants/sh-2"]


def test_what_the_agent_refuses_is_not_run(dure: Dure, declaring: CannedAgent) -> None:
    refusal = {"error": "tenant 'new' reserves 500 GiB", "remedy": "lower its reserve"}
    declaring.says("PUT", "/v1/tenants/new", refusal, 422)
    code, out, err = dure("run", "--tenant", "new", "--", "sh", "-c", "echo hello")
    assert (code, out, err) == (2, "", "tenant 'new' reserves 500 GiB; lower its reserve\n")


def test_an_agent_that_fails_does_not_keep_the_program_from_running(
    dure: Dure, declaring: CannedAgent
) -> None:
    declaring.says("PUT", "/v1/tenants/new", {"error": "broken", "remedy": ""}, 500)
    code, out, err = dure("run", "--tenant", "new", "--", "sh", "-c", "echo hello")
    assert (code, out, err) == (0, "hello\n", "dure: broken; the program runs without Dure\n")


def test_a_program_that_never_used_the_gpu_is_told_at_its_end(
    dure: Dure, declaring: CannedAgent
) -> None:
    unused = {**WEB, "name": "new", "clients": []}
    declaring.says("GET", "/v1/status", agent_status(tenants=[unused]))
    code, _, err = dure("run", "--tenant", "new", "--", TRUE)
    assert (code, err) == (0, f"dure: '{TRUE}' did not use the GPU under Dure\n")
    code, _, err = dure("run", "--quiet", "--tenant", "new", "--", TRUE)
    assert (code, err) == (0, "")


def test_other_preloaded_libraries_and_folders_stay() -> None:
    added = {"LD_PRELOAD": "/d/libdure.so", "LD_LIBRARY_PATH": "/d/emulator"}
    plain = environment_with(added, {"A": "b"})
    assert plain == {**added, "A": "b"}
    own = {"LD_PRELOAD": "libasan.so /x/libtimer.so", "LD_LIBRARY_PATH": "/usr/local/lib"}
    both = environment_with(added, own)
    assert both["LD_PRELOAD"] == "libasan.so:/x/libtimer.so:/d/libdure.so"
    assert both["LD_LIBRARY_PATH"] == "/d/emulator:/usr/local/lib"
    assert environment_with(added, both) == both


def test_where_no_agent_can_be_started_the_program_runs_and_gets_its_signals(
    no_agent: Path,
) -> None:
    (no_agent / "file").touch()
    ready = "import time; print('ready', flush=True); time.sleep(600)"
    environment = {**os.environ, "DURE_RUN_DIR": str(no_agent / "file" / "run")}
    dure = [sys.executable, "-c", "from dure.cli.main import main; main()"]
    command = [*dure, "run", "--", sys.executable, "-c", ready]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
        assert process.stderr is not None
        said = process.stderr.read()
    assert said.startswith("dure: the agent does not start (")
    assert "the program runs without Dure" in said
    assert said.count("\n") == 1
