"""Dry runs: a snapshot becomes tenants like those that were seen, and policies are told apart."""

from dataclasses import replace

import numpy as np
import pytest

from dure.domain.adaptation import AdaptBy, AdviceKind, Choice
from dure.domain.events import Event, ReadingsTaken
from dure.domain.instructions import Instruction
from dure.domain.units import NS_PER_S
from dure.kernel.machine import KernelMachine
from dure.kernel.objective import ScoreMeter, score
from dure.kernel.snapshot import Snapshot, recent, take_snapshot
from dure.sim.kernel.changing import make_changing
from dure.sim.kernel.judging import overall, scores
from dure.sim.kernel.load import Arrivals, ClosedLoop
from dure.sim.kernel.modes import managed
from dure.sim.kernel.ramps import Shape, make_ramp
from dure.sim.kernel.run import Outcome, Setting, machine_settings, run
from dure.sim.kernel.twin import dry_run, twin_load
from tests.kernel.factories import H200, joined, service, tick, working

LENGTH_NS = 6 * NS_PER_S


class Observed:
    """A run of which the last moment is kept as a snapshot."""

    def __init__(self, policy: str) -> None:
        made = make_ramp(3, Shape.STEADY)
        self.setting: Setting = replace(made.setting, duration_ns=LENGTH_NS)
        self.meter = ScoreMeter()
        self.outcome: Outcome = run(
            managed(policy, side_by_side=False), self.setting, record=self._record
        )

    def _record(self, event: Event, _: tuple[Instruction, ...]) -> None:
        if isinstance(event, ReadingsTaken):
            self.meter.add(event.now_ns, event.readings)


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    seen = Observed("hybrid")
    machine = KernelMachine(machine_settings(managed("hybrid", side_by_side=False), seen.setting))
    made: list[Event] = []
    run(
        managed("hybrid", side_by_side=False),
        seen.setting,
        record=lambda event, _: made.append(event),
    )
    for event in made:
        machine.handle(event)
    return take_snapshot(machine, recent(seen.meter), LENGTH_NS)


def test_a_twin_asks_for_what_the_tenant_asked_for(snapshot: Snapshot) -> None:
    made = make_ramp(3, Shape.STEADY).setting
    loads = [twin_load(np.random.default_rng(1), each, 4 * NS_PER_S) for each in snapshot.tenants]
    web, job = loads
    assert isinstance(web.work, Arrivals)
    assert isinstance(job.work, ClosedLoop)
    assert web.program.gpu_ns == pytest.approx(made.loads[0].program.gpu_ns, rel=0.5)
    arrived = made.loads[0].work
    assert isinstance(arrived, Arrivals)
    rate = float((arrived.at_ns < LENGTH_NS).sum()) / 6.0
    assert len(web.work.at_ns) / 4.0 == pytest.approx(rate, rel=0.35)


def test_a_dry_run_is_the_same_for_the_same_seed_and_leaves_its_snapshot_alone(
    snapshot: Snapshot,
) -> None:
    choices = (Choice("slo"), Choice("hybrid"))
    first = dry_run(snapshot, choices, seed=1, horizon_ns=2 * NS_PER_S)
    assert first == dry_run(snapshot, choices, seed=1, horizon_ns=2 * NS_PER_S)
    assert all(0.0 <= each.score <= 1.0 for each in first)


def test_nothing_is_foretold_where_nobody_asked_for_anything() -> None:
    machine = joined(service("web"), policy="slo")
    snapshot = take_snapshot(machine, recent(ScoreMeter()), 0)
    assert dry_run(snapshot, (Choice("slo"),), seed=1, horizon_ns=2 * NS_PER_S) == ()


def test_a_snapshot_shares_nothing_with_the_machine_it_was_taken_from() -> None:
    machine, meter = joined(service("web"), policy="slo"), ScoreMeter()
    tick(machine, 1, working("web"))
    taken = take_snapshot(machine, recent(meter), 0)
    before = taken.tenants[0].track.attained_ns
    tick(machine, 2, working("web"))
    assert taken.tenants[0].track.attained_ns == before
    assert machine.settings.accelerator is H200


def test_what_is_measured_of_a_run_is_near_what_really_happened() -> None:
    seen = Observed("slo")
    tenants = {load.tenant.id: load.tenant for load in seen.setting.loads}
    measured = score(seen.meter.deeds(LENGTH_NS, tenants))
    assert measured == pytest.approx(overall(seen.outcome), abs=0.1)


def test_advice_alone_changes_nothing_and_a_run_that_adapts_is_repeatable() -> None:
    made = make_changing(3, duration_ns=5 * NS_PER_S)
    plain = managed("hybrid", side_by_side=made.side_by_side)
    fixed = run(plain, made.setting)
    advised = run(replace(plain, adapt=AdaptBy.ADVISE), made.setting)
    assert scores(advised) == scores(fixed)
    assert advised.dry_runs > 0
    assert all(each.kind is AdviceKind.PROPOSED for each in advised.advice)
    auto = replace(plain, adapt=AdaptBy.AUTO)
    one, two = run(auto, made.setting), run(auto, made.setting)
    assert one.advice == two.advice
    assert scores(one) == scores(two)


def test_a_changing_mix_is_the_same_for_the_same_seed_and_stays_within_its_bounds() -> None:
    one, two = make_changing(5), make_changing(5)
    assert one.changes_ns == two.changes_ns
    assert [load.tenant for load in one.setting.loads] == [
        load.tenant for load in two.setting.loads
    ]
    assert one.changes_ns[0] == 0
    assert one.changes_ns[-1] == one.setting.duration_ns
    assert len(one.changes_ns) >= 3
    assert any(load.tenant.slo.latency for load in one.setting.loads)
    assert any(load.tenant.slo.latency is None for load in one.setting.loads)
