"""Tenants never stall one another: whatever changes, somebody passes."""

import random
import subprocess
import time

import pytest

from dure.client.schema import PolicyRequest, TenantSpec
from tests.faults.conftest import MakeWorld
from tests.faults.world import TRAIN, WEB, Steps, World, show

pytestmark = pytest.mark.faults

SECONDS = 12.0
MOST_STALL_MS = 300.0
CONTROL_FACTOR = 2.0
"""The longest of few undisturbed steps is shorter than that of many."""


def _both_stalled_ms(first: Steps, second: Steps) -> float:
    """The longest time in which neither finished a step."""
    return (
        max(
            (
                min(a + took_a, b + took_b) - max(a, b)
                for a, took_a in first.long
                for b, took_b in second.long
            ),
            default=0,
        )
        / 1e6
    )


def _stir(world: World, seconds: float, *, managed: bool, sharing: str) -> tuple[Steps, Steps]:
    """Two tenants and a guest that comes and is killed, under policies that change."""
    client = world.start_agent(sharing=sharing)
    none: dict[str, str] = {}
    web_has = client.declare("web", WEB).environment if managed else none
    train_has = client.declare("train", TRAIN).environment if managed else none
    guest_has = client.declare("guest", TenantSpec(keep=True)).environment if managed else none
    web = world.stepper(web_has, pause_ms=3)
    train = world.stepper(train_has)
    guest: subprocess.Popen[str] | None = None
    chance = random.Random(3)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        client.set_policy(PolicyRequest(policy=chance.choice(("slo", "hybrid", "jct"))))
        if guest is None and chance.random() < 0.4:
            program = chance.choice(("train", "serve", "graph", "streams"))
            guest = world.tenant(guest_has, program, "--seconds", 5)
        elif guest is not None and chance.random() < 0.4:
            guest.kill()
            guest.communicate()
            guest = None
        time.sleep(chance.uniform(0.02, 0.3))
    return web.stop(), train.stop()


@pytest.mark.parametrize("sharing", ["isolated", "mps"])
def test_at_no_time_is_everybody_held(make_world: MakeWorld, sharing: str) -> None:
    mode = "mps" if sharing == "mps" else "timeslice"
    plain = make_world(shared_fate=0, mode=mode)
    control_ms = _both_stalled_ms(*_stir(plain, SECONDS / 2, managed=False, sharing=sharing))
    plain.close()
    managed = make_world(shared_fate=0, mode=mode)
    web, train = _stir(managed, SECONDS, managed=True, sharing=sharing)
    longest_ms = _both_stalled_ms(web, train)
    show(
        f"{sharing}: all stalled for {longest_ms:.0f} ms, "
        f"without Dure {control_ms:.0f} ms; {web.count}, {train.count} steps"
    )
    assert longest_ms <= MOST_STALL_MS + CONTROL_FACTOR * control_ms
    assert min(web.count, train.count) > 50
