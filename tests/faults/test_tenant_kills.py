"""Tenants that are killed at any moment: what they had is back at once, nobody else notices."""

import os
import random
import signal
import time
from collections.abc import Callable
from functools import partial

import pytest

from dure.client.api import AgentClient
from dure.client.schema import TenantSpec
from tests.faults.world import (
    TRAIN,
    WEB,
    Jitter,
    World,
    descriptors,
    finish,
    processes,
    show,
    tenant,
    wait_for,
)

pytestmark = pytest.mark.faults

KILLS = 200
BACK_S = 1.0
PROGRAMS = (
    ("train", "--seconds", 60, "--memory-mib", 64),
    ("serve", "--seconds", 60, "--rate", 400),
    ("graph", "--count", 100000),
    ("streams", "--seconds", 60),
    ("threads", "--count", 100000),
    ("hog", "--chunk-mib", 64),
)


def _gone(client: AgentClient, name: str, memory_bytes: int) -> bool:
    """Neither a slot nor memory is left of a tenant."""
    status = client.status()
    seen = next(each for each in status.tenants if each.name == name)
    used = status.gpus[0].memory_used_bytes
    return not seen.clients and seen.memory_bytes == 0 and used == memory_bytes


def test_two_hundred_kills_of_tenants_give_everything_back_and_harm_nobody(world: World) -> None:
    client = world.start_agent()
    web = world.stepper(client.declare("web", WEB).environment, pause_ms=5)
    train = world.stepper(client.declare("train", TRAIN).environment)
    victim = client.declare("victim", TenantSpec(keep=True)).environment
    used = client.status().gpus[0].memory_used_bytes
    assert used is not None
    assert world.agent is not None
    open_before = descriptors(world.agent.pid)
    chance = random.Random(1)
    waits: list[float] = []
    with Jitter() as jitter:
        for number in range(KILLS):
            process = world.tenant(victim, *PROGRAMS[number % len(PROGRAMS)])
            time.sleep(chance.uniform(0.0, 0.15))
            process.kill()
            process.communicate()
            waits.append(wait_for("their return", partial(_gone, client, "victim", used), 30))
    ended_ns = time.monotonic_ns()
    show(f"back after {max(waits):.3f} s at most, jitter {jitter.longest_s:.3f} s")
    assert max(waits) <= BACK_S + jitter.longest_s
    assert client.status().gpus[0].clients == 2
    assert descriptors(world.agent.pid) <= open_before
    for stepper in (web, train):
        assert stepper.process.poll() is None
        steps = stepper.stop()
        assert steps.count > 100
        show(f"longest step {steps.longest_ms(0, ended_ns):.0f} ms")
    assert "Traceback" not in world.agent_log()


def test_the_slot_of_a_killed_program_is_back_though_a_child_of_it_lives_on(world: World) -> None:
    client = world.start_agent()
    given = client.declare("t", TRAIN).environment
    parent = world.program(given, "orphan", 60)
    assert parent.stdout is not None
    child = int(parent.stdout.readline().split()[1])
    try:
        assert processes(client, "t") == 1
        parent.kill()
        parent.wait()
        with Jitter() as jitter:
            waited = wait_for("the slot's return", lambda: processes(client, "t") == 0)
        assert waited <= BACK_S + jitter.longest_s
        assert tenant(client, "t").memory_bytes == 0
        os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGSTOP])
def test_a_stopped_tenant_holds_up_nobody(world: World, number: signal.Signals) -> None:
    client = world.start_agent()
    web = world.stepper(client.declare("web", WEB).environment)
    train = world.stepper(client.declare("train", TRAIN).environment)
    wait_for("both at work", lambda: client.status().gpus[0].clients == 2)
    web.process.send_signal(number)
    launched = _launches(client, "train")
    wait_for("progress of the other", lambda: launched() > 200, 20)
    web.process.send_signal(signal.SIGCONT)
    again = _launches(client, "web")
    wait_for("progress of the one that goes on", lambda: again() > 100, 20)
    assert web.stop().count > 0
    assert train.stop().count > 0


def _launches(client: AgentClient, name: str) -> Callable[[], int]:
    """How many launches a tenant made since now."""
    before = tenant(client, name).launches
    return lambda: tenant(client, name).launches - before


@pytest.mark.parametrize("how", ["kill", "abort", "segfault", "exit", "address"])
def test_a_crash_in_mid_kernel_is_that_programs_own(world: World, how: str) -> None:
    client = world.start_agent()
    train = world.stepper(client.declare("train", TRAIN).environment)
    given = client.declare("crasher", TRAIN).environment
    codes = {"kill": -9, "abort": -6, "segfault": -11, "exit": 7, "address": 0}
    code, _, _ = finish(world.tenant(given, "crash", "--how", how))
    assert code == codes[how]
    wait_for("the slot's return", lambda: processes(client, "crasher") == 0)
    assert train.stop().count > 0
