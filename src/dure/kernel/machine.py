"""The kernel machine: events in, instructions out. No clock, no I/O, no randomness.

Everything it knows came in an event, so a journal of events replays to the same instructions.
One instance looks after one accelerator.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dure.domain.accelerator import AcceleratorProfile
from dure.domain.errors import InputError, InvariantError
from dure.domain.events import (
    Event,
    PolicyParameters,
    PolicyRequested,
    ProgressReported,
    ReadingsTaken,
    RiskCleared,
    RiskRaised,
    TenantChanged,
    TenantJoined,
    TenantLeft,
)
from dure.domain.ids import PlanEpoch, TenantId
from dure.domain.instructions import (
    Instruction,
    PolicySwitched,
    PreviewPlan,
    PublishPlan,
    RaiseSignal,
    RequestRefused,
    SetAllotment,
)
from dure.domain.plan import Plan, SmSet
from dure.domain.readings import KernelSample, TenantReading
from dure.domain.risks import WeightsBy
from dure.domain.signals import Signal, SignalKind
from dure.kernel.adapting import adapt_weights
from dure.kernel.interference import Interference
from dure.kernel.planner import Planner
from dure.kernel.policies.base import Appraisal, Policy, Worth
from dure.kernel.policies.registry import make_policy
from dure.kernel.resources import Allotments, whole
from dure.kernel.squads import SquadSearch
from dure.kernel.track import Track
from dure.kernel.trial import Trial, measured_worth


@dataclass(frozen=True, slots=True)
class MachineSettings:
    """What a kernel machine is started with."""

    accelerator: AcceleratorProfile
    policy: str = "hybrid"
    parameters: PolicyParameters = ()
    side_by_side: bool = False
    """Whether kernels of different tenants can overlap (the MPS substrate)."""
    weights: WeightsBy = WeightsBy.FORESEEN
    """What Eq. 3 moves weights by."""
    validate: bool = False
    """Check invariants after every event; for tests."""


@dataclass(slots=True)
class KernelMachine:
    """Decides for one accelerator."""

    settings: MachineSettings
    policy: Policy = field(init=False)
    interference: Interference = field(default_factory=Interference)
    tracks: dict[TenantId, Track] = field(default_factory=dict)
    plan: Plan | None = None
    _allotments: Allotments = field(init=False)
    _search: SquadSearch = field(init=False)
    _planner: Planner = field(init=False)
    _epoch: int = 0
    _now_ns: int = 0
    _read_ns: int | None = None
    _trial: Trial = field(default_factory=Trial)
    _worth: dict[TenantId, Worth] = field(default_factory=dict)
    _sets: dict[TenantId, SmSet] = field(default_factory=dict)
    _everything: SmSet = field(init=False)
    _alarms: set[tuple[TenantId, SignalKind]] = field(default_factory=set)
    _advised_bytes: dict[TenantId, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings = self.settings
        self.policy = make_policy(settings.policy, settings.parameters)
        self._allotments = Allotments(settings.accelerator)
        self._everything = whole(settings.accelerator)
        self._search = SquadSearch(settings.accelerator, self.interference, settings.side_by_side)
        self._planner = Planner(settings.accelerator, self.interference, settings.side_by_side)

    def handle(self, event: Event) -> tuple[Instruction, ...]:
        """Take in one event; returns what is to be done about it."""
        if event.now_ns < self._now_ns:
            raise InvariantError(
                f"event at {event.now_ns} ns comes after one at {self._now_ns} ns",
                "feed events in the order of their time",
            )
        self._now_ns = event.now_ns
        instructions = self._handlers[type(event)](self, event)
        if self.settings.validate:
            self._validate()
        return tuple(instructions)

    # Tenants

    def _joined(self, event: TenantJoined) -> list[Instruction]:
        return self._admit(
            event, Track.start(event.tenant, self.settings.accelerator, event.now_ns)
        )

    def _changed(self, event: TenantChanged) -> list[Instruction]:
        track = self.tracks.get(event.tenant.id)
        if track is None:
            return [RequestRefused(f"tenant '{event.tenant.id}' is not here")]
        return self._admit(event, track)

    def _admit(self, event: TenantJoined | TenantChanged, track: Track) -> list[Instruction]:
        try:
            changed = self._allotments.give(event.tenant)
        except InputError as error:
            return [RequestRefused(str(error))]
        known = self.tracks.setdefault(event.tenant.id, track)
        known.retell(event.tenant)
        return [*(SetAllotment(allotment) for allotment in changed), *self._replan()]

    def _left(self, event: TenantLeft) -> list[Instruction]:
        if self.tracks.pop(event.tenant, None) is None:
            return []
        self.interference.forget(event.tenant)
        self._alarms = {alarm for alarm in self._alarms if alarm[0] != event.tenant}
        self._advised_bytes.pop(event.tenant, None)
        changed = self._allotments.take_back(event.tenant)
        return [*(SetAllotment(allotment) for allotment in changed), *self._replan()]

    # Learning

    def _read(self, event: ReadingsTaken) -> list[Instruction]:
        elapsed = event.now_ns - self._read_ns if self._read_ns is not None else 0
        self._read_ns = event.now_ns
        for reading in event.readings:
            track = self.tracks.get(reading.tenant)
            if track is not None:
                track.learn(event.now_ns, elapsed, reading)
        self._learn_samples(event.samples)
        for track in self.tracks.values():
            self.interference.describe(track.id, track.book.mix)
        adapted: list[Instruction] = []
        if elapsed > 0:
            self._learn_trial(event.now_ns, elapsed, event.readings)
            self.interference.age()
            for track in self.tracks.values():
                track.adapt_patience()
            if self.settings.weights is not WeightsBy.FROZEN:
                adapted = adapt_weights(self.tracks.values())
        return [*self._signals(), *adapted, *self._replan()]

    # Risks

    def _risk_raised(self, event: RiskRaised) -> list[Instruction]:
        """A tenant's promise is foreseen to fail: the next steps of Eq. 3 reckon with it."""
        risk = event.risk
        track = self.tracks.get(risk.tenant) if risk.tenant is not None else None
        if track is not None and self.settings.weights is WeightsBy.FORESEEN:
            track.risks[risk.series, risk.kind] = risk
        return []

    def _risk_cleared(self, event: RiskCleared) -> list[Instruction]:
        track = self.tracks.get(event.tenant) if event.tenant is not None else None
        if track is not None:
            track.risks.pop((event.series, event.kind), None)
        return []

    def _learn_trial(
        self, now_ns: int, elapsed_ns: int, readings: tuple[TenantReading, ...]
    ) -> None:
        """Let the way of sharing in force show what it is worth."""
        parts = [
            measured_worth(self._worth[reading.tenant], reading, elapsed_ns)
            for reading in readings
            if reading.tenant in self._worth
        ]
        self._trial.learn(now_ns, elapsed_ns, parts)

    def _learn_samples(self, samples: tuple[KernelSample, ...]) -> None:
        """Durations alone go to the tenant's book; in company, their sum tells the slow-down."""
        sums: dict[tuple[TenantId, int, tuple[TenantId, ...]], tuple[float, float]] = {}
        for sample in samples:
            track = self.tracks.get(sample.tenant)
            alone_ns = track.book.learn(sample) if track is not None else None
            if alone_ns is not None:
                key = (sample.tenant, sample.sms, sample.company)
                took, alone = sums.get(key, (0.0, 0.0))
                sums[key] = (took + sample.total_ns, alone + alone_ns)
        for (tenant, sms, others), (took, alone) in sums.items():
            own = self._sms_of(tenant)
            if own.count != sms:
                own = self._everything
            width = self.tracks[tenant].book.width_share * self.settings.accelerator.sms
            company = tuple(
                (other, self.interference.contest(own, width, self._sms_of(other)))
                for other in others
                if other in self.tracks
            )
            parts = self.interference.company(tenant, company)
            self.interference.observe(tenant, parts, took / max(alone, 1.0))

    def _progress(self, event: ProgressReported) -> list[Instruction]:
        track = self.tracks.get(event.tenant)
        if track is not None:
            track.report_progress(event.done, event.total)
        return []

    # Policies

    def _requested(self, event: PolicyRequested) -> list[Instruction]:
        try:
            policy = make_policy(event.policy, event.parameters)
        except InputError as error:
            return [RequestRefused(str(error))]
        if event.dry_run:
            preview, _ = self._make_plan(policy, self._search.anew(), Trial())
            same = preview.same_orders(self.plan)
            return [PreviewPlan(preview, "no change" if same else _difference(self.plan, preview))]
        before, self.policy = self.policy.name, policy
        self._search = self._search.anew()
        self._trial = Trial()  # its scores are on the old policy's scale
        return [PolicySwitched(before, policy.name), *self._replan()]

    # Planning

    def _replan(self) -> list[Instruction]:
        """Publish a plan if it differs from the one in force."""
        plan, appraisal = self._make_plan(self.policy, self._search, self._trial)
        self._worth = appraisal.worth
        if plan.same_orders(self.plan):
            return []
        self._epoch += 1
        self.plan = plan
        self._sets = {m.tenant: m.sms for squad in reversed(plan.squads) for m in squad.members}
        return [PublishPlan(plan)]

    def _make_plan(
        self, policy: Policy, search: SquadSearch, trial: Trial
    ) -> tuple[Plan, Appraisal]:
        tracks = tuple(self.tracks.values())
        appraisal = policy.appraise(tracks, self._now_ns)
        if appraisal.trial and trial.free and self.settings.side_by_side:
            companies = search.everybody_free(self.tracks)
        else:
            companies = search.companies(self.tracks, appraisal, self._now_ns)
        plan = self._planner.plan(
            tracks,
            appraisal,
            companies,
            epoch=PlanEpoch(self._epoch + 1),
            policy=policy.name,
            now_ns=self._now_ns,
        )
        return plan, appraisal

    def _sms_of(self, tenant: TenantId) -> SmSet:
        """Where the plan in force confines a tenant in company."""
        return self._sets.get(tenant, self._everything)

    # Noticing

    def _signals(self) -> list[Instruction]:
        """Raise what is new; what goes on is not repeated."""
        raised: list[Instruction] = []
        for track in self.tracks.values():
            for kind, active in _dangers(track, self._now_ns):
                key = (track.id, kind)
                if active and key not in self._alarms:
                    self._alarms.add(key)
                    raised.append(RaiseSignal(_signal(kind, track, self._now_ns)))
                elif not active:
                    self._alarms.discard(key)
            raised += self._advise_memory(track)
        return raised

    def _advise_memory(self, track: Track) -> list[Instruction]:
        """Suggest a limit once it differs from the one in force and from the last suggestion."""
        advised = track.suggested_limit_bytes()
        limit = track.tenant.memory.limit_bytes
        if advised is None or advised == self._advised_bytes.get(track.id):
            return []
        self._advised_bytes[track.id] = advised
        if limit is not None and limit <= advised:
            return []
        current = float(limit or self.settings.accelerator.memory_bytes)
        kind = SignalKind.MEMORY_LIMIT_SUGGESTED
        return [RaiseSignal(Signal(kind, track.id, float(advised), current))]

    def _validate(self) -> None:
        """Invariants that hold after every event."""
        accelerator = self.settings.accelerator
        if self._allotments.reserved_bytes > accelerator.memory_bytes:
            raise InvariantError("reserved memory exceeds the device's")
        if self._allotments.copy_bytes_per_s > accelerator.copy_bytes_per_s * (1 + 1e-9):
            raise InvariantError("promised copy bandwidth exceeds the link's")
        for track in self.tracks.values():
            if not 0.0 < track.weight < float("inf"):
                raise InvariantError(f"weight of '{track.id}' is {track.weight}")
        for squad in self.plan.squads if self.plan is not None else ():
            if set(squad.tenants) != set(self.tracks):
                raise InvariantError(f"squad {squad.tenants} leaves out a tenant")
            sets = {member.tenant: member.sms for member in squad.members}
            for member in squad.members:
                if not 0 <= member.sms.first < member.sms.end <= accelerator.sms:
                    raise InvariantError(f"'{member.tenant}' was given {member.sms}")
            first = squad.members[0]
            if any(first.sms.overlap(sets[other]) for other in first.beside):
                raise InvariantError(f"'{first.tenant}' was to have {first.sms} to itself")

    _handlers: ClassVar[dict[type, Callable[["KernelMachine", Any], list[Instruction]]]] = {
        TenantJoined: _joined,
        TenantChanged: _changed,
        TenantLeft: _left,
        ReadingsTaken: _read,
        ProgressReported: _progress,
        PolicyRequested: _requested,
        RiskRaised: _risk_raised,
        RiskCleared: _risk_cleared,
    }


