"""Takes plans in: what is new starts, what is no longer wanted ends, and the centre is answered."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dure.domain.fleet.protocol.desired import (
    AttemptKey,
    Desired,
    Plan,
    PlanAnswer,
    Refusal,
    Surroundings,
    Want,
)
from dure.domain.fleet.protocol.reports import Outcome
from dure.domain.ids import ClusterId
from dure.member.core import memo
from dure.member.core.books import Books
from dure.member.core.desires import DesiredSet
from dure.member.core.ground import Ground
from dure.member.core.held import Ended, Held
from dure.member.core.lives import Lives
from dure.member.core.stage import Stage


@dataclass(slots=True)
class Intake:
    """The desired set, and what each plan makes of it."""

    cluster: ClusterId
    books: Books
    stage: Stage
    lives: Lives
    ground: Ground
    desires: DesiredSet = field(default_factory=DesiredSet)
    planned: bool = False
    """Whether a plan was taken since the start: what it does not have may be stopped."""
    head_changed: bool = False
    """Whether another plan was taken than the one that is remembered."""
    _around_changed: bool = False
    _dropped: list[str] = field(default_factory=list)

    # Memory

    def load(self, entries: Mapping[str, Any], desires: DesiredSet) -> None:
        """Go on from what is remembered."""
        self.desires = desires
        for held in memo.read_attempts(entries):
            assert held.desired is not None
            self.books.add(held)
            self.desires.items[held.key] = held.desired
            self.books.changed(held)
        self.stage.surroundings = memo.read_surroundings(entries)

    def memory(self) -> tuple[dict[str, Any], list[str]]:
        """Entries of attempts and surroundings that changed, and entries to remove."""
        changed: dict[str, Any] = {}
        for key in self.books.unsaved:
            held = self.books.attempts.get(key)
            if held is not None and held.wanted:
                changed[memo.name_of(key)] = memo.entry(held)
        if self._around_changed and self.stage.surroundings is not None:
            changed[memo.SURROUNDINGS] = memo.surroundings(self.stage.surroundings)
        removed, self._dropped, self._around_changed = self._dropped, [], False
        self.books.unsaved.clear()
        return changed, removed

    # Plans

    def unknown(self, plan: Plan) -> list[Desired]:
        """Attempts of a plan that are new here: its cluster must say whether it can run them."""
        return [
            each
            for each in plan.desired
            if each.want is Want.RUN and each.key not in self.desires.items
        ]

    def take(self, plan: Plan, refusals: Mapping[AttemptKey, str], now_ns: int) -> str:
        """Take a plan; what speaks against it where it is not taken. `refusals`: what the cluster
        says of the new attempts."""
        objection = self.desires.objection(plan)
        if objection:
            return objection
        changed, removed = self.desires.take(plan)
        self.planned = self.head_changed = True
        for key in removed:
            self._drop(key)
        if plan.surroundings is not None:
            self._surround(plan.surroundings, now_ns)
        for each in sorted(changed, key=lambda desired: desired.key):
            self._want(each, refusals.get(each.key, ""), now_ns)
        return ""

    def answer(self, plan: Plan) -> PlanAnswer:
        """What is said to a plan that was taken."""
        accepted: list[AttemptKey] = []
        refused: list[Refusal] = []
        for each in plan.desired:
            held = self.books.attempts.get(each.key)
            if each.want is not Want.RUN or held is None:
                continue
            if held.end is not None and held.end.outcome is Outcome.TURNED_DOWN:
                refused.append(Refusal(each.key, held.end.why))
            else:
                accepted.append(each.key)
        return PlanAnswer(
            epoch=plan.epoch,
            revision=plan.revision,
            taken=True,
            accepted=tuple(accepted),
            refused=tuple(refused),
        )

    def _surround(self, around: Surroundings, now_ns: int) -> None:
        known, self.stage.surroundings = self.stage.surroundings, around
        same = known is not None and memo.surroundings(known) == memo.surroundings(around)
        if same:
            return
        self._around_changed = True
        if self.ground.divisions.want(around.partitions, now_ns):
            self.ground.look_again(now_ns)
        if not self.ground.synced:
            return
        if known is None or _standing(known) != _standing(around):
            self.stage.build(now_ns)
        else:
            self.stage.inform(now_ns)

    def _drop(self, key: AttemptKey) -> None:
        held = self.books.attempts[key]
        held.wanted = False
        self._dropped.append(memo.name_of(key))
        self.ground.teller.drop(key)

    def _want(self, desired: Desired, refusal: str, now_ns: int) -> None:
        """An attempt is new in the desired set, or said differently."""
        key = desired.key
        held = self.books.attempts.get(key)
        if held is None:
            held = Held(key, desired, wanted=True)
            self.books.add(held)
        held.desired, held.wanted = desired, True
        self.books.unsaved.add(key)
        self.books.changed(held)
        self.lives.judge(held, now_ns)
        if held.end is not None:
            return
        if desired.want is Want.RELEASE:
            why = desired.why or "the centre asked for it"
            self.stage.finish(held, Ended(Outcome.STOPPED, why, now_ns))
            return
        refusal = refusal or self._refusal(held)
        if refusal and not held.hands:
            self.stage.finish(held, Ended(Outcome.TURNED_DOWN, refusal, now_ns))
            return
        self._make_way(held, now_ns)
        if self.stage.machine is not None and not self.stage.has(held):
            self._give(held, now_ns)

    def _give(self, held: Held, now_ns: int) -> None:
        self.stage.give(held, now_ns)
        if held.end is None and not self.stage.has(held):
            why = "a newer attempt of it was here"
            self.stage.finish(held, Ended(Outcome.TURNED_DOWN, why, now_ns))

    def _refusal(self, held: Held) -> str:
        """What this member itself has against an attempt."""
        assert held.desired is not None
        site, layout = held.desired.order.site, self.books.layout
        if site.cluster != self.cluster:
            return f"it is for cluster '{site.cluster}', this is '{self.cluster}'"
        groups = [group.name for group in layout.inventory.groups] if layout is not None else []
        if self.ground.synced and site.group not in groups:
            return f"there is no node group '{site.group}' here"
        if self.stage.surroundings is None:
            return "the centre has not said what surrounds this cluster"
        return ""

    def _make_way(self, held: Held, now_ns: int) -> None:
        """A newer attempt of a job ends the older ones; those of a service end when it is warm."""
        if held.serving:
            return
        for other in self.books.of_job(held.key.job):
            if other.key.attempt < held.key.attempt and other.runs_on:
                why = f"attempt {held.key.attempt} replaces it"
                self.stage.finish(other, Ended(Outcome.STOPPED, why, now_ns))


def _standing(around: Surroundings) -> tuple[object, ...]:
    """What the local stage is built with. Hours of prices come in all the time and change it least;
    they are taken over when it is next built."""
    cluster = around.cluster
    return (cluster.id, cluster.tariff, cluster.pue, around.round_trip_ms)
