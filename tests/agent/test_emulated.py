"""The agent with the real shim and NVML, on the emulated GPU."""

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from dure.agent.spawn import ensure_agent
from dure.client.api import AgentClient
from dure.client.places import Places
from dure.client.schema import LatencyPromise, PolicyRequest, TenantDeclared, TenantSpec
from dure.devices import library
from tests.agent.conftest import LIMIT_S, wait_for

WEB = TenantSpec(latency_slo=LatencyPromise(target_ns=20_000_000), keep=True)
TRAIN = TenantSpec(tenant_class="best-effort", keep=True)


class Emulated:
    """An emulated GPU with an agent in the background, and programs on it."""

    def __init__(self, folder: Path, sharing: str = "isolated") -> None:
        self.folder = folder
        self.places = Places(folder / "run")
        self.sharing = sharing
        self.environment = {
            **os.environ,
            "DURE_EMULATOR_DIR": str(folder / "emulator"),
            "LD_LIBRARY_PATH": str(library.FOLDER / "emulator"),
            "DURE_LOG": str(folder / "shim.log"),
        }
        (folder / "emulator").mkdir()
        self.programs: list[subprocess.Popen[str]] = []
        self.agent: subprocess.Popen[bytes] | None = None

    def start_agent(self) -> AgentClient:
        command = [sys.executable, "-m", "dure.agent", "--run-dir", str(self.places.run_dir)]
        command += ["--sharing", self.sharing, "--policy", "slo"]
        with (self.folder / "agent.out").open("ab") as log:
            self.agent = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        return ensure_agent_alive(self.places)

    def run(self, declared: TenantDeclared, *arguments: str) -> "subprocess.Popen[str]":
        command = [str(library.path("dure-tenant")), *arguments]
        program = subprocess.Popen(
            command,
            env={**self.environment, **declared.environment},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.programs.append(program)
        return program

    def stop(self) -> None:
        started: list[subprocess.Popen[str] | subprocess.Popen[bytes]] = [*self.programs]
        if self.agent is not None:
            started.append(self.agent)
        for program in started:
            if program.poll() is None:
                program.kill()
            program.wait(LIMIT_S)
            if program.stdout is not None:
                program.stdout.close()


def ensure_agent_alive(places: Places) -> AgentClient:
    """A client of the agent that is coming up there."""
    from dure.client.api import AgentUnreachableError

    client = AgentClient(places, 20.0)

    def answers() -> bool:
        try:
            client.policy()
        except AgentUnreachableError:
            return False
        return True

    wait_for("an answer of the agent", answers)
    return client


@pytest.fixture
def emulated(tmp_path: Path) -> Iterator[Emulated]:
    made = Emulated(tmp_path)
    try:
        yield made
    finally:
        made.stop()


def _figures(client: AgentClient, name: str) -> tuple[int, float]:
    """A tenant's processes, and its share of the device."""
    tenant = next(each for each in client.tenants() if each.name == name)
    return len(tenant.clients), tenant.gpu_share


def _squad_error(client: AgentClient, name: str) -> float | None:
    return next(each for each in client.tenants() if each.name == name).squad_error


def _at_work(client: AgentClient) -> bool:
    return all(_figures(client, name)[1] > 0.01 for name in ("web", "train"))


def _adopted(client: AgentClient, epoch: int) -> bool:
    return client.status().gpus[0].adopted_epoch >= epoch


def test_real_programs_register_share_the_gpu_and_leave(emulated: Emulated) -> None:
    client = emulated.start_agent()
    web = emulated.run(client.declare("web", WEB), "serve", "--seconds", "3")
    train = emulated.run(client.declare("train", TRAIN), "train", "--seconds", "3")
    wait_for("both at work", partial(_at_work, client))
    gpu = client.status().gpus[0]
    assert gpu.gated
    assert gpu.sms == 132
    wait_for("a hold", lambda: client.why("train").held_ns > 0)
    assert client.why("train").holders[0].tenant == "web"
    wait_for("squads that were timed", lambda: _squad_error(client, "train") is not None)
    assert (web.wait(LIMIT_S), train.wait(LIMIT_S)) == (0, 0)
    wait_for("free slots", lambda: client.status().gpus[0].clients == 0)
    client.close()


def test_a_program_that_runs_without_dure_is_shown_as_unmanaged(emulated: Emulated) -> None:
    client = emulated.start_agent()
    stranger = emulated.run(TenantDeclared(name="", gpu=None, environment={}), "idle")
    declared = client.declare("web", WEB)
    known = emulated.run(declared, "idle")
    wait_for("both on the GPU", lambda: _figures(client, "web")[0] == 1)
    wait_for(
        "the stranger alone",
        lambda: [each.pid for each in client.status().unmanaged] == [stranger.pid],
    )
    assert client.status().unmanaged[0].name == "dure-tenant"
    assert known.poll() is None
    client.close()


@pytest.mark.faults
def test_programs_come_back_by_themselves_to_a_new_agent(emulated: Emulated) -> None:
    client = emulated.start_agent()
    web = emulated.run(client.declare("web", WEB), "serve", "--seconds", "30")
    train = emulated.run(client.declare("train", TRAIN), "train", "--seconds", "30")
    wait_for("both at work", partial(_at_work, client))
    for _ in range(3):
        assert emulated.agent is not None
        emulated.agent.send_signal(signal.SIGKILL)
        emulated.agent.wait(LIMIT_S)
        client.close()
        client = emulated.start_agent()
        specs = {each.name: each.spec for each in client.tenants()}
        assert specs == {"web": WEB, "train": TRAIN}
        wait_for("both registered and at work again", partial(_at_work, client))
        assert client.status().gpus[0].gated
    assert (web.poll(), train.poll()) == (None, None)
    client.close()


@pytest.mark.faults
def test_killed_programs_free_slot_and_memory_within_a_second(emulated: Emulated) -> None:
    client = emulated.start_agent()
    web = emulated.run(client.declare("web", WEB), "serve", "--seconds", "60")
    declared = client.declare("train", TRAIN)
    for _ in range(5):
        train = emulated.run(declared, "train", "--seconds", "60")
        wait_for("work", lambda: _figures(client, "train")[1] > 0.01)
        train.kill()
        train.wait(LIMIT_S)
        wait_for("the slot's return", lambda: _figures(client, "train")[0] == 0, 1.0)
        tenant = next(each for each in client.tenants() if each.name == "train")
        assert tenant.memory_bytes == 0
    assert web.poll() is None
    client.close()


@pytest.mark.slow
def test_a_policy_switch_is_in_force_soon_after_the_command_returns(emulated: Emulated) -> None:
    client = emulated.start_agent()
    emulated.run(client.declare("web", WEB), "serve", "--seconds", "120")
    emulated.run(client.declare("train", TRAIN), "train", "--seconds", "120")
    wait_for("both at work", partial(_at_work, client))
    waits_ns = []
    for number in range(60):
        wanted = ("hybrid", "slo", "jct")[number % 3]
        answer = client.set_policy(PolicyRequest(policy=wanted)).policies[0]
        returned_ns = time.monotonic_ns()
        assert answer.plan is not None
        epoch = answer.plan.epoch
        wait_for("adoption", partial(_adopted, client, epoch))
        waits_ns.append(max(0, client.status().gpus[0].adopted_ns - returned_ns))
        assert client.policy().policies[0].policy == wanted
    assert statistics.median(waits_ns) < 50_000_000
    assert {each.name for each in client.tenants()} == {"web", "train"}
    client.close()


def test_whoever_needs_an_agent_gets_the_one_that_runs_or_a_new_one(
    emulated: Emulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DURE_EMULATOR_DIR", "LD_LIBRARY_PATH"):
        monkeypatch.setenv(name, emulated.environment[name])
    with ensure_agent(emulated.places.run_dir) as first:
        pid = first.status().agent.pid
        try:
            with ensure_agent(emulated.places.run_dir) as second:
                assert second.status().agent.pid == pid
        finally:
            os.kill(pid, signal.SIGTERM)
    wait_for("its orderly end", lambda: not emulated.places.pid_file.exists())
