"""A mix of tenants that come, go and are killed, under changing policies: nothing is left behind.

`DURE_SOAK_S` says for how many seconds (45 unless stated).
"""

import os
import random
import subprocess
import time
from dataclasses import dataclass, field

import pytest

from dure.client.api import AgentClient
from dure.client.schema import PolicyRequest, TenantPatch, TenantSpec
from dure.domain.errors import DureError
from tests.faults.conftest import MakeWorld
from tests.faults.world import (
    TRAIN,
    WEB,
    World,
    descriptors,
    finish,
    resident_mib,
    show,
    tenant,
    wait_for,
)

SOAK_S = float(os.environ.get("DURE_SOAK_S", "45"))
pytestmark = pytest.mark.slow

GUESTS = (
    ("train", "--memory-mib", 32),
    ("serve", "--rate", 200),
    ("graph",),
    ("streams",),
    ("threads", "--count", 300),
    ("train", "--legacy"),
    ("fork",),
)
MOST_GUESTS = 4
MOST_GROWTH_MIB = 24.0
"""Of a process in the time between two equal situations; a leak of a tick would be more."""
KILL_SHARE = 0.3
REST_S, REST_READS, REST_LIMIT_S = 0.5, 5, 30.0
"""What is read of a device is as old as the agent's last look at it: several that are the same."""


@dataclass(slots=True)
class Guests:
    """Tenants that come and go."""

    world: World
    client: AgentClient
    chance: random.Random
    running: list["subprocess.Popen[str]"] = field(default_factory=list)
    came: int = 0
    killed: int = 0
    wrong: list[str] = field(default_factory=list)

    def come(self) -> None:
        """One more."""
        self.came += 1
        spec = self.chance.choice((WEB, TRAIN, TenantSpec(keep=True, weight=2.0)))
        given = self.client.declare(f"guest{self.came % 8}", spec).environment
        program, *more = self.chance.choice(GUESTS)
        seconds = self.chance.uniform(0.2, 3.0)
        self.running.append(self.world.tenant(given, program, "--seconds", seconds, *more))

    def go(self) -> None:
        """See who ended by himself, or kill one; those who end by themselves computed well."""
        for process in [each for each in self.running if each.poll() is not None]:
            self._gone(process, 0)
        if self.running and self.chance.random() < KILL_SHARE:
            process = self.chance.choice(self.running)
            process.kill()
            self.killed += 1
            self._gone(process, -9)

    def _gone(self, process: "subprocess.Popen[str]", expected: int) -> None:
        self.running.remove(process)
        code, out, err = finish(process)
        if code not in (0, expected) or err:
            self.wrong.append(f"{process.args!r}: {code} {out} {err}")

    def all_go(self) -> None:
        """Wait for the last."""
        for process in list(self.running):
            self._gone(process, 0)


@dataclass(frozen=True, slots=True)
class Seen:
    """What could leak, in a quiet moment."""

    agent_descriptors: int
    broker_descriptors: int
    tenant_descriptors: int
    agent_mib: float
    tenant_mib: float
    slots: int
    memory_bytes: int
    events: int
    green_contexts: int


def _come_to_rest(client: AgentClient) -> None:
    """Wait until the agent has read the memory of the device after the last guest was gone."""
    read, same = -1, 0
    end = time.monotonic() + REST_LIMIT_S
    while same < REST_READS and time.monotonic() < end:
        now = client.status().gpus[0].memory_used_bytes or 0
        same = same + 1 if now == read else 0
        read = now
        time.sleep(REST_S)


def _look(world: World, client: AgentClient, web: int) -> Seen:
    assert world.agent is not None
    _come_to_rest(client)
    status = client.status()
    one = tenant(client, "web").clients[0]
    (broker,) = world.broker_pids()
    return Seen(
        agent_descriptors=descriptors(world.agent.pid),
        broker_descriptors=descriptors(broker),
        tenant_descriptors=descriptors(web),
        agent_mib=resident_mib(world.agent.pid),
        tenant_mib=resident_mib(web),
        slots=status.gpus[0].clients,
        memory_bytes=status.gpus[0].memory_used_bytes or 0,
        events=one.events,
        green_contexts=one.green_contexts,
    )


