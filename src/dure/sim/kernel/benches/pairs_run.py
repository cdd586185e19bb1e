"""Runs one row of the H200 pairs in virtual time: both tenants, the way of sharing, the gate."""

from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from dure.domain.catalogue import accelerator
from dure.domain.ids import PlanEpoch, TenantId
from dure.domain.plan import Plan, SmSet, Squad, SquadMember
from dure.domain.tenant import Tenant
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.kernel.resources import whole
from dure.sim.kernel.benches import pairs_measured as measured
from dure.sim.kernel.load import Arrivals, ClosedLoop, Program, TenantLoad, poisson
from dure.sim.kernel.models import load_model
from dure.sim.kernel.modes import Mode
from dure.sim.kernel.physics import Physics
from dure.sim.kernel.results import Alone
from dure.sim.kernel.run import Outcome, Setting
from dure.sim.kernel.verdicts import is_diverging
from dure.sim.kernel.world import Sharing, World

HP, BE = TenantId("hp"), TenantId("be")
_GPU = accelerator("h200")
_GREEN_SMS = SmSet(0, 64)
_EVENTS_OUTSTANDING = 2
"""Completion events the prototype of the gate waited for at most."""
_STRETCH_ROUNDS = 2
"""The rest after stretching once is below a per cent; twice leaves nothing to see."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run: a row of the table for one pair and one draw of arrivals."""

    pair: str
    row: str
    seed: int = 1
    closed: bool = False
    """The service asks again as soon as it is answered, instead of at random times."""
    run_s: float = measured.RUN_S
    physics: Physics = field(default_factory=Physics)


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run gave."""

    p99_ms: float
    hp_per_s: float
    be_per_s: float
    diverges: bool


def run_case(case: Case) -> Figures:
    """Simulate one row."""
    setting = Setting(_GPU, _loads(case), round(case.run_s * NS_PER_S), physics=case.physics)
    outcome = _simulate(case.row, setting)
    requests = outcome.finished[outcome.finished["tenant"] == 0]
    latency_ns = requests["finish"] - requests["arrival"]
    p99_ms = float(np.percentile(latency_ns, 99)) / NS_PER_MS if len(requests) else np.nan
    alone = Alone(
        1.0,
        0.0,
        next(
            row.p99_ms for row in measured.ROWS if (row.pair, row.row) == (case.pair, measured.SOLO)
        ),
    )
    return Figures(
        p99_ms=p99_ms,
        hp_per_s=len(requests) / case.run_s,
        be_per_s=_rate(outcome, 1) if len(setting.loads) > 1 else 0.0,
        diverges=is_diverging(outcome, 0, alone),
    )


def _loads(case: Case) -> tuple[TenantLoad, ...]:
    program = service(case.pair)
    work: ClosedLoop | Arrivals = ClosedLoop()
    if not case.closed:
        rate_per_s = measured.HP_LOAD * 1e3 / measured.HP_REQUEST_MS[case.pair]
        at_ns = poisson(
            np.random.default_rng(case.seed),
            rate_per_s=rate_per_s,
            start_ns=0,
            end_ns=round(case.run_s * NS_PER_S),
        )
        work = Arrivals(at_ns, np.ones(len(at_ns), np.int64))
    high = TenantLoad(Tenant(HP), program, work)
    if case.row == measured.SOLO:
        return (high,)
    return high, TenantLoad(Tenant(BE), training(), ClosedLoop(0, measured.BE_SYNC_EVERY))


@cache
def service(pair: str) -> Program:
    """The service of a pair, a request as long as measured: its time alone is an input."""
    return _as_long_as(measured.HP_MODELS[pair], measured.HP_REQUEST_MS[pair], 1)


@cache
def training() -> Program:
    """The training beside it, as fast as measured alone."""
    program = _as_long_as(measured.BE_MODEL, 1e3 / measured.BE_ALONE_PER_S, measured.BE_SYNC_EVERY)
    return replace(program, sync_every=measured.BE_SYNC_EVERY)


def _as_long_as(model: str, iteration_ms: float, iterations: int) -> Program:
    """A recorded program, stretched until an iteration alone takes this long with its overheads."""
    stretched_ms = iteration_ms
    program = load_model(model, stretched_ms)
    for _ in range(_STRETCH_ROUNDS):
        looped = replace(program, sync_every=iterations)
        load = TenantLoad(Tenant(BE), looped, ClosedLoop(0, iterations))
        outcome = _simulate(measured.SOLO, Setting(_GPU, (load,), NS_PER_S))
        stretched_ms += iteration_ms - 1e3 / _rate(outcome, 0)
        program = load_model(model, stretched_ms)
    return program


def _simulate(row: str, setting: Setting) -> Outcome:
    """A run without a machine: plain sharing, or one plan that stays."""
    sharing, plan, launches = _row(row)
    world = World(setting.accelerator, setting.physics, setting.loads, sharing)
    if launches:
        world.limit_launches(BE, launches)
    if plan is not None:
        world.publish(plan)
    world.advance(setting.duration_ns)
    return Outcome(
        mode=Mode(row, side_by_side=sharing.side_by_side),
        setting=setting,
        end_ns=world.now_ns,
        finished=np.concatenate(world.finished),
        edges=np.concatenate(world.edges),
        spans=world.state.spans[:0],
        tenants=world.state.tenants,
        device=world.state.device,
        windows=world.look()[None],
        decisions_s=[],
        plans=[],
        signals=[],
        risks=[],
        adaptations=[],
        previews=[],
        prediction_error=0.0,
        wall_s=0.0,
    )


def _row(row: str) -> tuple[Sharing, Plan | None, int]:
    """How a row shares, its plan, and how many launches best effort may have outstanding."""
    match row:
        case measured.SOLO | measured.TIME_SLICE:
            return Sharing(False), None, 0
        case measured.MPS:
            return Sharing(True), None, 0
        case measured.MPS_PRIORITY:
            return Sharing(True, {HP: 1}), None, 0
        case measured.MPS_HALF:
            return Sharing(True, cap_share={BE: 0.5}), None, 0
        case measured.GREEN:
            return Sharing(True, gated=True, event_every=8), _plan(_GREEN_SMS, held=False), 0
        case measured.GATE_8 | measured.GATE_2 | measured.GATE_8_MPS:
            every = 2 if row == measured.GATE_2 else 8
            sharing = Sharing(row == measured.GATE_8_MPS, gated=True, event_every=every)
            return sharing, _plan(whole(_GPU), held=True), every * _EVENTS_OUTSTANDING
        case _:
            raise ValueError(f"no such row: {row}")


def _plan(be_sms: SmSet, *, held: bool) -> Plan:
    """What the prototype did: best effort waits for the service, or gives up part of the device."""
    training_part = (
        SquadMember(BE, be_sms, yields_to=(HP,)) if held else SquadMember(BE, be_sms, beside=(HP,))
    )
    members = (SquadMember(HP, whole(_GPU)), training_part)
    return Plan(PlanEpoch(1), "gate", (Squad(members, 0),), (HP,))


def _rate(outcome: Outcome, index: int) -> float:
    """Iterations per second up to the last wait that returned, as a program counts its own."""
    done = outcome.finished[outcome.finished["tenant"] == index]
    if len(done) == 0:
        return 0.0
    return float(done["iterations"].sum()) * NS_PER_S / float(done["finish"].max())
