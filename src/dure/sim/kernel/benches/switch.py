"""`dure bench switch`: policy switches at random times change the very next squad.

After each switch the first squad edge must carry a plan of the new policy. That nothing was
forgotten is seen by feeding the recorded events to a second machine and comparing all it has
learned, byte by byte, before and after each switch.
"""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dure.domain.catalogue import accelerator
from dure.domain.events import Event, PolicyRequested
from dure.domain.ids import TenantId
from dure.domain.instructions import Instruction
from dure.domain.tenant import Goal, LatencySlo, Slo, Tenant, TenantClass
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.kernel.machine import KernelMachine
from dure.kernel.policies.registry import POLICIES
from dure.sim.benches.report import BenchReport, Grid, Tell, Verdict, number, silent
from dure.sim.kernel.load import Arrivals, ClosedLoop, TenantLoad, poisson
from dure.sim.kernel.models import load_model
from dure.sim.kernel.modes import SWITCHING, Mode, Switch
from dure.sim.kernel.run import Outcome, Setting, machine_settings, run
from dure.sim.kernel.world import TICK_NS

_SEED = 1
_SPACING_NS = (30 * NS_PER_MS, 170 * NS_PER_MS)
"""Between two switches: from little more than a tick to a good many squads."""
_START_NS = 200 * NS_PER_MS
_FIRST_POLICY = "jct"


@dataclass(frozen=True, slots=True)
class SwitchSeen:
    """One switch and the squad edge after it."""

    at_ns: int
    policy: str
    delay_ns: int | None
    """From the request to the next squad edge; None where the run ended before one."""
    next_squad: bool
    """Whether that very edge put a plan of the new policy in force."""


def bench_switch(*, switches: int = 100, tell: Tell = silent) -> BenchReport:
    """Switch at random times in one long run."""
    rng = np.random.default_rng(_SEED)
    planned = _plan(rng, switches)
    setting = _setting(rng, planned[-1].at_ns + NS_PER_S)
    mode = Mode(SWITCHING, _FIRST_POLICY, switches=planned)
    journal: list[tuple[Event, tuple[Instruction, ...]]] = []
    outcome = run(
        mode,
        setting,
        record=lambda event, answer: journal.append((event, answer)),
        progress=lambda share: tell("running", share),
    )
    seen = [_seen(outcome, switch) for switch in planned]
    machine = KernelMachine(machine_settings(mode, setting))
    remembered, identical = _replay(machine, journal)
    return _report(seen, remembered, identical)


def _plan(rng: np.random.Generator, switches: int) -> tuple[Switch, ...]:
    """Random times, each to another policy than the one before."""
    planned = []
    at_ns, policy = _START_NS, _FIRST_POLICY
    for _ in range(switches):
        at_ns += int(rng.integers(*_SPACING_NS))
        if at_ns % TICK_NS == 0:
            at_ns += 1
        policy = str(rng.choice([name for name in POLICIES if name != policy]))
        planned.append(Switch(at_ns, policy))
    return tuple(planned)


def _setting(rng: np.random.Generator, duration_ns: int) -> Setting:
    """A service beside two trainings: enough for policies to differ, and always work to do."""
    model = load_model("resnet50-infer")
    at_ns = poisson(rng, rate_per_s=0.3 * NS_PER_S / model.gpu_ns, start_ns=0, end_ns=duration_ns)
    tenant = Tenant(
        TenantId("service"),
        tenant_class=TenantClass.GUARANTEED,
        goal=Goal.SLO,
        slo=Slo(latency=LatencySlo(15 * NS_PER_MS)),
    )
    service = TenantLoad(tenant, model, Arrivals(at_ns, np.ones(len(at_ns), np.int64)))
    loops = tuple(
        TenantLoad(Tenant(TenantId(name), goal=Goal.FINISH), load_model(name), ClosedLoop(0, 4))
        for name in ("resnet50-train", "gpt-train")
    )
    return Setting(accelerator("h200"), (service, *loops), duration_ns)


def _seen(outcome: Outcome, switch: Switch) -> SwitchSeen:
    """The first edge after a switch, and whose plan it began."""
    edges = outcome.edges
    after = int(np.searchsorted(edges["at"], switch.at_ns, side="right"))
    if after == len(edges):
        return SwitchSeen(switch.at_ns, switch.policy, None, False)
    at_ns = int(edges["at"][after])
    adopted = after == 0 or int(edges["epoch"][after]) > int(edges["epoch"][after - 1])
    published = [(when, plan) for when, plan in outcome.plans if when <= at_ns]
    fresh = bool(published) and published[-1][0] >= switch.at_ns
    right = fresh and published[-1][1].policy == switch.policy
    return SwitchSeen(switch.at_ns, switch.policy, at_ns - switch.at_ns, adopted and right)


def _replay(
    machine: KernelMachine, journal: list[tuple[Event, tuple[Instruction, ...]]]
) -> tuple[int, bool]:
    """Over all switches: how many left everything learned as it was; and whether answers agree."""
    remembered, identical = 0, True
    for event, answer in journal:
        switching = isinstance(event, PolicyRequested) and not event.dry_run
        before = _learned(machine) if switching else b""
        identical &= machine.handle(event) == answer
        if switching:
            remembered += _learned(machine) == before
    return remembered, identical


def _learned(machine: KernelMachine) -> bytes:
    """Everything the machine knows of its tenants and of how they slow one another."""
    return pickle.dumps((machine.tracks, machine.interference))


def _report(seen: Sequence[SwitchSeen], remembered: int, identical: bool) -> BenchReport:
    delays = np.array([one.delay_ns for one in seen if one.delay_ns is not None]) / NS_PER_MS
    rows = []
    for policy in ("all", *POLICIES):
        own = [one for one in seen if policy in ("all", one.policy)]
        own_ms = [one.delay_ns / NS_PER_MS for one in own if one.delay_ns is not None]
        rows.append(
            (
                policy,
                f"{len(own)}",
                f"{sum(one.next_squad for one in own)}",
                number(float(np.median(own_ms)) if own_ms else None, 2),
                number(float(np.percentile(own_ms, 99)) if own_ms else None, 2),
            )
        )
    right = sum(one.next_squad for one in seen)
    delay = (
        f"median {np.median(delays):.2f} ms, p99 {np.percentile(delays, 99):.2f} ms of virtual time"
    )
    return BenchReport(
        name="switch",
        title="Policy switches while work runs",
        about=(
            f"{len(seen)} switches at random times, each to another policy, in one run of a "
            "service beside two trainings from recorded models. The delay is virtual time from "
            "the request to the next squad edge. What the machine learned is compared byte by "
            "byte before and after each switch, in a second machine that is fed the recorded "
            "events."
        ),
        grids=(
            Grid(
                "Switches by the policy switched to",
                ("policy", "switches", "next squad is its", "delay ms median", "p99"),
                tuple(rows),
            ),
        ),
        verdicts=(
            Verdict(
                "the very next squad carries the new policy's plan",
                f"{right} of {len(seen)}",
                right == len(seen),
            ),
            Verdict("delay to the next squad", delay if len(delays) else "no edge seen", None),
            Verdict(
                "nothing learned is forgotten",
                f"unchanged over {remembered} of {len(seen)} switches",
                remembered == len(seen),
            ),
            Verdict(
                "the second machine gave the same answers", "yes" if identical else "no", identical
            ),
        ),
        figures={"switches": list(seen), "remembered": remembered, "identical": identical},
    )