def _dangers(track: Track, now_ns: int) -> list[tuple[SignalKind, bool]]:
    """What a tenant was promised, and whether it is in danger now."""
    attainment, slo = track.attainment, track.tenant.slo
    found = []
    if slo.latency is not None:
        found.append((SignalKind.LATENCY_AT_RISK, attainment.latency_at_risk()))
    if slo.throughput is not None:
        found.append((SignalKind.THROUGHPUT_AT_RISK, attainment.throughput_at_risk()))
    if slo.availability is not None:
        found.append((SignalKind.AVAILABILITY_AT_RISK, attainment.availability_at_risk()))
    if track.tenant.deadline_ns is not None:
        found.append((SignalKind.DEADLINE_AT_RISK, track.deadline_at_risk(now_ns)))
    return found


def _signal(kind: SignalKind, track: Track, now_ns: int) -> Signal:
    """A danger with the figures behind it."""
    attainment, tenant = track.attainment, track.tenant
    measured, expected = 0.0, 0.0
    if kind is SignalKind.LATENCY_AT_RISK and tenant.slo.latency is not None:
        measured, expected = attainment.latency_ns(), float(tenant.slo.latency.target_ns)
    elif kind is SignalKind.THROUGHPUT_AT_RISK:
        measured, expected = attainment.throughput_share(), 1.0
    elif kind is SignalKind.AVAILABILITY_AT_RISK and tenant.slo.availability is not None:
        measured, expected = attainment.availability(), tenant.slo.availability.share
    elif tenant.deadline_ns is not None:
        measured, expected = track.remaining()[0], float(tenant.deadline_ns - now_ns)
    return Signal(kind, track.id, measured, expected)


def _difference(before: Plan | None, after: Plan) -> str:
    """In a sentence, what a switch would change."""
    if before is None:
        return f"{len(after.squads)} squads where there are none"
    held_before = {m.tenant: m.yields_to for s in before.squads[:1] for m in s.members}
    held_after = {m.tenant: m.yields_to for s in after.squads[:1] for m in s.members}
    moved = sorted(
        tenant for tenant, yields in held_after.items() if yields != held_before.get(tenant)
    )
    who = f"; held for others than now: {', '.join(moved)}" if moved else ""
    return (
        f"{before.policy} to {after.policy}: {len(before.squads)} squads become "
        f"{len(after.squads)}{who}"
    )
