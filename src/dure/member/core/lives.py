"""What becomes of instances: ready, over, lost; and what that means for their attempts."""

from dataclasses import dataclass

from dure.domain.fleet.events import CheckpointReached, InstanceEnded, InstanceWarm, StartFailed
from dure.domain.fleet.protocol.reports import Outcome
from dure.domain.units import NS_PER_S
from dure.member.core.books import Books, key_of
from dure.member.core.held import Ended, Hand, Held
from dure.member.core.stage import Stage
from dure.member.ports import Checkpointed, Life, Progressed, Seen

MOST_LOSSES = 5
"""How often an attempt is started again after its instances were taken from it."""
MOST_FAILURES = 5
"""Instances of a service that may end one after the other without ever having been ready."""
_FIRST_WAIT_NS = NS_PER_S
_MOST_WAIT_NS = 60 * NS_PER_S
"""Before a service's failed instance is started again: doubles from the first to the last."""


@dataclass(slots=True)
class Lives:
    """Takes in what the cluster shows of instances."""

    books: Books
    stage: Stage
    judging: bool = False
    """Whether everything that existed at the start has been seen."""

    def see(self, seen: Seen, now_ns: int) -> None:
        """One instance as it is now."""
        held, hand = self.books.find(seen.instance)
        if hand is None:
            if seen.life is Life.GONE:
                self.books.meters.gone(key_of(seen.instance), seen.instance.index)
                return
            held, hand = self._found(seen, held)
        assert held is not None
        was_over = hand.life.over
        self._update(hand, seen)
        if held.started_ns is None and hand.started_ns is not None:
            held.started_ns = hand.started_ns
            self.books.unsaved.add(held.key)
        self.books.changed(held)
        if not hand.known and self.judging and held.wanted and not hand.life.over:
            self.books.end_hand(held, hand, now_ns)  # nobody here has started it
        elif hand.life is Life.READY or (hand.life is Life.RUNNING and not held.serving):
            self._ready(held, hand, now_ns)
        elif self.judging and hand.life.over and (not was_over or hand.life is Life.GONE):
            self._over(held, hand, now_ns)

    def pair(self, held: Held) -> None:
        """Know again who was to take over from whom when an earlier member died."""
        for new, old in held.moves.items():
            successor, former = held.hands.get(new), held.hands.get(old)
            if successor is not None and former is not None and not former.stopping:
                successor.replaces = former
        held.moves = {}

    def judge(self, held: Held, now_ns: int) -> None:
        """Look at all instances of an attempt that are over."""
        for hand in list(held.hands.values()):
            if hand.life.over and hand.id.index in held.hands:
                self._over(held, hand, now_ns)

    def _found(self, seen: Seen, held: Held | None) -> tuple[Held, Hand]:
        """An instance that was not started by this member, or before it died."""
        key = key_of(seen.instance)
        if held is None:
            held = Held(key, seen.desired, wanted=False)
            self.books.add(held)
        place, devices = seen.placement, seen.devices
        layout = self.books.layout
        if place is not None and layout is not None:
            place = layout.placement(place, seen.node, devices)
            if place is not None:
                devices = layout.within(place)
        hand = Hand(
            id=seen.instance,
            node=seen.node,
            devices=devices or (),
            placement=place,
            rank=len(held.hands),
            asked=True,
            known=not self.judging,
            stopping=seen.life is Life.ENDING,
        )
        held.hands[seen.instance.index] = hand
        held.next_index = max(held.next_index, seen.instance.index + 1)
        return held, hand

    def _update(self, hand: Hand, seen: Seen) -> None:
        hand.life, hand.why, hand.name = seen.life, seen.why, seen.name or hand.name
        hand.exit_code, hand.address = seen.exit_code, seen.address
        hand.started_ns = seen.started_ns or hand.started_ns
        hand.ended_ns = seen.ended_ns
        hand.asked = True

    def _ready(self, held: Held, hand: Hand, now_ns: int) -> None:
        if held.started_ns is None:
            held.started_ns = now_ns
            self.books.unsaved.add(held.key)
        if hand.warm:
            return
        hand.warm, held.failures = True, 0
        self.books.meters.begin(held.key, hand, now_ns)
        if hand.replaces is not None:
            old, hand.replaces = hand.replaces, None
            self.books.drain_hand(held, old, now_ns)
        if hand.stage_id is not None:
            self.stage.tell(InstanceWarm(now_ns, hand.stage_id))

    # Over

    def _over(self, held: Held, hand: Hand, now_ns: int) -> None:
        self.books.meters.end(held.key, hand, now_ns, gone=hand.life is Life.GONE)
        if hand.stopping or (held.wanted and not hand.known):
            self.books.forget_hand(held, hand)
        elif held.end is not None:
            self.stage.release(hand)
            if hand.life is Life.GONE:
                self.books.forget_hand(held, hand)
        elif not held.runs_on:
            self._stray_ended(held, hand, now_ns)
        elif hand.replaces is not None:
            self._not_replaced(held, hand, now_ns)
        elif hand.life in (Life.UNBOUND, Life.GONE):
            self._lost(held, hand, now_ns)
        elif held.serving:
            self._service_ended(held, hand, now_ns)
        elif hand.life is Life.FAILED:
            why = hand.why or "its program failed"
            self.stage.finish(held, Ended(Outcome.FAILED, why, now_ns, hand.exit_code))
        else:
            self._succeeded(held, hand, now_ns)

    def _stray_ended(self, held: Held, hand: Hand, now_ns: int) -> None:
        """What it means is decided when a plan says whether it is wanted."""
        name = self.stage.release(hand)
        if name is not None:
            self.stage.tell(InstanceEnded(now_ns, name))
        if hand.life is Life.GONE:
            self.books.forget_hand(held, hand)

    def _succeeded(self, held: Held, hand: Hand, now_ns: int) -> None:
        name = self.stage.release(hand)
        if name is not None:
            self.stage.tell(InstanceEnded(now_ns, name))
        if held.done:
            end_ns = hand.ended_ns or now_ns
            self.stage.finish(held, Ended(Outcome.SUCCEEDED, "", end_ns, hand.exit_code), now_ns)

    def _service_ended(self, held: Held, hand: Hand, now_ns: int) -> None:
        """Start another one after a while; give up on one that never comes up."""
        held.failures = 1 if hand.warm else held.failures + 1
        wait_ns = min(_FIRST_WAIT_NS * 2 ** (held.failures - 1), _MOST_WAIT_NS)
        held.not_before_ns = max(held.not_before_ns, now_ns + wait_ns)
        for other in list(held.hands.values()):
            if other is not hand and other.life.over:
                self.books.forget_hand(held, other)
        if held.failures >= MOST_FAILURES:
            why = f"{held.failures} instances ended before they were ready"
            said = f"{why}: {hand.why}" if hand.why else why
            self.stage.finish(held, Ended(Outcome.FAILED, said, now_ns, hand.exit_code))
            return
        name = self.stage.release(hand)
        if name is not None:
            self.stage.tell(InstanceEnded(now_ns, name))

    def _lost(self, held: Held, hand: Hand, now_ns: int) -> None:
        """An instance was taken away, or never got to its node."""
        why = hand.why or "its cluster took it away"
        name = self.stage.release(hand)
        self.books.forget_hand(held, hand)
        if name is None:
            return
        held.losses += 1
        if held.losses >= MOST_LOSSES:
            self.stage.finish(held, Ended(Outcome.DISPLACED, why, now_ns))
        else:
            self.stage.tell(StartFailed(now_ns, name, why))

    def _not_replaced(self, held: Held, hand: Hand, now_ns: int) -> None:
        """What should have taken over is over: its former self stays."""
        why = hand.why or "it ended before it was ready"
        name = self.stage.undo_move(hand)
        self.books.forget_hand(held, hand)
        if name is not None:
            self.stage.tell(StartFailed(now_ns, name, why))

    # Progress

    def progressed(self, progress: Progressed, now_ns: int) -> None:
        """A job said how far it is; what it saved is the moment to move it."""
        held, hand = self.books.find(progress.instance)
        if held is None or hand is None:
            return
        saved = progress.saved_share > hand.saved_share
        hand.done_share, hand.saved_share = progress.done_share, progress.saved_share
        held.saved_share = max(held.saved_share, held.saved_by_all())
        self.books.changed(held)
        if saved and held.runs_on and not held.serving:
            self.stage.tell(CheckpointReached(now_ns, held.key.job))

    def checkpointed(self, saved: Checkpointed) -> None:
        """A job said that it has saved what it was asked to save."""
        held, hand = self.books.find(saved.instance)
        if held is not None and hand is not None and saved.number > hand.checkpointed:
            hand.checkpointed = saved.number
            self.books.changed(held)
