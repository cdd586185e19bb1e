"""The C gate and the simulator's gate decide alike, on random plans and histories."""

import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from dure.devices import layout
from dure.devices.plane_library import Launch, plane_library
from dure.sim.kernel import gate
from dure.sim.kernel import state as sim
from tests.native.planes import MemoryPlane

PAUSE_NS = 200_000
REASONS = {
    sim.PASS: 0,
    sim.HELD_BY_BUDGET: 1,
    sim.HELD_IN_ORDER: 2,
    sim.HELD_FOR_PROMISE: 3,
    sim.HELD_IN_FLIGHT: 4,
}
"""DURE_PASS and DURE_HELD_* by the simulator's numbers."""


@dataclass(slots=True)
class ModelClient:
    """What a client's words ought to say."""

    tenant: int
    busy: bool = False
    began_ns: int = 0
    idle_since_ns: int = 0
    running: int = 0
    inflight_ns: int = 0


@dataclass(slots=True)
class Walk:
    """One random history, in both worlds."""

    rng: random.Random
    now_ns: int
    tenants: int = 0
    clients: list[ModelClient] = field(default_factory=list)
    linger_ns: list[int] = field(default_factory=list)
    plane: MemoryPlane = field(init=False)
    state: sim.State = field(init=False)

    def __post_init__(self) -> None:
        rng = self.rng
        self.tenants = rng.randint(1, 5)
        owners = [*range(self.tenants), *(rng.randrange(self.tenants) for _ in range(2))]
        self.clients = [ModelClient(tenant) for tenant in owners]
        self.linger_ns = [rng.choice([0, 0, 50_000, 400_000]) for _ in range(self.tenants)]
        self.plane = MemoryPlane(owners)
        self.plane.beat(self.now_ns)
        self.state = sim.blank_state(
            tenants=self.tenants,
            kernels=4 + self.tenants,
            sequence=self.tenants,
            jobs=0,
            group_sms=[8] * 16,
        )
        state = self.state
        state.device["gated"] = 1
        for index in range(self.tenants):
            state.sequence[index] = 4 + index
            state.tenants[index]["sequence_first"] = index
        for kernel_class in range(4):
            state.kernels[kernel_class]["kernel_class"] = kernel_class

    def publish(self) -> None:
        """A random plan, laid ready in both worlds."""
        if self.state.device[0]["plan_waiting"]:
            return
        rng, state = self.rng, self.state
        squads = rng.randint(1, min(4, state.orders.shape[0]))
        plan = layout.PlanBuffer()
        plan.epoch, plan.squads = rng.randint(1, 1 << 30), squads
        plan.promised = rng.getrandbits(self.tenants)
        state.promised[1] = plan.promised
        state.pending[:] = np.zeros_like(state.pending)
        for asks in range(4):
            for runs in range(4):
                plan.corun[asks][runs] = state.corun[1, asks, runs] = int(rng.random() < 0.3)
        for squad in range(squads):
            duration = rng.choice([0, 300_000, 1_000_000, 3_000_000])
            plan.duration_ns[squad] = state.durations[1, squad] = duration
            for tenant in range(self.tenants):
                self._random_order(plan.orders[squad][tenant], state.pending[squad, tenant], tenant)
        state.device[0]["plan_waiting"] = squads
        self.plane.publish(plan)

    def _random_order(self, order: layout.Order, twin: np.void, tenant: int) -> None:
        rng = self.rng
        order.linger_ns = twin["linger_ns"] = self.linger_ns[tenant]
        if rng.random() < 0.25:
            return
        order.member = twin["member"] = 1
        others = rng.getrandbits(self.tenants) & ~(1 << tenant)
        order.yields = others if rng.random() < 0.5 else 0
        twin["yields"] = np.uint64(order.yields)
        order.budget_ns = rng.choice([0, 0, 400_000, 1_500_000])
        order.inflight_ns = rng.choice([0, 0, 300_000, 900_000])
        order.patience_ns = rng.choice([0, 0, 100_000, 700_000])
        for name in ("budget_ns", "inflight_ns", "patience_ns"):
            twin[name] = getattr(order, name)

    def _tell_simulator(self) -> None:
        """What the tenants' clients do, as the simulator's words say it."""
        state = self.state
        state.device["now"] = self.now_ns
        if state.device[0]["dormant"]:  # it forgets what was spent in dormancy, bit by bit
            state.tenants["spent_ns"] = 0
        for index in range(self.tenants):
            tenant = state.tenants[index]
            own = [client for client in self.clients if client.tenant == index]
            busy = [client for client in own if client.busy]
            lingering = [
                client
                for client in own
                if not client.busy
                and client.idle_since_ns
                and self.now_ns - client.idle_since_ns < self.linger_ns[index]
            ]
            tenant["wants"] = int(bool(busy or lingering))
            tenant["busy_since"] = min((c.began_ns for c in busy + lingering), default=0)
            shown = busy[0] if busy else lingering[-1] if lingering else own[0]
            tenant["kernel"] = shown.running
            tenant["inflight_ns"] = sum(client.inflight_ns for client in busy)

    def _compare(self) -> None:
        device, turn = self.state.device[0], self.plane.rotation.turn
        assert layout.turn_dormant(turn) == bool(device["dormant"])
        assert layout.turn_squad(turn) == device["squad"]
        for index in range(self.tenants):
            assert self.plane.spent_ns(index) == self.state.tenants[index]["spent_ns"]

    # Steps

    def ask(self) -> None:
        """A launch asks, and goes on its way if it passes."""
        number = self.rng.randrange(len(self.clients))
        client = self.clients[number]
        launch = Launch(self.rng.randrange(4), self.rng.randint(1, 400) * 1000)
        self._begin(client)
        self._tell_simulator()
        kernel = self.state.kernels[4 + client.tenant]
        kernel["kernel_class"], kernel["predicted_ns"] = launch.kernel_class, launch.predicted_ns
        gate.rotate(self.state)
        expected = gate.ask(self.state, client.tenant)
        why, _ = self.plane.ask(number, launch, self.now_ns)
        assert why == REASONS[expected]
        self._compare()
        if why == 0:
            self.plane.launched(number, launch, self.now_ns)
            client.running = launch.kernel_class
            client.inflight_ns += launch.predicted_ns
            self.state.tenants[client.tenant]["spent_ns"] += launch.predicted_ns

    def _begin(self, client: ModelClient) -> None:
        if client.busy:
            return
        client.busy = True
        if not client.idle_since_ns or self.now_ns - client.idle_since_ns > PAUSE_NS:
            client.began_ns = self.now_ns

    def finish(self) -> None:
        """Some of a client's work is known to be over."""
        number = self.rng.randrange(len(self.clients))
        client = self.clients[number]
        part = self.rng.randint(0, client.inflight_ns)
        client.inflight_ns -= part
        self.plane.finished(number, part, self.now_ns)

    def drain(self) -> None:
        """All of a client's work is over."""
        number = self.rng.randrange(len(self.clients))
        client = self.clients[number]
        client.inflight_ns = 0
        if client.busy:
            client.busy, client.idle_since_ns = False, self.now_ns
        self.plane.drained(number, self.now_ns)

    def turn_over(self) -> None:
        """The agent looks whether the squad is over."""
        self._tell_simulator()
        gate.rotate(self.state)
        self.plane.turn_over(self.now_ns)
        self._compare()

    def step(self) -> None:
        steps = (self.ask, self.finish, self.drain, self.turn_over, self.publish)
        self.rng.choices(steps, weights=(10, 3, 3, 2, 1))[0]()
        self.now_ns += self.rng.choice([0, 1, 10, 100, 1000]) * 1000


@pytest.mark.parametrize("batch", range(8))
def test_c_and_simulator_decide_alike(batch: int) -> None:
    """120 histories of 60 steps a batch: verdict, squad, dormancy and spending are the same."""
    seen = set()
    for number in range(120):
        rng = random.Random(batch * 1000 + number)
        now_ns = int(plane_library().dure_now_ns()) // 1000 * 1000
        walk = Walk(rng, now_ns)
        walk.publish()
        for _ in range(60):
            walk.step()
        seen.add(layout.turn_squad(walk.plane.rotation.turn))
    assert len(seen) > 2
