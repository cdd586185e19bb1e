"""The local stage of a cluster in the loop with its books: what it says becomes hands, and back.

The local stage numbers the instances of an attempt by itself. The cluster gets numbers of its own
(`Hand.id`), since an instance that moves is for a while two objects there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from dure.domain.fleet.decisions import InstanceId, SiteSummary
from dure.domain.fleet.events import (
    AllotmentsSet,
    ForeignUsed,
    InstanceEnded,
    InstanceFound,
    InstanceWarm,
    LocalEvent,
    NodeCordoned,
    NodeLost,
    NodesEmptying,
    OrderGiven,
    OrderWithdrawn,
    PolicySet,
    RoundDue,
    SizeFound,
    TenantSet,
)
from dure.domain.fleet.instructions import (
    LocalInstruction,
    MoveInstance,
    ReportSummary,
    ResizeInstance,
    SizeService,
    StartInstance,
    StopInstance,
    TurnDownOrder,
    Warn,
)
from dure.domain.fleet.protocol.desired import AttemptKey, Surroundings, Want
from dure.domain.fleet.protocol.reports import Outcome, Sizing
from dure.domain.ids import WorkloadId
from dure.fleet.local.floor import earlier
from dure.fleet.local.settings import TidyRules
from dure.fleet.local_machine import LocalMachine, LocalSettings
from dure.member.core.books import Books, key_of
from dure.member.core.held import Ended, Hand, Held
from dure.member.core.layout import Layout, is_cordoned
from dure.member.core.sizes import Sizes
from dure.member.ports import RESIZE, Taken

TIDY = TidyRules(most_at_once=4, most_per_hour=24)
"""Moves inside a real cluster cost somebody something each: few at a time, unless a policy says
otherwise."""


class _SameForAll(Mapping[str, float]):
    """One round trip for users of every region: members are told no more than that."""

    def __init__(self, round_trip_ms: float) -> None:
        self._round_trip_ms = round_trip_ms

    def __getitem__(self, region: str) -> float:
        return self._round_trip_ms

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@dataclass(slots=True)
class Stage:
    """The local stage, rebuilt whenever the numbers of nodes change."""

    books: Books
    surroundings: Surroundings | None = None
    taken: dict[str, Taken] = field(default_factory=dict)
    """What others use, by node."""
    machine: LocalMachine | None = None
    sites: tuple[SiteSummary, ...] = ()
    warnings: list[str] = field(default_factory=list)
    sizes: Sizes = field(init=False)
    _emptying: frozenset[str] = frozenset()
    """Nodes of which it was told that they shall become empty."""
    _hands: dict[InstanceId, Hand] = field(default_factory=dict)
    """By what the local stage calls them."""

    def __post_init__(self) -> None:
        self.sizes = Sizes(self.books)

    # Building

    def build(self, now_ns: int) -> None:
        """Begin anew with the present inventory and what exists; then give it all orders."""
        books, around = self.books, self.surroundings
        if around is None or books.layout is None:
            return
        layout = books.layout
        self._hands.clear()
        self._settle_hands(layout, now_ns)
        cluster = replace(around.cluster, groups=layout.inventory.groups)
        settings = LocalSettings(
            cluster=cluster,
            round_trip_ms=_SameForAll(around.round_trip_ms),
            power_down=False,
            tidy=TIDY,
            in_place=_in_place(layout.inventory.features),
        )
        self.machine = LocalMachine(settings)
        self._emptying = frozenset()
        self.inform(now_ns)
        for number, node in enumerate(layout.inventory.nodes):
            if is_cordoned(node):
                self.tell(NodeCordoned(now_ns, number))
            elif not node.up:
                self.tell(NodeLost(now_ns, number))
        for taken in self.taken.values():
            self.foreign(taken, now_ns)
        known = sorted(books.attempts.values(), key=lambda each: each.key)
        for held in known:
            if held.end is None:
                self._adopt(held, now_ns)
        for held in known:
            if held.runs_on:
                size = held.sizing  # first: with nothing of it left, its order is what is said
                self.give(held, now_ns)
                if size is not None and held.serving:
                    self._keep_size(held.key, size, now_ns)

    def _keep_size(self, key: AttemptKey, size: Sizing, now_ns: int) -> None:
        """A service is as large as it was, for the same reason, whatever nodes came or went."""
        found = SizeFound(now_ns, key.job, key.attempt, size.serving, size.level, size.why)
        self.tell(found)

    def _settle_hands(self, layout: Layout, now_ns: int) -> None:
        """Take back starts that wait and moves that are under way; number all places anew."""
        for held, hand in list(self.books.hands()):
            if not hand.asked or (hand.replaces is not None and hand.alive):
                self.books.end_hand(held, hand, now_ns)
            elif hand.placement is not None:
                hand.placement = layout.placement(hand.placement, hand.node, hand.devices)
            hand.stage_id = None

    def _adopt(self, held: Held, now_ns: int) -> None:
        """Let the local stage know what runs for an attempt, and what is over; end what has no
        place any more."""
        if held.desired is None or held.desired.want is Want.RELEASE:
            return
        self.books.changed(held)  # its places may have other numbers now
        for hand in sorted(held.current(), key=lambda each: each.life.over):
            if hand.life.over:
                self.tell(InstanceEnded(now_ns, hand.id))
            elif hand.placement is None:
                self.books.end_hand(held, hand, now_ns)
            else:
                hand.stage_id = hand.id
                self._hands[hand.id] = hand
                order = held.desired.order
                self.tell(InstanceFound(now_ns, order, hand.id, hand.placement, hand.warm))

    # What it is told

    def tell(self, event: LocalEvent) -> None:
        """Give the local stage an event and enter what it says."""
        if self.machine is None:
            return
        stopped: set[AttemptKey] = set()
        for instruction in self.machine.handle(event):
            self._enter(instruction, event.now_ns)
            if isinstance(instruction, StopInstance):
                stopped.add(key_of(instruction.instance))
        match event:  # with a newer attempt here or ready, older ones may end without a word
            case OrderGiven(order=order):
                stopped |= self._attempts_of(order.workload.id)
            case InstanceWarm(instance=instance):
                stopped |= self._attempts_of(instance.workload)
        for key in sorted(stopped):
            held = self.books.attempts.get(key)
            if held is not None and self._was_replaced(held):
                why = "a newer attempt has taken over"
                self.finish(held, Ended(Outcome.STOPPED, why, event.now_ns))

    def _attempts_of(self, job: WorkloadId) -> set[AttemptKey]:
        return {held.key for held in self.books.of_job(job)}

    def _was_replaced(self, held: Held) -> bool:
        """Whether a service's attempt was given up for a newer one."""
        if not (held.serving and held.runs_on) or self.has(held):
            return False
        return any(key > held.key for key in self._attempts_of(held.key.job))

    def round(self, now_ns: int) -> None:
        """Let it decide, where there is anything to decide."""
        if self.machine is not None and self.machine.due(now_ns):
            self.tell(RoundDue(now_ns))

    def inform(self, now_ns: int) -> None:
        """Tell it what the centre says of tenants, leases and rules."""
        around = self.surroundings
        if around is None:
            return
        for tenant in around.tenants:
            pools = tuple(pool for pool in around.pools if pool.tenant == tenant.id)
            self.tell(TenantSet(now_ns, tenant, pools))
        self.tell(AllotmentsSet(now_ns, around.allotments))
        self.tell(PolicySet(now_ns, around.policy))

    def empty(self, names: frozenset[str], now_ns: int) -> None:
        """Tell it which nodes shall become empty, where that is new."""
        layout = self.books.layout
        if layout is None or names == self._emptying:
            return
        self._emptying = names
        numbers = (layout.number_of.get(name) for name in names)
        self.tell(NodesEmptying(now_ns, frozenset(each for each in numbers if each is not None)))

    def foreign(self, taken: Taken, now_ns: int) -> None:
        """Tell it what others use of a node."""
        layout = self.books.layout
        number = layout.number_of.get(taken.node) if layout is not None else None
        if number is not None:
            self.tell(
                ForeignUsed(now_ns, number, taken.devices, taken.cpu_milli, taken.host_memory_bytes)
            )

    def give(self, held: Held, now_ns: int) -> None:
        """An attempt shall run."""
        assert held.desired is not None
        self.tell(OrderGiven(now_ns, held.desired.order))

    def has(self, held: Held) -> bool:
        """Whether it looks after an attempt."""
        if self.machine is None:
            return False
        tasks, key = self.machine.floor.tasks, held.key
        task = tasks.get(key.job)
        if task is not None and task.order.attempt == key.attempt:
            return True
        return earlier(key.job, key.attempt) in tasks

    def finish(self, held: Held, end: Ended, now_ns: int | None = None) -> None:
        """An attempt is over: nothing of it starts any more, and what runs is stopped.

        `now_ns`: where its cluster's stamp says that it was over at another time.
        """
        if held.end is not None:
            return
        now_ns = end.at_ns if now_ns is None else now_ns
        held.end = end
        for hand in held.hands.values():
            if hand.life.over:  # what it wrote is kept until the centre drops it
                self.release(hand)
        if self.has(held):
            self.tell(OrderWithdrawn(now_ns, held.key.job, held.key.attempt))
        for hand in list(held.hands.values()):
            if not hand.life.over:
                self.books.end_hand(held, hand, now_ns)
        self.books.remember(held)

    def undo_move(self, hand: Hand) -> InstanceId | None:
        """A replacement came to nothing: the one it should have replaced goes on."""
        old, hand.replaces = hand.replaces, None
        name, hand.stage_id = hand.stage_id, None
        if old is not None and name is not None:
            old.stage_id = name
            self._hands[name] = old
        return name

    def release(self, hand: Hand) -> InstanceId | None:
        """The local stage's name of an instance, which it is about to give up."""
        name, hand.stage_id = hand.stage_id, None
        if name is not None and self._hands.get(name) is hand:
            del self._hands[name]
        return name

    # What it says

    def _enter(self, instruction: LocalInstruction, now_ns: int) -> None:
        match instruction:
            case StartInstance():
                self._start(instruction, now_ns)
            case StopInstance():
                self._stop(instruction, now_ns)
            case MoveInstance():
                self._move(instruction, now_ns)
            case ResizeInstance():
                self._resize(instruction, now_ns)
            case SizeService():
                self.sizes.sized(instruction, now_ns)
            case TurnDownOrder():
                self._turned_down(instruction, now_ns)
            case ReportSummary():
                self.sites = instruction.sites
            case Warn():
                remedy = f"; {instruction.remedy}" if instruction.remedy else ""
                self.warnings.append(f"{instruction.about}: {instruction.what}{remedy}")

    def _start(self, instruction: StartInstance, now_ns: int) -> None:
        held = self.books.attempts[key_of(instruction.instance)]
        if not held.serving:  # what is over is of an earlier try of the same gang
            for hand in [hand for hand in held.current() if hand.life.over]:
                self.books.forget_hand(held, hand)
        ranks = {hand.rank for hand in held.current() if not hand.life.over}
        rank = next(number for number in range(len(ranks) + 1) if number not in ranks)
        name = instruction.instance
        self._hands[name] = self.books.plan_hand(held, instruction.placement, name, rank)

    def _stop(self, instruction: StopInstance, now_ns: int) -> None:
        hand = self._hands.pop(instruction.instance, None)
        if hand is not None:
            held = self.books.attempts[key_of(instruction.instance)]
            if hand.replaces is not None:
                self.books.drain_hand(held, hand.replaces, now_ns)
            self.books.drain_hand(held, hand, now_ns)

    def _resize(self, instruction: ResizeInstance, now_ns: int) -> None:
        hand = self._hands.get(instruction.instance)
        if hand is not None:
            held = self.books.attempts[key_of(instruction.instance)]
            self.books.resize_hand(held, hand, instruction.placement, now_ns)

    def _move(self, instruction: MoveInstance, now_ns: int) -> None:
        """A service starts beside its former self; a job's gang stops whole and starts again."""
        hand = self._hands.get(instruction.instance)
        if hand is None:
            return
        books = self.books
        held = books.attempts[key_of(instruction.instance)]
        if instruction.warm_first:
            old = hand.replaces if hand.replaces is not None and not hand.warm else hand
            if old is not hand:
                books.end_hand(held, hand, now_ns)
            new = books.plan_hand(held, instruction.placement, instruction.instance, hand.rank)
            new.replaces, old.stage_id = old, None
            self._hands[instruction.instance] = new
            books.unsaved.add(held.key)
            return
        for each in [each for each in held.current() if not each.life.over]:
            name, place = each.stage_id, each.placement
            if name is None or place is None:
                continue
            place = instruction.placement if each is hand else place
            books.end_hand(held, each, now_ns)
            self._hands[name] = books.plan_hand(held, place, name, each.rank)

    def _turned_down(self, instruction: TurnDownOrder, now_ns: int) -> None:
        key = AttemptKey(instruction.workload, instruction.attempt)
        held = self.books.attempts.get(key)
        if held is not None:
            ran = held.started_ns is not None
            outcome = Outcome.DISPLACED if ran else Outcome.TURNED_DOWN
            self.finish(held, Ended(outcome, instruction.why, now_ns))


def _in_place(features: frozenset[str]) -> frozenset[str]:
    """Node groups where a slice can be changed while it is in use."""
    return frozenset(each.removeprefix(RESIZE) for each in features if each.startswith(RESIZE))
