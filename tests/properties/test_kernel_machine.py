"""What must hold of a kernel machine after any history of events."""

import math

from hypothesis import given, settings

from dure.domain.events import (
    Event,
    PolicyRequested,
    ReadingsTaken,
    TenantChanged,
    TenantJoined,
    TenantLeft,
)
from dure.domain.ids import TenantId
from dure.domain.instructions import (
    Instruction,
    PreviewPlan,
    PublishPlan,
    RequestRefused,
    SetAllotment,
)
from dure.domain.plan import Allotment, Plan
from dure.kernel.machine import KernelMachine
from dure.sim.kernel.journal_codec import decode_entry, encode_entry
from tests.kernel.factories import H200, published, reading
from tests.properties.histories import History, histories

EXAMPLES = settings(max_examples=60)


class Witness:
    """Runs a history and remembers what was handed out."""

    def __init__(self, history: History) -> None:
        self.machine = KernelMachine(history.settings)
        self.allotments: dict[TenantId, Allotment] = {}
        self.claims: set[TenantId] = set()
        self.log: list[tuple[Event, tuple[Instruction, ...]]] = []

    def handle(self, event: Event) -> tuple[Instruction, ...]:
        answers = self.machine.handle(event)
        self.log.append((event, answers))
        refused = any(isinstance(answer, RequestRefused) for answer in answers)
        if isinstance(event, TenantLeft):
            self.allotments.pop(event.tenant, None)
            self.claims.discard(event.tenant)
        elif isinstance(event, TenantJoined | TenantChanged) and not refused:
            self.claims.discard(event.tenant.id)
            if event.tenant.copy_bytes_per_s is not None:
                self.claims.add(event.tenant.id)
        for answer in answers:
            if isinstance(answer, SetAllotment):
                self.allotments[answer.allotment.tenant] = answer.allotment
        return answers


def plans_of(answers: tuple[Instruction, ...]) -> list[Plan]:
    return [answer.plan for answer in answers if isinstance(answer, PublishPlan | PreviewPlan)]


@EXAMPLES
@given(histories())
def test_compute_units_are_never_oversubscribed(history: History) -> None:
    """Sets lie on the device in its granularity; sets meant to be apart do not overlap."""
    witness = Witness(history)
    for event in history.events:
        for plan in plans_of(witness.handle(event)):
            for squad in plan.squads:
                for member in squad.members:
                    lead = squad.members[0]
                    assert 0 <= member.sms.first < member.sms.end <= H200.sms
                    assert member.sms.first % H200.sm_granule == 0
                    assert member.sms.end == H200.sms or member.sms.end % H200.sm_granule == 0
                    beside = member is not lead and lead.tenant not in member.yields_to
                    if beside and lead.sms.count < H200.sms:
                        assert member.sms.overlap(lead.sms) == 0


@EXAMPLES
@given(histories())
def test_memory_and_copy_bandwidth_are_never_oversubscribed(history: History) -> None:
    witness = Witness(history)
    for event in history.events:
        witness.handle(event)
        given_out = witness.allotments
        assert set(given_out) == set(witness.machine.tracks)
        reserved = sum(allotment.memory_reserve_bytes for allotment in given_out.values())
        assert reserved <= H200.memory_bytes
        for allotment in given_out.values():
            others = reserved - allotment.memory_reserve_bytes
            assert allotment.memory_reserve_bytes <= allotment.memory_limit_bytes
            assert allotment.memory_limit_bytes + others <= H200.memory_bytes
        claimed = sum(given_out[tenant].copy_bytes_per_s for tenant in witness.claims)
        assert claimed <= H200.copy_bytes_per_s * (1 + 1e-9)


@EXAMPLES
@given(histories())
def test_weights_stay_finite_and_positive_for_any_slo_history(history: History) -> None:
    witness = Witness(history)
    for event in history.events:
        witness.handle(event)
        for track in witness.machine.tracks.values():
            assert math.isfinite(track.weight)
            assert track.weight > 0.0


@EXAMPLES
@given(histories())
def test_every_tenant_is_in_a_squad_and_nobody_else(history: History) -> None:
    witness = Witness(history)
    for event in history.events:
        witness.handle(event)
        plan = witness.machine.plan
        if plan is not None:
            members = {tenant for squad in plan.squads for tenant in squad.tenants}
            assert members == set(witness.machine.tracks)
            assert set(plan.protected) <= members


@EXAMPLES
@given(histories())
def test_precedence_has_no_cycle(history: History) -> None:
    """A member yields to members before it only, and is in a squad once."""
    witness = Witness(history)
    for event in history.events:
        for plan in plans_of(witness.handle(event)):
            for squad in plan.squads:
                assert len(set(squad.tenants)) == len(squad.tenants)
                for rank, member in enumerate(squad.members):
                    assert set(member.yields_to) <= set(squad.tenants[:rank])


