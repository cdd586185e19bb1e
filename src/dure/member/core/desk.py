"""The core of a member: takes in plans, sights and the time, and says what is to be done and told.

No clock and no hands: whoever drives it passes the time, carries out `actions()`, stores `memory()`
and sends `news()`. Before `Synced` nothing is decided; what exists is only gathered.

Order that whoever drives it keeps: what `memory()` calls urgent is stored before the next `news()`
is sent. An end that was told and then forgotten would let an attempt run twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dure.domain.fleet.decisions import InstanceId, Placement
from dure.domain.fleet.events import OrderWithdrawn
from dure.domain.fleet.lifecycle import PartitionPhase
from dure.domain.fleet.protocol.desired import AttemptKey, Desired, Partition, Plan, PlanAnswer
from dure.domain.fleet.protocol.reports import Report
from dure.domain.fleet.protocol.services import LoadSignal
from dure.domain.ids import ClusterId
from dure.member.core import memo
from dure.member.core.actions import Action
from dure.member.core.books import Books
from dure.member.core.contact import Contact
from dure.member.core.desires import DesiredSet
from dure.member.core.divisions import Divisions
from dure.member.core.ground import Ground
from dure.member.core.held import Hand, Held
from dure.member.core.intake import Intake
from dure.member.core.lives import Lives
from dure.member.core.loads import Loads
from dure.member.core.stage import Stage
from dure.member.core.teller import Teller
from dure.member.ports import (
    Checkpointed,
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


@dataclass(slots=True)
class Desk:
    """Everything a member knows and decides."""

    cluster: ClusterId
    books: Books = field(default_factory=Books)
    stage: Stage = field(init=False)
    lives: Lives = field(init=False)
    loads: Loads = field(default_factory=Loads)
    divisions: Divisions = field(init=False)
    teller: Teller = field(init=False)
    _ground: Ground = field(init=False)
    _intake: Intake = field(init=False)
    _contact: Contact = field(init=False)
    _now_ns: int = 0

    def __post_init__(self) -> None:
        self.stage = Stage(self.books)
        self.lives = Lives(self.books, self.stage)
        self.divisions = Divisions(self.books)
        self.teller = Teller(self.books, self.stage, self.loads, self.divisions)
        self._ground = Ground(self.books, self.stage, self.divisions, self.teller)
        self._intake = Intake(self.cluster, self.books, self.stage, self.lives, self._ground)
        self._contact = Contact(self.books, self.stage)

    @property
    def synced(self) -> bool:
        """Whether all that exists was told once."""
        return self._ground.synced

    @property
    def planned(self) -> bool:
        """Whether a plan was taken since the start: what it does not have may be stopped."""
        return self._intake.planned

    @property
    def desires(self) -> DesiredSet:
        """What the centre last said shall exist here."""
        return self._intake.desires

    # Memory

    def load(self, entries: Mapping[str, Any], host_ns: int) -> int:
        """Remember what was known before this member started; the first thing to be called. By the
        host's calendar it says how late it is in the fleet's time."""
        desires, kept = memo.read_head(entries)
        self._now_ns = now_ns = self._contact.load(kept, host_ns)
        self._intake.load(entries, desires)
        self.divisions.load(entries)
        self.books.meters.load(entries, now_ns)
        if self.stage.surroundings is not None:
            self.divisions.want(self.stage.surroundings.partitions, now_ns)
        return now_ns

    def memory(self, ahead_ns: int = 0) -> tuple[dict[str, Any], list[str], bool]:
        """Entries that changed, entries to remove, and whether they must be safe before news; the
        fleet's time is so much ahead of the host's calendar."""
        changed, dropped = self._intake.memory()
        if self._intake.head_changed or self._contact.unsaved:
            changed[memo.HEAD] = memo.head(self.desires, self._contact.kept(ahead_ns))
            self._intake.head_changed = False
            self._contact.saved()
        divisions, divided = self.divisions.memory()
        self.books.meters.tidy(self.books.attempts)
        used, paid = self.books.meters.memory()
        changed |= divisions | used
        removed = [name for name in [*dropped, *divided, *paid] if name not in changed]
        urgent, self.books.urgent = self.books.urgent, False
        return changed, removed, urgent

    # Plans

    def unknown(self, plan: Plan) -> list[Desired]:
        """Attempts of a plan that are new here: its cluster must say whether it can run them."""
        return self._intake.unknown(plan)

    def plan(self, plan: Plan, refusals: Mapping[AttemptKey, str], now_ns: int) -> PlanAnswer:
        """Take a plan, or say why not; `refusals`: what the cluster says of the new attempts."""
        now_ns = self._at(now_ns)
        objection = self._intake.take(plan, refusals, now_ns)
        if objection:
            return PlanAnswer(plan.epoch, plan.revision, taken=False, why=objection)
        self.settle(now_ns)
        return self._intake.answer(plan)

    # Sights

    def see(self, sight: Sight, now_ns: int) -> None:
        """Take in what the cluster shows."""
        now_ns = self._at(now_ns)
        match sight:
            case Seen():
                self.lives.see(sight, now_ns)
            case InventoryChanged():
                self._ground.see(sight.inventory, now_ns)
            case Taken():
                self.stage.taken[sight.node] = sight
                self.stage.foreign(sight, now_ns)
            case Progressed():
                self.lives.progressed(sight, now_ns)
            case Checkpointed():
                self.lives.checkpointed(sight)
            case Loaded():
                self._loaded(sight, now_ns)
            case Synced():
                self._sync(now_ns)
            case Unreachable():
                self.stage.warnings.append(f"the cluster does not answer: {sight.why}")
            case Warned():
                self.stage.warnings.append(sight.what)

    def _sync(self, now_ns: int) -> None:
        if self.synced:
            return
        self._ground.synced = self.lives.judging = True
        self.books.meters.keep_only(
            {key: set(held.hands) for key, held in self.books.attempts.items()}
        )
        for held in list(self.books.attempts.values()):
            if held.done and held.runs_on:  # and no silence since then makes it undone
                self.lives.judge(held, now_ns)
        self._contact.fence(now_ns)
        for held in list(self.books.attempts.values()):
            self.lives.pair(held)
            self.lives.judge(held, now_ns)
        self.stage.build(now_ns)

    def _loaded(self, load: Loaded, now_ns: int) -> None:
        held, hand = self.books.find(load.instance)
        if held is None or hand is None or held.desired is None:
            return
        service = held.desired.order.workload.service
        if service is not None and held.runs_on:
            self.loads.hear(load, service, now_ns)

    def signals(self, signals: Iterable[LoadSignal], now_ns: int) -> None:
        """What people and fronts say of loads; of services that are not here it means nothing."""
        now_ns = self._at(now_ns)
        for signal in signals:
            for held in self.books.of_job(signal.workload):
                service = held.desired.order.workload.service if held.desired else None
                if service is not None and held.runs_on:
                    self.loads.signal(signal, service, now_ns)
                    break

    def _lives(self, instance: InstanceId) -> bool:
        _, hand = self.books.find(instance)
        return hand is not None and hand.alive and not hand.stopping

    def resized(self, instance: InstanceId, placement: Placement) -> None:
        """The cluster has given an instance what it was asked to."""
        held, hand = self.books.find(instance)
        if held is not None and hand is not None and hand.placement == placement:
            hand.resizing = hand.shrinks = False
            self.books.changed(held)

    def request_failed(self, instance: InstanceId, number: int, now_ns: int) -> None:
        """A program could not be asked for a checkpoint, or to leave one."""
        self.books.request_failed(instance, number, self._at(now_ns))

    def start_failed(self, starts: Sequence[Start], why: str, now_ns: int) -> None:
        """Instances could not be started: as if the cluster had taken them back."""
        for start in starts:
            seen = Seen(start.instance, Life.UNBOUND, start.node, "", why=why)
            self.see(seen, now_ns)

    def divided(self, partition: Partition, phase: PartitionPhase, why: str, now_ns: int) -> None:
        """What the cluster says of a node whose devices it was asked to divide anew."""
        if self.divisions.answered(partition, phase, why):
            self._ground.look_again(self._at(now_ns))

    # Time and contact

    @property
    def contact_ns(self) -> int:
        """When the centre has surely heard of this member."""
        return self._contact.at_ns

    def contact(self, at_ns: int) -> None:
        """The centre has surely heard of this member at that time."""
        self._contact.heard(at_ns)

    def put_forward(self, jump_ns: int, stamps_ns: int) -> None:
        """The fleet's time was put forward by the centre, and by `stamps_ns` what the cluster's
        nodes stamp; to be called before it is next told."""
        self._contact.put_forward(jump_ns)
        if stamps_ns:
            self.books.meters.put_forward(stamps_ns)
            self._intake.head_changed = True

    def heard(self, report: Report) -> None:
        """The centre has stored a report."""
        self.contact(report.at_ns)
        for usage in report.usage:
            self.books.meters.stored(usage)

    def tick(self, now_ns: int) -> None:
        """Time passes; to be called at least once a second."""
        now_ns = self._at(now_ns)
        if not self.synced:
            return
        self._contact.fence(now_ns)
        observed = self.loads.look(now_ns, self._lives)
        if observed is not None:
            self.stage.sizes.observed(observed)
            self.stage.tell(observed)
        self.books.ask_again(now_ns)
        if self.divisions.step(now_ns):
            self._ground.look_again(now_ns)
        self.stage.empty(self.divisions.emptying(), now_ns)
        self.settle(now_ns)

    @property
    def hearing_s(self) -> float | None:
        """How often the centre must hear of this member for nothing to be fenced; None: never."""
        return self._contact.every_s

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
        self.books.ask_to_save(now_ns)
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
