"""Tenants side by side, which share their fate: who ends them through the agent harms nobody."""

import json
import signal
import subprocess
import sys

import pytest

from dure.client.api import AgentClient
from tests.faults.conftest import MakeWorld
from tests.faults.world import LIMIT_S, TRAIN, WEB, World, processes, wait_for

pytestmark = pytest.mark.faults

KILLS = 20


@pytest.fixture
def mps(make_world: MakeWorld) -> World:
    return make_world(unavailable_ms=500)


def test_tenants_ended_through_the_agent_in_mid_kernel_harm_nobody(mps: World) -> None:
    client = mps.start_agent(sharing="mps")
    web = mps.stepper(client.declare("web", WEB).environment, pause_ms=5)
    given = client.declare("victim", TRAIN).environment
    for number in range(KILLS):
        # The crasher has a kernel of seconds on the device and would kill itself after that.
        victim = mps.tenant(given, "crash", "--how", "kill", "--after", 60)
        assert victim.stdout is not None
        assert victim.stdout.readline() == "running\n"
        if number % 2:
            victim.send_signal(signal.SIGSTOP)  # it cannot even be asked
        answer = client.end("victim", grace_s=0.2)
        assert answer.asked == (victim.pid,)
        assert answer.killed == ((victim.pid,) if number % 2 else ())
        victim.communicate(timeout=LIMIT_S)
        wait_for("a free slot", lambda: processes(client, "victim") == 0)
    assert web.process.poll() is None
    assert web.stop().count > 0


def test_a_kill_that_nobody_announced_is_what_the_doctor_warns_of(mps: World) -> None:
    client = mps.start_agent(sharing="mps")
    web = mps.stepper(client.declare("web", WEB).environment)
    victim = mps.tenant(client.declare("victim", TRAIN).environment, "crash", "--after", 60)
    assert victim.stdout is not None
    assert victim.stdout.readline() == "running\n"
    victim.kill()
    _, err = web.process.communicate(timeout=LIMIT_S)
    assert web.process.returncode != 0
    assert "700" in err, "an illegal address that it never touched"
    risk = _doctor(mps)["risk"]
    assert risk["level"] == "warn"
    assert "SIGKILL" in risk["what"]


def test_the_doctor_of_an_isolated_agent_sees_no_such_risk(make_world: MakeWorld) -> None:
    isolated = make_world()
    isolated.start_agent()
    assert _doctor(isolated)["risk"]["level"] == "ok"


def test_side_by_side_ends_with_the_agent_and_outlives_its_crash(mps: World) -> None:
    client = mps.start_agent(sharing="mps")
    web = mps.stepper(client.declare("web", WEB).environment, pause_ms=2)
    mps.kill_agent()
    again = mps.start_agent(sharing="mps")
    wait_for("its return", lambda: processes(again, "web") == 1)
    assert web.stop().count > 0
    wait_for("a free slot", lambda: processes(again, "web") == 0)
    _end(mps, again)
    assert "the MPS daemon was found running" in mps.agent_log()
    mps.start_agent(sharing="mps")
    assert mps.agent_log().count("the MPS daemon was started") == 2


def _end(world: World, client: AgentClient) -> None:
    assert world.agent is not None
    client.close()
    world.agent.terminate()
    assert world.agent.wait(LIMIT_S) == 0


def _doctor(world: World) -> dict[str, dict[str, str]]:
    command = [sys.executable, "-c", "from dure.cli.main import main; main()", "doctor", "--json"]
    done = subprocess.run(
        command,
        env=world.environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return {each["subject"]: each for each in json.loads(done.stdout)["findings"]}