@EXAMPLES
@given(histories())
def test_a_member_is_confined_beside_others_only(history: History) -> None:
    """Who keeps to a part of the device does so for named members; who does not has all of it."""
    witness = Witness(history)
    for event in history.events:
        for plan in plans_of(witness.handle(event)):
            for squad in plan.squads:
                for member in squad.members:
                    assert set(member.beside) <= set(squad.tenants) - {member.tenant}
                    assert not set(member.beside) & set(member.yields_to)
                    assert (member.sms.count < H200.sms) == bool(member.beside)


@EXAMPLES
@given(histories())
def test_those_with_patience_come_first_and_the_protected_are_among_them(
    history: History,
) -> None:
    witness = Witness(history)
    for event in history.events:
        witness.handle(event)
        tracks = tuple(witness.machine.tracks.values())
        appraisal = witness.machine.policy.appraise(tracks, event.now_ns)
        patient = set(appraisal.patience)
        assert set(appraisal.order) == set(appraisal.worth) == set(witness.machine.tracks)
        assert set(appraisal.order[: len(patient)]) == patient
        assert set(appraisal.protected) <= patient
        assert all(math.isfinite(worth.value) for worth in appraisal.worth.values())


@EXAMPLES
@given(histories())
def test_budgets_and_bounds_are_never_negative(history: History) -> None:
    witness = Witness(history)
    for event in history.events:
        for plan in plans_of(witness.handle(event)):
            for squad in plan.squads:
                assert squad.duration_ns > 0
                for member in squad.members:
                    bounds = (member.budget_ns, member.inflight_ns, member.linger_ns)
                    assert min(*bounds, member.patience_ns) >= 0


@EXAMPLES
@given(histories())
def test_a_replay_of_the_journal_gives_identical_instructions(history: History) -> None:
    witness = Witness(history)
    for event in history.events:
        witness.handle(event)
    fresh = KernelMachine(history.settings)
    for event, answers in witness.log:
        recorded_event, recorded = decode_entry(encode_entry(event, answers))
        assert recorded_event == event
        assert recorded == answers
        assert fresh.handle(recorded_event) == recorded


@EXAMPLES
@given(histories())
def test_an_unchanged_state_gives_no_new_plan(history: History) -> None:
    """A reading without news, handled again at the same time, publishes nothing."""
    witness = Witness(history)
    for event in history.events:
        witness.handle(event)
    now_ns = history.events[-1].now_ns
    quiet = tuple(reading(tenant) for tenant in witness.machine.tracks)
    again = ReadingsTaken(now_ns, quiet)
    witness.handle(again)
    assert published(witness.handle(again)) == []


@EXAMPLES
@given(histories())
def test_telling_a_machine_what_it_knows_gives_no_new_plan(history: History) -> None:
    """The same wishes of a tenant, or the same policy, stated twice change nothing."""
    witness = Witness(history)
    for event in history.events:
        witness.handle(event)
    now_ns = history.events[-1].now_ns
    machine = witness.machine
    for track in list(machine.tracks.values()):
        machine.handle(TenantChanged(now_ns, track.tenant))
        assert published(machine.handle(TenantChanged(now_ns, track.tenant))) == []
    name = machine.policy.name
    machine.handle(PolicyRequested(now_ns, name))
    assert published(machine.handle(PolicyRequested(now_ns, name))) == []


@EXAMPLES
@given(histories())
def test_a_dry_run_or_a_refused_request_changes_nothing(history: History) -> None:
    """Leaving out what was only asked or refused gives the same answers to everything else."""
    witness = Witness(history)
    for event in history.events:
        witness.handle(event)
    fresh = KernelMachine(history.settings)
    for event, answers in witness.log:
        if any(isinstance(answer, PreviewPlan | RequestRefused) for answer in answers):
            continue
        assert fresh.handle(event) == answers


@EXAMPLES
@given(histories())
def test_a_switch_changes_the_very_next_plan(history: History) -> None:
    """Whatever the history, the plan in force after a switch is one of the new policy."""
    witness = Witness(history)
    for event in history.events:
        answers = witness.handle(event)
        refused = any(isinstance(answer, RequestRefused) for answer in answers)
        if isinstance(event, PolicyRequested) and not event.dry_run and not refused:
            assert witness.machine.plan is not None
            assert witness.machine.plan.policy == event.policy


@EXAMPLES
@given(histories())
def test_epochs_only_grow(history: History) -> None:
    witness = Witness(history)
    last = 0
    for event in history.events:
        for plan in published(witness.handle(event)):
            assert plan.epoch > last
            last = plan.epoch
