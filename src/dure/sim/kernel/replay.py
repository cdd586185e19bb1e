"""A recorded GPU under another policy: what would have been decided, event by event.

What the tenants did stays as it was recorded, so this shows what another policy would have asked
for at each moment, not what would have followed from it; a dry run (`dure policy advice`) does.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from dure.domain.errors import InputError
from dure.domain.events import PolicyParameters, PolicyRequested
from dure.domain.instructions import Instruction, PublishPlan, RequestRefused
from dure.domain.plan import Plan
from dure.domain.units import NS_PER_S
from dure.sim.kernel.journal import JournalReader

_MOST_SHOWN = 20
"""Moments that are told one by one."""


@dataclass(frozen=True, slots=True)
class Otherwise:
    """A moment at which the other policy begins to want other squads than were in force."""

    at_s: float
    """From the first event."""
    recorded: str
    replayed: str


@dataclass(frozen=True, slots=True)
class PolicyReplay:
    """What another policy would have decided."""

    recorded_policy: str
    """In force when the recording began."""
    policy: str
    events: int
    recorded_plans: int
    replayed_plans: int
    seconds: float
    differing_share: float
    """Of that time, in which other squads would have been in force."""
    tenants: tuple[tuple[str, float, float], ...]
    """Tenant, and the share of the time that it had to give way to somebody: recorded, replayed."""
    moments: tuple[Otherwise, ...]
    note: str = ""


def replay_policy(path: Path, policy: str, parameters: PolicyParameters = ()) -> PolicyReplay:
    """Feed what was recorded to the machine it was recorded of, switched to another policy."""
    reader = JournalReader(path)
    machine = reader.machine()
    before, sides = machine.policy.name, _Sides(machine.plan, machine.plan)
    first_ns = now_ns = -1
    for event, recorded in reader.entries():
        if first_ns < 0:
            first_ns = now_ns = event.now_ns
            switched = machine.handle(PolicyRequested(first_ns, policy, parameters))
            _refuse(switched)
            sides.replayed = _latest(sides.replayed, switched)
        sides.pass_by(event.now_ns - now_ns)
        now_ns = event.now_ns
        switches = isinstance(event, PolicyRequested)
        answered = () if switches else machine.handle(event)
        sides.take(recorded, answered, (now_ns - first_ns) / NS_PER_S)
    if sides.events == 0:
        raise InputError("it holds no event", "record for longer", file=str(path))
    return PolicyReplay(
        before,
        policy,
        sides.events,
        sides.plans["recorded"],
        sides.plans["replayed"],
        sides.whole_ns / NS_PER_S,
        sides.differing_ns / max(sides.whole_ns, 1),
        sides.tenants(),
        tuple(sides.moments),
        reader.note,
    )


class _Sides:
    """The plan that was in force, and the one that would have been."""

    def __init__(self, recorded: Plan | None, replayed: Plan | None) -> None:
        self.recorded = recorded
        self.replayed = replayed
        self.events = self.whole_ns = self.differing_ns = 0
        self.plans: Counter[str] = Counter()
        self.moments: list[Otherwise] = []
        self._yields: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        self._names: dict[str, None] = {}
        self._differed = False

    def pass_by(self, elapsed_ns: int) -> None:
        """Time went by under these plans."""
        self.whole_ns += elapsed_ns
        if self._differ():
            self.differing_ns += elapsed_ns
        for plan, counted in zip((self.recorded, self.replayed), self._yields, strict=True):
            for tenant, gives_way in _giving_way(plan).items():
                self._names.setdefault(tenant)
                counted[tenant] += elapsed_ns * gives_way

    def take(
        self, recorded: tuple[Instruction, ...], answered: tuple[Instruction, ...], at_s: float
    ) -> None:
        """Both answers to one event."""
        self.events += 1
        self.plans["recorded"] += sum(isinstance(each, PublishPlan) for each in recorded)
        self.plans["replayed"] += sum(isinstance(each, PublishPlan) for each in answered)
        self.recorded = _latest(self.recorded, recorded)
        self.replayed = _latest(self.replayed, answered)
        differ = self._differ()
        if differ and not self._differed and len(self.moments) < _MOST_SHOWN:
            self.moments.append(Otherwise(at_s, _shown(self.recorded), _shown(self.replayed)))
        self._differed = differ

    def tenants(self) -> tuple[tuple[str, float, float], ...]:
        """Who had to give way for which share of the time."""
        whole_ns = max(self.whole_ns, 1)
        was, would = self._yields
        return tuple((name, was[name] / whole_ns, would[name] / whole_ns) for name in self._names)

    def _differ(self) -> bool:
        return _shape(self.recorded) != _shape(self.replayed)


def _shape(plan: Plan | None) -> object:
    """Who runs with whom, where, and behind whom; budgets follow the load from tick to tick."""
    if plan is None:
        return None
    return plan.protected, tuple(
        tuple((each.tenant, each.sms, each.beside, each.yields_to) for each in squad.members)
        for squad in plan.squads
    )


def _latest(plan: Plan | None, instructions: tuple[Instruction, ...]) -> Plan | None:
    published = [each.plan for each in instructions if isinstance(each, PublishPlan)]
    return published[-1] if published else plan


def _giving_way(plan: Plan | None) -> dict[str, bool]:
    """Tenants that are held for somebody in some squad of a plan."""
    found: dict[str, bool] = {}
    for squad in plan.squads if plan is not None else ():
        for member in squad.members:
            found[member.tenant] = found.get(member.tenant, False) or bool(member.yields_to)
    return found


def _refuse(instructions: tuple[Instruction, ...]) -> None:
    for each in instructions:
        if isinstance(each, RequestRefused):
            what, _, remedy = each.reason.partition("; ")
            raise InputError(what, remedy, field="--policy")


def _shown(plan: Plan | None) -> str:
    if plan is None:
        return "no plan"
    squads = " | ".join(
        ", ".join(
            f"{member.tenant} on {member.sms.count} SMs"
            + (f" behind {'+'.join(sorted(member.yields_to))}" if member.yields_to else "")
            for member in squad.members
        )
        for squad in plan.squads
    )
    return f"{plan.policy}: {squads or 'no squads'}"
