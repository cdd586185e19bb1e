"""An agent that dies, again and again, while tenants work."""

import time
from functools import partial

import pytest

from dure.client.api import AgentClient
from dure.client.places import Places
from dure.client.schema import TenantPatch
from tests.faults.world import TRAIN, WEB, World, processes, show, wait_for

pytestmark = pytest.mark.faults

KILLS = 20
UNDISTURBED_STARTS = 12
MOST_STALL_MS = 300.0
CONTROL_FACTOR = 1.5
"""The longest of few undisturbed steps is shorter than that of many."""


def _registered(client: AgentClient) -> bool:
    return processes(client, "web") == processes(client, "train") == 1


def test_twenty_kills_of_the_agent_fail_no_tenant_and_stall_none_for_long(world: World) -> None:
    client = world.start_agent()
    web = world.stepper(client.declare("web", WEB).environment, pause_ms=5)
    train = world.stepper(client.declare("train", TRAIN).environment)
    client.change("train", TenantPatch(weight=3.0))
    wait_for("both at work", partial(_registered, client))

    began_ns = time.monotonic_ns()
    other = Places(world.folder / "other")
    for _ in range(UNDISTURBED_STARTS):  # what starting an agent costs a machine, and no more
        beside = world.start_agent(places=other)
        beside.close()
        world.running[-1].kill()
        world.running[-1].wait()
    undisturbed_ns = time.monotonic_ns()
    back_s = []
    for kill in range(KILLS):
        world.kill_agent()
        time.sleep(0.02 * (kill % 20))  # before and after tenants notice
        client.close()
        client = world.start_agent()
        specs = {each.name: each.spec for each in client.tenants()}
        assert specs == {"web": WEB, "train": TRAIN.model_copy(update={"weight": 3.0})}
        back_s.append(wait_for("the tenants' return", partial(_registered, client)))
        assert client.status().gpus[0].gated
    ended_ns = time.monotonic_ns()

    for steps in (web.stop(), train.stop()):
        control_ms = steps.longest_ms(began_ns, undisturbed_ns)
        longest_ms = steps.longest_ms(undisturbed_ns, ended_ns)
        show(f"longest step {longest_ms:.0f} ms, undisturbed {control_ms:.0f} ms")
        assert longest_ms <= MOST_STALL_MS + CONTROL_FACTOR * control_ms
    show(f"back after {max(back_s):.2f} s at most")
