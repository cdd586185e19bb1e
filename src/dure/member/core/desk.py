"""The core of a member: takes in plans, sights and the time, and says what is to be done and told.

No clock and no hands: whoever drives it passes the time, carries out `actions()`, stores `memory()`
and sends `news()`. Before `Synced` nothing is decided; what exists is only gathered.

Order that whoever drives it keeps: what `memory()` calls urgent is stored before the next `news()`
is sent. An end that was told and then forgotten would let an attempt run twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dure.domain.fleet.decisions import InstanceId
from dure.domain.fleet.events import NodeBack, NodeCordoned, NodeLost, OrderWithdrawn
from dure.domain.fleet.lifecycle import PartitionPhase
from dure.domain.fleet.protocol import (
    AttemptKey,
    Desired,
    Inventory,
    NodeFact,
    Outcome,
    Partition,
    Plan,
    PlanAnswer,
    Refusal,
    Report,
    Surroundings,
    Want,
)
from dure.domain.ids import ClusterId
from dure.domain.units import NS_PER_S
from dure.member.core import memo
from dure.member.core.actions import Action
from dure.member.core.books import Books
from dure.member.core.desires import DesiredSet
from dure.member.core.divisions import Divisions
from dure.member.core.held import Ended, Hand, Held
from dure.member.core.layout import Layout, is_cordoned
from dure.member.core.lives import Lives
from dure.member.core.loads import Loads
from dure.member.core.stage import Stage
from dure.member.core.teller import Teller
from dure.member.ports import (
    InventoryChanged,
    Life,
    Loaded,
    Progressed,
    Seen,
    Sight,
    Start,
    Synced,
    Taken,
    Unreachable,
    Warned,
)

_CONTACT_PARTS = 8
"""The time of the last contact is stored at every such part of the shortest time to fence."""


@dataclass(slots=True)
class Desk:
    """Everything a member knows and decides."""

    cluster: ClusterId
    books: Books = field(default_factory=Books)
    desires: DesiredSet = field(default_factory=DesiredSet)
    stage: Stage = field(init=False)
    lives: Lives = field(init=False)
    loads: Loads = field(default_factory=Loads)
    divisions: Divisions = field(init=False)
    teller: Teller = field(init=False)
    synced: bool = False
    planned: bool = False
    """Whether a plan was taken since the start: what it does not have may be stopped."""
    contact_ns: int = 0
    """When the centre has surely heard of this member."""
    _saved_contact_ns: int = 0
    _head_changed: bool = False
    _around_changed: bool = False
    _dropped: list[str] = field(default_factory=list)
    _inventory: Inventory | None = None
    """As it was last seen."""
    _now_ns: int = 0

    def __post_init__(self) -> None:
        self.stage = Stage(self.books)
        self.lives = Lives(self.books, self.stage)
        self.divisions = Divisions(self.books)
        self.teller = Teller(self.books, self.stage, self.loads, self.divisions)

    # Memory

    def load(self, entries: Mapping[str, Any], now_ns: int) -> None:
        """Remember what was known before this member started; the first thing to be called."""
        self._now_ns = now_ns
        self.desires, contact_ns = memo.read_head(entries)
        for held in memo.read_attempts(entries):
            assert held.desired is not None
            self.books.add(held)
            self.desires.items[held.key] = held.desired
            self.books.changed(held)
        self.stage.surroundings = memo.read_surroundings(entries)
        self.divisions.load(entries)
        if self.stage.surroundings is not None:
            self.divisions.want(self.stage.surroundings.partitions, now_ns)
        self.contact_ns = now_ns if contact_ns is None else contact_ns
        if self.contact_ns > now_ns:  # the clock was set back: nobody knows how long ago it was
            self.contact_ns = -(2**62)
        self._saved_contact_ns = self.contact_ns

    def memory(self) -> tuple[dict[str, Any], list[str], bool]:
        """Entries that changed, entries to remove, and whether they must be safe before news."""
        changed: dict[str, Any] = {}
        for key in self.books.unsaved:
            held = self.books.attempts.get(key)
            if held is not None and held.wanted:
                changed[memo.name_of(key)] = memo.entry(held)
        if self._around_changed and self.stage.surroundings is not None:
            changed[memo.SURROUNDINGS] = memo.surroundings(self.stage.surroundings)
        if self._head_changed or self._contact_is_old():
            changed[memo.HEAD] = memo.head(self.desires, self.contact_ns)
            self._saved_contact_ns = self.contact_ns
        divisions, divided = self.divisions.memory()
        changed |= divisions
        removed = [name for name in [*self._dropped, *divided] if name not in changed]
        urgent = self.books.urgent
        self.books.unsaved.clear()
        self.books.urgent = self._around_changed = self._head_changed = False
        self._dropped = []
        return changed, removed, urgent

    def _contact_is_old(self) -> bool:
        fences = [
            held.desired.fence_after_s
            for held in self.books.attempts.values()
            if held.desired is not None and held.desired.fence_after_s is not None
        ]
        if not fences:
            return False
        step_ns = max(round(min(fences) * NS_PER_S) // _CONTACT_PARTS, NS_PER_S)
        return self.contact_ns - self._saved_contact_ns >= step_ns

    # Plans

    def unknown(self, plan: Plan) -> list[Desired]:
        """Attempts of a plan that are new here: its cluster must say whether it can run them."""
        return [
            each
            for each in plan.desired
            if each.want is Want.RUN and each.key not in self.desires.items
        ]

    def plan(self, plan: Plan, refusals: Mapping[AttemptKey, str], now_ns: int) -> PlanAnswer:
        """Take a plan, or say why not; `refusals`: what the cluster says of the new attempts."""
        now_ns = self._at(now_ns)
        objection = self.desires.objection(plan)
        if objection:
            return PlanAnswer(plan.epoch, plan.revision, taken=False, why=objection)
        changed, removed = self.desires.take(plan)
        self.planned, self._head_changed = True, True
        for key in removed:
            self._drop(key)
        if plan.surroundings is not None:
            self._surround(plan.surroundings, now_ns)
        for each in sorted(changed, key=lambda desired: desired.key):
            self._want(each, refusals.get(each.key, ""), now_ns)
        self.settle(now_ns)
        return self._answer(plan)

    def _surround(self, around: Surroundings, now_ns: int) -> None:
        known, self.stage.surroundings = self.stage.surroundings, around
        same = known is not None and memo.surroundings(known) == memo.surroundings(around)
        if same:
            return
        self._around_changed = True
        if self.divisions.want(around.partitions, now_ns):
            self._look_again(now_ns)
        if not self.synced:
            return
        if known is None or _standing(known) != _standing(around):
            self.stage.build(now_ns)
        else:
            self.stage.inform(now_ns)

    def _drop(self, key: AttemptKey) -> None:
        held = self.books.attempts[key]
        held.wanted = False
        self._dropped.append(memo.name_of(key))
        self.teller.drop(key)

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
        if self.synced and site.group not in groups:
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

    def _answer(self, plan: Plan) -> PlanAnswer:
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

    # Sights

    def see(self, sight: Sight, now_ns: int) -> None:
        """Take in what the cluster shows."""
        now_ns = self._at(now_ns)
        match sight:
            case Seen():
                self.lives.see(sight, now_ns)
            case InventoryChanged():
                self._inventory = sight.inventory
                self._look_again(now_ns)
            case Taken():
                self.stage.taken[sight.node] = sight
                self.stage.foreign(sight, now_ns)
            case Progressed():
                self.lives.progressed(sight, now_ns)
            case Loaded():
                self._loaded(sight)
            case Synced():
                self._sync(now_ns)
            case Unreachable():
                self.stage.warnings.append(f"the cluster does not answer: {sight.why}")
            case Warned():
                self.stage.warnings.append(sight.what)

    def _sync(self, now_ns: int) -> None:
        if self.synced:
            return
        self.synced = self.lives.judging = True
        for held in list(self.books.attempts.values()):
            if held.done and held.runs_on:  # and no silence since then makes it undone
                self.lives.judge(held, now_ns)
        self._fence(now_ns)
        for held in list(self.books.attempts.values()):
            self.lives.pair(held)
            self.lives.judge(held, now_ns)
        self.stage.build(now_ns)

    def _look_again(self, now_ns: int) -> None:
        """Nodes changed, or which of them are held."""
        if self._inventory is None:
            return
        inventory = self.divisions.mark(self._inventory)
        known, layout = self.books.layout, Layout(inventory)
        self.books.layout = layout
        self.teller.inventory_changed = True
        if not self.synced:
            for _, hand in self.books.hands():
                if hand.placement is not None and known is None:
                    hand.placement = layout.placement(hand.placement, hand.node, hand.devices)
            return
        if known is None or known.shape != layout.shape:
            self.stage.build(now_ns)
            return
        for number, (old, new) in enumerate(
            zip(known.inventory.nodes, inventory.nodes, strict=True)
        ):
            self._node_changed(number, old, new, now_ns)

    def _node_changed(self, number: int, old: NodeFact, new: NodeFact, now_ns: int) -> None:
        was, now = _state(old), _state(new)
        if was == now:
            return
        if now == _UP:
            self.stage.tell(NodeBack(now_ns, number))
        elif now == _CORDONED:
            self.stage.tell(NodeCordoned(now_ns, number))
        else:
            for held, hand in list(self.books.hands()):
                if hand.node == new.name and not hand.life.over:
                    self.stage.release(hand)
                    self.books.end_hand(held, hand, now_ns)
            self.stage.tell(NodeLost(now_ns, number))

    def _loaded(self, load: Loaded) -> None:
        held, hand = self.books.find(load.instance)
        if held is None or hand is None or held.desired is None:
            return
        service = held.desired.order.workload.service
        if service is not None and held.runs_on:
            self.loads.hear(load, service)

    def start_failed(self, starts: Sequence[Start], why: str, now_ns: int) -> None:
        """Instances could not be started: as if the cluster had taken them back."""
        for start in starts:
            seen = Seen(start.instance, Life.UNBOUND, start.node, "", why=why)
            self.see(seen, now_ns)

    def divided(self, partition: Partition, phase: PartitionPhase, why: str, now_ns: int) -> None:
        """What the cluster says of a node whose devices it was asked to divide anew."""
        if self.divisions.answered(partition, phase, why):
            self._look_again(self._at(now_ns))

    # Time and contact

    def contact(self, at_ns: int) -> None:
        """The centre has surely heard of this member at that time."""
        self.contact_ns = max(self.contact_ns, at_ns)

    def tick(self, now_ns: int) -> None:
        """Time passes; to be called at least once a second."""
        now_ns = self._at(now_ns)
        if not self.synced:
            return
        self._fence(now_ns)
        observed = self.loads.look(now_ns)
        if observed is not None:
            self.stage.tell(observed)
        self.books.ask_again(now_ns)
        if self.divisions.step(now_ns):
            self._look_again(now_ns)
        self.settle(now_ns)

    @property
    def hearing_s(self) -> float | None:
        """How often the centre must hear of this member for nothing to be fenced; None: never."""
        fences = [
            held.desired.fence_after_s
            for held in self.books.attempts.values()
            if held.runs_on and held.desired is not None and held.desired.fence_after_s is not None
        ]
        return min(fences) / _CONTACT_PARTS if fences else None

    def _fence(self, now_ns: int) -> None:
        silent_ns = now_ns - self.contact_ns
        for held in list(self.books.attempts.values()):
            limit_s = held.desired.fence_after_s if held.desired is not None else None
            if held.runs_on and limit_s is not None and silent_ns >= limit_s * NS_PER_S:
                why = f"no contact to the centre for {limit_s:g} s"
                self.stage.finish(held, Ended(Outcome.FENCED, why, now_ns))

    def _at(self, now_ns: int) -> int:
        """The time never goes back."""
        self._now_ns = max(self._now_ns, now_ns)
        return self._now_ns

    def settle(self, now_ns: int) -> None:
        """Whatever was learned: stop what nobody wants, decide, start what may start. To be called
        when sights were taken in; not after each of many, since it looks at everything."""
        now_ns = self._at(now_ns)
        if not self.synced:
            return
        if self.planned:
            for held in [each for each in self.books.attempts.values() if not each.wanted]:
                self._end_stray(held, now_ns)
        self.stage.round(now_ns)
        self.books.open_gate(now_ns)

    def _end_stray(self, held: Held, now_ns: int) -> None:
        if self.stage.has(held):
            self.stage.tell(OrderWithdrawn(now_ns, held.key.job, held.key.attempt))
        for hand in list(held.hands.values()):
            if hand.life.over:
                self.books.forget_hand(held, hand)
            elif not hand.stopping:
                self.stage.release(hand)
                self.books.end_hand(held, hand, now_ns)
        if not held.hands:
            self.books.remove(held)

    # What is to be done and told

    def actions(self) -> list[Action]:
        """What is to be done now, in this order; each is said once."""
        done, self.books.actions = self.books.actions, []
        return done

    def news(self, now_ns: int, *, whole: bool) -> Report | None:
        """What the centre has not been told, or everything; None: nothing. To be numbered."""
        return self.teller.news(self._at(now_ns), whole=whole)

    def instance(self, key: AttemptKey, index: int) -> InstanceId | None:
        """The instance somebody means by a number: its own, or else its rank, the newest first."""
        held = self.books.attempts.get(key)
        if held is None:
            return None
        shown = [hand for hand in self._newest(held) if hand.asked]
        for hand in shown:
            if hand.id.index == index:
                return hand.id
        return next((hand.id for hand in shown if hand.rank == index), None)

    @staticmethod
    def _newest(held: Held) -> list[Hand]:
        return sorted(held.hands.values(), key=lambda hand: hand.id.index, reverse=True)


_UP, _CORDONED, _DOWN = "up", "cordoned", "down"


def _state(node: NodeFact) -> str:
    if node.up:
        return _UP
    return _CORDONED if is_cordoned(node) else _DOWN


def _standing(around: Surroundings) -> tuple[object, ...]:
    """What the local stage is built with. Hours of prices come in all the time and change it least;
    they are taken over when it is next built."""
    cluster = around.cluster
    return (cluster.id, cluster.tariff, cluster.pue, around.round_trip_ms)
