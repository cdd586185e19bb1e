"""Nobody with work goes without for longer than the policy in force states, in virtual time."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.domain.events import Event, ReadingsTaken
from dure.domain.ids import TenantId
from dure.domain.instructions import Instruction
from dure.domain.tenant import LatencySlo, Slo, Tenant, TenantClass
from dure.domain.units import NS_PER_MS, NS_PER_S, NS_PER_US
from dure.kernel.policies.registry import POLICIES
from dure.sim.kernel.load import Arrivals, ClosedLoop, KernelSpec, Program, TenantLoad, poisson
from dure.sim.kernel.modes import managed
from dure.sim.kernel.run import Setting, run
from dure.sim.kernel.world import TICK_NS
from tests.kernel.factories import H200

BOUND_S = 0.3
"""Starvation bound the policies are given: short, so that runs can be."""
SLACK_NS = 100 * NS_PER_MS
"""For counters read every 20 ms, a plan that waits for a squad's edge, and kernels in flight."""
DURATION_NS = 3 * NS_PER_S


class HungerWatch:
    """Records how long each tenant at most had work and finished no kernel."""

    def __init__(self) -> None:
        self.longest_ns: dict[TenantId, int] = {}
        self._since_ns: dict[TenantId, int] = {}

    def __call__(self, event: Event, instructions: tuple[Instruction, ...]) -> None:
        if not isinstance(event, ReadingsTaken):
            return
        for reading in event.readings:
            idle = not reading.busy and reading.busy_ns == 0
            if idle or reading.gpu_ns > 0:
                self._since_ns[reading.tenant] = event.now_ns
            hungry_ns = event.now_ns - self._since_ns.setdefault(reading.tenant, event.now_ns)
            self.longest_ns[reading.tenant] = max(hungry_ns, self.longest_ns.get(reading.tenant, 0))


def kernel(rng: np.random.Generator) -> KernelSpec:
    """A short kernel, wide or narrow."""
    resident = int(rng.integers(1, 9))
    return KernelSpec(
        name="kernel",
        blocks=max(1, int(H200.sms * resident * rng.choice([0.1, 0.4, 1.0, 4.0]))),
        threads=256,
        resident=resident,
        solo_ns=float(rng.uniform(10, 400)) * NS_PER_US,
        bandwidth_share=float(rng.uniform(0.05, 0.95)),
    )


def program(rng: np.random.Generator) -> Program:
    return Program(
        "made",
        tuple(kernel(rng) for _ in range(4)),
        tuple(int(number) for number in rng.integers(0, 4, int(rng.integers(2, 20)))),
        graph=bool(rng.random() < 0.3),
    )


def greedy_service(rng: np.random.Generator, index: int) -> TenantLoad:
    """A guaranteed tenant whose requests may ask for more than the whole device."""
    made = program(rng)
    rate = float(rng.uniform(0.3, 1.5)) * NS_PER_S / made.gpu_ns
    at_ns = poisson(rng, rate_per_s=rate, start_ns=0, end_ns=DURATION_NS)
    target_ns = int(made.gpu_ns * rng.uniform(1.5, 10.0))
    tenant = Tenant(
        TenantId(f"service-{index}"),
        tenant_class=TenantClass.GUARANTEED,
        slo=Slo(latency=LatencySlo(target_ns)),
        weight=float(rng.choice([1.0, 10.0])),
    )
    return TenantLoad(tenant, made, Arrivals(at_ns, np.ones(len(at_ns), np.int64)))


def endless_job(rng: np.random.Generator, index: int) -> TenantLoad:
    tenant = Tenant(
        TenantId(f"job-{index}"),
        tenant_class=TenantClass.BEST_EFFORT,
        weight=float(rng.choice([0.01, 1.0, 10.0])),
        expected_ns=int(rng.integers(1, 10_000)) * NS_PER_S if rng.random() < 0.5 else None,
    )
    return TenantLoad(tenant, program(rng), ClosedLoop())


def made_load(seed: int) -> Setting:
    rng = np.random.default_rng(seed)
    services = [greedy_service(rng, index) for index in range(int(rng.integers(0, 3)))]
    jobs = [endless_job(rng, index) for index in range(int(rng.integers(1, 4)))]
    return Setting(H200, (*services, *jobs), DURATION_NS)


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.sampled_from([*POLICIES]), st.booleans())
def test_nobody_with_work_waits_longer_than_the_stated_bound(
    seed: int, policy: str, side_by_side: bool
) -> None:
    watch = HungerWatch()
    mode = managed(policy, side_by_side=side_by_side, parameters=(("starvation_s", BOUND_S),))
    run(mode, made_load(seed), record=watch)
    assert max(watch.longest_ns.values()) <= BOUND_S * NS_PER_S + SLACK_NS
    assert TICK_NS < SLACK_NS
