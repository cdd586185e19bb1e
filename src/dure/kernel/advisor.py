"""The advisor of one accelerator: should another policy be in force? Events in, advice out.

It scores what is measured by the declared objective, asks for a dry run when the mix of tenants or
their load changed, when a risk was raised, and now and then; proposes or performs the choice that
does clearly better there; and undoes a switch after which the objective was worse. No clock, no
I/O: it runs in the agent and in the simulator alike.

Hysteresis: what dry runs foretell is averaged over all since the mix last changed, a small gain
must have been foretold by more than one, a switch is given time to show what it is worth before the
next, and a choice that was undone is left alone for a while, each time twice as long.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dure.domain.adaptation import (
    AdaptBy,
    Advice,
    AdviceKind,
    AskDryRun,
    Choice,
    ChoiceInForce,
    DryRunEnded,
)
from dure.domain.events import (
    ReadingsTaken,
    RiskRaised,
    TenantChanged,
    TenantJoined,
    TenantLeft,
)
from dure.domain.ids import TenantId
from dure.domain.tenant import Tenant
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.kernel.chooser import Chooser, Context, EveryPolicy, context
from dure.kernel.objective import ScoreMeter, score
from dure.kernel.shifts import LATELY_NS, LoadShifts

_LEAST_SCORE = 1e-3
_COMPANY = 2
"""Tenants below which there is nothing to choose."""
_SURE = 2.0
"""Standard errors by which a switch must have made things worse to be undone."""

AdvisorEvent = (
    TenantJoined
    | TenantChanged
    | TenantLeft
    | ReadingsTaken
    | RiskRaised
    | DryRunEnded
    | ChoiceInForce
)
AdvisorInstruction = AskDryRun | Advice


@dataclass(frozen=True, slots=True)
class AdvisorSettings:
    """How eager an advisor is."""

    adapt: AdaptBy = AdaptBy.AUTO
    least_gain: float = 0.02
    """Part of the present score that a choice must add to be worth a switch."""
    clear_gain: float = 0.05
    """The same for a gain that needs no second dry run, where what is measured is less, too."""
    every_ns: int = 10 * NS_PER_S
    """Between two dry runs while nothing changes."""
    first_ns: int = 2 * NS_PER_S
    """To the first dry run: before it too little is known of anybody."""
    after_change_ns: int = 2 * NS_PER_S
    """From a change to the dry run: what it brought must have been seen."""
    after_risk_ns: int = 500 * NS_PER_MS
    apart_ns: int = 2 * NS_PER_S
    """Between two dry runs at the least."""
    dwell_ns: int = 4 * NS_PER_S
    """A switch stays at least so long, and is then looked at again."""
    score_ns: int = 5 * NS_PER_S
    """What is measured is taken from the last so long."""
    worse: float = 0.05
    """Part of the score before by which a switch that made things worse is known, where that is
    more than chance."""
    hands_off_ns: int = 60 * NS_PER_S
    """How long what a person chose is left alone."""
    banned_ns: int = 30 * NS_PER_S
    """How long a choice that was undone is left alone, the first time."""


@dataclass(frozen=True, slots=True)
class _Switch:
    """A switch whose worth is not known yet."""

    at_ns: int
    before: Choice
    after: Choice
    measured: float
    error: float
    foretold: float
    """What the dry run gave the choice before it."""


@dataclass(slots=True)
class _Evidence:
    """What dry runs foretold of one choice over the one in force, since the mix last changed."""

    gain: float = 0.0
    dry_runs: int = 0

    def add(self, gain: float) -> None:
        self.dry_runs += 1
        self.gain += (gain - self.gain) / self.dry_runs


@dataclass(slots=True)
class Advisor:
    """Advises on the policy of one accelerator."""

    inforce: Choice
    settings: AdvisorSettings = field(default_factory=AdvisorSettings)
    chooser: Chooser = field(default_factory=EveryPolicy)
    meter: ScoreMeter = field(default_factory=ScoreMeter)
    tenants: dict[TenantId, Tenant] = field(default_factory=dict)
    standing: Advice | None = None
    """What is proposed, or was done last."""
    _shifts: LoadShifts = field(default_factory=LoadShifts)
    _due: tuple[int, str] | None = None
    """When the next dry run is wanted, and why."""
    _first_ns: int | None = None
    """Before this nothing is asked."""
    _asked_ns: int | None = None
    _asking: bool = False
    _why: str = ""
    _switch: _Switch | None = None
    _switched_ns: int | None = None
    _quiet_ns: int = 0
    """Until when nothing is switched."""
    _evidence: dict[Choice, _Evidence] = field(default_factory=dict)
    _banned: dict[Choice, tuple[int, int]] = field(default_factory=dict)
    """Until when each choice is left alone, and for how long that was."""

    def handle(self, event: AdvisorEvent) -> tuple[AdvisorInstruction, ...]:
        """Take in one event; returns what is to be done about it."""
        if self.settings.adapt is AdaptBy.OFF:
            return ()
        return tuple(self._handlers[type(event)](self, event))

    @property
    def measured(self) -> float | None:
        """The objective of the last seconds; None where nobody wanted anything."""
        return score(self.meter.deeds(self.settings.score_ns, self.tenants))

    # What happens

    def _joined(self, event: TenantJoined | TenantChanged) -> list[AdvisorInstruction]:
        known = self.tenants.get(event.tenant.id)
        self.tenants[event.tenant.id] = event.tenant
        what = "joined" if known is None else "was changed"
        self._shifts.restart()
        self._mix_changed(event.now_ns, f"'{event.tenant.id}' {what}")
        return []

    def _left(self, event: TenantLeft) -> list[AdvisorInstruction]:
        if self.tenants.pop(event.tenant, None) is not None:
            self._shifts.restart()
            self._mix_changed(event.now_ns, f"'{event.tenant}' left")
        return []

    def _mix_changed(self, now_ns: int, what: str, known_ns: int = 0) -> None:
        """What was measured and foretold before says nothing any more, but for `known_ns`."""
        self._want(now_ns, max(0, self.settings.after_change_ns - known_ns), what)
        self.meter.restart(known_ns)
        self._evidence.clear()
        self._switch = None

    def _risk(self, event: RiskRaised) -> list[AdvisorInstruction]:
        who = event.risk.tenant or "the device"
        reason = f"a risk was raised for '{who}'"
        self._want(event.now_ns, self.settings.after_risk_ns, reason)
        return []

    def _in_force(self, event: ChoiceInForce) -> list[AdvisorInstruction]:
        """A person switched: after a while that is looked at like any other choice."""
        if event.choice != self.inforce:
            self._switch, self.standing = None, None
            self._quiet_ns = event.now_ns + self.settings.hands_off_ns
            self._enter(event.now_ns, event.choice)
        return []

    def _read(self, event: ReadingsTaken) -> list[AdvisorInstruction]:
        self.meter.add(event.now_ns, event.readings)
        moved = self._shifts.look(event, self.tenants)
        if moved is not None:
            self._mix_changed(event.now_ns, moved, LATELY_NS)
        if self._looks_back(event.now_ns):
            self._want(event.now_ns, 0, "the last switch is looked at again")
        return self._maybe_ask(event.now_ns)

    # Dry runs

    def _want(self, now_ns: int, in_ns: int, reason: str) -> None:
        """Have a dry run soon; one that is wanted sooner stays."""
        if self._first_ns is not None:
            in_ns = max(in_ns, self._first_ns - now_ns)
        at_ns = now_ns + in_ns
        if self._due is None or at_ns < self._due[0] or self._due[0] <= now_ns:
            self._due = (at_ns, reason)

    def _maybe_ask(self, now_ns: int) -> list[AdvisorInstruction]:
        if self._first_ns is None:
            self._first_ns = now_ns + self.settings.first_ns
            self._due = (self._first_ns, "the first look")
        if self._due is None:
            return []
        at_ns, reason = self._due
        early = self._asked_ns is not None and now_ns - self._asked_ns < self.settings.apart_ns
        if now_ns < at_ns or self._asking or early or len(self.tenants) < _COMPANY:
            return []
        self._due = (now_ns + self.settings.every_ns, "a while has passed")
        if self.measured is None:
            return []
        choices = [
            choice for choice in self.chooser.choices(self._context()) if self._may(choice, now_ns)
        ]
        needed = [self.inforce, *([self._switch.before] if self._switch is not None else [])]
        choices += [choice for choice in needed if choice not in choices]
        self._asked_ns, self._asking, self._why = now_ns, True, reason
        return [AskDryRun(tuple(choices), reason)]

    def _may(self, choice: Choice, now_ns: int) -> bool:
        until_ns, _ = self._banned.get(choice, (0, 0))
        return now_ns >= until_ns or choice == self.inforce

    def _context(self) -> Context:
        return context(self.meter, self.tenants, self.settings.score_ns)

    def _ended(self, event: DryRunEnded) -> list[AdvisorInstruction]:
        self._asking = False
        scores = {each.choice: each.score for each in event.foretold}
        present = scores.get(self.inforce)
        measured = self.measured
        if present is None or measured is None:
            return []
        self.chooser.learn(self._context(), self.inforce, scores)
        if self._looks_back(event.now_ns):
            looked = self._look_back(event.now_ns, scores, measured)
            if looked and looked[0].kind is AdviceKind.ROLLED_BACK:
                return [*looked]
            return [*looked, *self._weigh(event.now_ns, scores, measured)]
        return self._weigh(event.now_ns, scores, measured)

    def _weigh(
        self, now_ns: int, scores: dict[Choice, float], measured: float
    ) -> list[AdvisorInstruction]:
        """Whether one of the choices is to be in force."""
        present = scores[self.inforce]
        for choice, foretold in scores.items():
            self._evidence.setdefault(choice, _Evidence()).add(foretold - present)
        best = max(scores, key=lambda choice: (self._evidence[choice].gain, choice == self.inforce))
        found, base = self._evidence[best], max(present, _LEAST_SCORE)
        if best == self.inforce or found.gain < 0.5 * self.settings.least_gain * base:
            return self._withdraw()
        clear = found.gain >= self.settings.clear_gain * base and measured < scores[best]
        sure = clear or found.dry_runs > 1
        if not sure or found.gain < self.settings.least_gain * base:
            self._want(now_ns, 0, self._why)
            return []
        return self._advise(now_ns, best, measured, present)

    def _withdraw(self) -> list[AdvisorInstruction]:
        """A proposal that no longer holds is taken back."""
        if self.standing is not None and self.standing.kind is AdviceKind.PROPOSED:
            self.standing = None
        return []

    def _advise(
        self, now_ns: int, best: Choice, measured: float, present: float
    ) -> list[AdvisorInstruction]:
        settings, gain = self.settings, self._evidence[best].gain
        ready_ns = 0 if self._switched_ns is None else self._switched_ns + settings.dwell_ns
        if settings.adapt is AdaptBy.AUTO:
            ready_ns = max(ready_ns, self._quiet_ns)
        if now_ns < ready_ns:
            self._want(now_ns, min(ready_ns - now_ns, settings.every_ns), self._why)
            return []
        reason = (
            f"{self._why}; dry runs give it {gain:+.3f} over {self.inforce}, "
            f"which scored {measured:.3f} of 1 in the last {settings.score_ns / NS_PER_S:g} s"
        )
        kind = AdviceKind.SWITCHED if settings.adapt is AdaptBy.AUTO else AdviceKind.PROPOSED
        advice = Advice(now_ns, kind, self.inforce, best, measured, gain, reason)
        known = self.standing
        repeated = known is not None and (known.kind, known.after) == (kind, best)
        self.standing = advice
        if kind is AdviceKind.PROPOSED:
            return [] if repeated else [advice]
        error = self.meter.error(settings.score_ns, self.tenants)
        self._switch = _Switch(now_ns, self.inforce, best, measured, error, present)
        self._enter(now_ns, best)
        return [advice]

    def _enter(self, now_ns: int, choice: Choice) -> None:
        self.inforce, self._switched_ns = choice, now_ns
        self._evidence.clear()
        self.meter.restart()

    # Looking back

    def _looks_back(self, now_ns: int) -> bool:
        """Whether a switch is old enough to be judged."""
        return self._switch is not None and now_ns - self._switch.at_ns >= self.settings.dwell_ns

    def _look_back(self, now_ns: int, scores: dict[Choice, float], measured: float) -> list[Advice]:
        """Whether a switch did what it was to do; it is undone where things are worse.

        Worse than what the choice before would give now: that is what was measured of it, less what
        dry runs say that the load has taken from it since.
        """
        switch, settings = self._switch, self.settings
        if switch is None or switch.before not in scores:
            return []
        self._switch = None
        moved = min(1.0, scores[switch.before] / max(switch.foretold, _LEAST_SCORE))
        expected = switch.measured * moved
        added = measured - expected
        error = math.hypot(switch.error, self.meter.error(settings.score_ns, self.tenants))
        if -added <= max(settings.worse * expected, _SURE * error):
            said = f"{measured:.3f} measured, {expected:.3f} expected without it"
            self.standing = Advice(
                now_ns, AdviceKind.KEPT, switch.before, switch.after, expected, added, said
            )
            return [self.standing]
        return [self._undo(now_ns, switch, expected, measured)]

    def _undo(self, now_ns: int, switch: _Switch, expected: float, measured: float) -> Advice:
        _, length_ns = self._banned.get(switch.after, (0, self.settings.banned_ns // 2))
        length_ns *= 2
        self._banned[switch.after] = (now_ns + length_ns, length_ns)
        reason = (
            f"it scored {measured:.3f} of 1, {switch.before} would have had {expected:.3f}; "
            f"left alone for {length_ns / NS_PER_S:g} s"
        )
        self.standing = Advice(
            now_ns,
            AdviceKind.ROLLED_BACK,
            switch.after,
            switch.before,
            measured,
            expected - measured,
            reason,
        )
        self._enter(now_ns, switch.before)
        return self.standing

    _handlers: ClassVar[dict[type, Callable[["Advisor", Any], list[AdvisorInstruction]]]] = {
        TenantJoined: _joined,
        TenantChanged: _joined,
        TenantLeft: _left,
        ReadingsTaken: _read,
        RiskRaised: _risk,
        DryRunEnded: _ended,
        ChoiceInForce: _in_force,
    }