def _stir(client: AgentClient, chance: random.Random) -> None:
    """Change something while everybody works."""
    what = chance.randrange(4)
    if what == 0:
        client.set_policy(PolicyRequest(policy=chance.choice(("slo", "hybrid", "jct"))))
    elif what == 1:
        client.change("train", TenantPatch(weight=chance.choice((0.5, 1.0, 4.0))))
    elif what == 2:
        client.why("web")
    else:
        client.status()


def _soak(guests: Guests, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if len(guests.running) < MOST_GUESTS and guests.chance.random() < 0.5:
            guests.come()
        guests.go()
        _stir(guests.client, guests.chance)
        time.sleep(guests.chance.uniform(0.0, 0.2))
    guests.all_go()
    for number in range(8):
        try:
            wait_for("free slots", lambda: guests.client.status().gpus[0].clients == 2)
            guests.client.forget(f"guest{number}")
        except DureError:
            continue


@pytest.mark.parametrize("sharing", ["isolated", "mps"])
def test_a_mix_that_comes_goes_and_is_killed_leaves_nothing_behind(
    make_world: MakeWorld, sharing: str
) -> None:
    world = make_world(shared_fate=0)
    client = world.start_agent(sharing=sharing)
    web = world.stepper(client.declare("web", WEB).environment, pause_ms=3)
    train = world.stepper(client.declare("train", TRAIN).environment)
    guests = Guests(world, client, random.Random(7))
    _soak(guests, SOAK_S / 2 * 0.3)  # after this, caches and pools are as large as they get
    before = _look(world, client, web.process.pid)
    _soak(guests, SOAK_S / 2 * 0.7)
    after = _look(world, client, web.process.pid)
    show(f"{guests.came} guests, {guests.killed} killed\n{before}\n{after}")
    assert guests.wrong == []
    assert guests.came > SOAK_S / 4
    assert after.agent_descriptors <= before.agent_descriptors
    assert after.broker_descriptors <= before.broker_descriptors
    assert after.tenant_descriptors <= before.tenant_descriptors
    assert after.agent_mib <= before.agent_mib + MOST_GROWTH_MIB
    assert after.tenant_mib <= before.tenant_mib + MOST_GROWTH_MIB
    assert (after.slots, after.memory_bytes) == (2, before.memory_bytes)
    assert after.events <= before.events + 8
    assert after.green_contexts <= before.green_contexts + 8
    assert web.stop().count > 0
    assert train.stop().count > 0
    assert "Traceback" not in world.agent_log()


def test_changing_sets_of_compute_units_leaves_no_green_context_behind(
    make_world: MakeWorld,
) -> None:
    """With an agent whose plan is stated, so that every tenant is moved, and again."""
    world = make_world()
    client = world.start_agent(sharing="mps", module="dure.bench.kernel.split_agent")
    spec = TenantSpec(keep=True, sm_share=0.5)
    web = world.stepper(client.declare("web", spec).environment)
    train = world.stepper(client.declare("train", spec).environment)

    def counted() -> list[tuple[int, int]]:
        found = [each.clients[0] for each in client.tenants()]
        return [(each.green_contexts, each.events) for each in found]

    def turn_around() -> None:
        for share in (0.25, 0.5, 0.125, 0.375):
            client.change("web", TenantPatch(sm_share=share))
            client.change("train", TenantPatch(sm_share=0.6 - share))
            time.sleep(0.1)

    for _ in range(2):
        turn_around()
    wait_for("a moved tenant", lambda: all(contexts > 0 for contexts, _ in counted()))
    before = counted()
    for _ in range(int(SOAK_S / 3)):
        turn_around()
    after = counted()
    show(f"{before} {after}")
    for (contexts, events), (contexts_after, events_after) in zip(before, after, strict=True):
        assert contexts_after <= contexts + 4
        assert events_after <= events + 16
    assert web.stop().count > 0
    assert train.stop().count > 0
