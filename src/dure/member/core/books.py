"""What a member knows of attempts and instances, and the only ways to change their hands."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from dure.domain.fleet.decisions import InstanceId, Placement
from dure.domain.fleet.protocol.desired import AttemptKey
from dure.domain.ids import WorkloadId
from dure.domain.units import NS_PER_S
from dure.member.core.actions import Action, Begin, End, Forget, Request, Resize
from dure.member.core.gate import Gate
from dure.member.core.held import Hand, Held
from dure.member.core.layout import Layout
from dure.member.core.meters import Meters
from dure.member.ports import Life, Start

_AGAIN_NS = 10 * NS_PER_S
"""How long what was asked of the cluster may take beyond its grace before it is asked again."""
_DRAIN_NS = 5 * NS_PER_S
"""What an instance that is one too many has to finish its requests: those who send them hear within
a second that it gets no more."""


def key_of(instance: InstanceId) -> AttemptKey:
    """The attempt an instance belongs to."""
    return AttemptKey(instance.workload, instance.attempt)


@dataclass(slots=True)
class Books:
    """All attempts with their instances, the starts that wait, and what is to be done."""

    attempts: dict[AttemptKey, Held] = field(default_factory=dict)
    """Changed by `add` and `remove` alone."""
    gate: Gate = field(default_factory=Gate)
    actions: list[Action] = field(default_factory=list)
    layout: Layout | None = None
    meters: Meters = field(default_factory=Meters)
    news: set[AttemptKey] = field(default_factory=set)
    """Attempts of which there may be something to tell."""
    unsaved: set[AttemptKey] = field(default_factory=set)
    """Attempts whose memory is out of date."""
    urgent: bool = False
    """Whether that memory must be safe before anything is told."""
    _of_job: dict[WorkloadId, dict[AttemptKey, Held]] = field(default_factory=dict)

    def add(self, held: Held) -> None:
        """Know of another attempt."""
        self.attempts[held.key] = held
        self._of_job.setdefault(held.key.job, {})[held.key] = held

    def remove(self, held: Held) -> None:
        """Know of an attempt no more."""
        del self.attempts[held.key]
        of_job = self._of_job[held.key.job]
        del of_job[held.key]
        if not of_job:
            del self._of_job[held.key.job]

    def of_job(self, job: WorkloadId) -> list[Held]:
        """All attempts of a job."""
        return list(self._of_job.get(job, {}).values())

    def hands(self) -> Iterator[tuple[Held, Hand]]:
        """Every instance with its attempt."""
        for held in self.attempts.values():
            for hand in held.hands.values():
                yield held, hand

    def find(self, instance: InstanceId) -> tuple[Held | None, Hand | None]:
        """An instance as the cluster names it."""
        held = self.attempts.get(key_of(instance))
        return held, held.hands.get(instance.index) if held is not None else None

    def changed(self, held: Held) -> None:
        """There may be something to tell of an attempt."""
        self.news.add(held.key)

    def remember(self, held: Held) -> None:
        """What must not be forgotten of an attempt changed, and must be safe before it is told."""
        self.unsaved.add(held.key)
        self.changed(held)
        self.urgent = True

    # Hands

    def plan_hand(self, held: Held, placement: Placement, stage_id: InstanceId, rank: int) -> Hand:
        """A new instance that waits to be started."""
        assert self.layout is not None
        index = held.next_index
        held.next_index += 1
        hand = Hand(
            id=InstanceId(held.key.job, held.key.attempt, index),
            node=self.layout.fact(placement.node).name,
            devices=self.layout.within(placement),
            placement=placement,
            rank=rank,
            stage_id=stage_id,
        )
        held.hands[index] = hand
        self.gate.add(held, hand)
        self.changed(held)
        return hand

    def end_hand(self, held: Held, hand: Hand, now_ns: int) -> None:
        """Stop an instance, or take back its start."""
        hand.stage_id, hand.replaces = None, None
        if not hand.asked:
            self.gate.drop(hand)
            del held.hands[hand.id.index]
        elif hand.life.over:
            self.forget_hand(held, hand)
        elif not hand.stopping:
            hand.stopping, hand.tried_ns, hand.resizing = True, now_ns, False
            self.actions.append(End(hand.id, held.grace_s))
        self.changed(held)

    def drain_hand(self, held: Held, hand: Hand, now_ns: int) -> None:
        """Stop an instance of a service that goes on with others: it gets no more requests, and
        ends when it had time to finish those it has."""
        if not (held.runs_on and hand.life is Life.READY and hand.address and not hand.stopping):
            self.end_hand(held, hand, now_ns)
            return
        hand.stage_id, hand.replaces, hand.resizing = None, None, False
        hand.stopping, hand.drains_until_ns = True, now_ns + _DRAIN_NS
        self.changed(held)

    def resize_hand(self, held: Held, hand: Hand, placement: Placement, now_ns: int) -> None:
        """An instance shall have more or less of its devices; what it used so far is counted."""
        before = hand.placement
        hand.shrinks = before is not None and placement.compute_milli < before.compute_milli
        hand.placement = placement
        hand.resizing, hand.tried_ns = hand.asked, 0
        self.meters.count(held.key, hand, now_ns)
        self.unsaved.add(held.key)
        self.changed(held)

    def forget_hand(self, held: Held, hand: Hand) -> None:
        """Remove what is left of an instance that is over."""
        self.gate.drop(hand)
        held.hands.pop(hand.id.index, None)
        if hand.asked and hand.life is not Life.GONE:
            self.actions.append(Forget(hand.id))
        self.changed(held)

    def open_gate(self, now_ns: int) -> None:
        """Start what may start now."""
        for each in self.gate.open(now_ns, self):
            held = each.held
            assert held.desired is not None
            size = sum(not hand.life.over for hand in held.current())
            starts = []
            for hand in each.hands:
                assert hand.placement is not None
                hand.asked = True
                starts.append(
                    Start(
                        instance=hand.id,
                        desired=held.desired,
                        placement=hand.placement,
                        node=hand.node,
                        devices=hand.devices,
                        rank=hand.rank,
                        world_size=size,
                    )
                )
            self.actions.append(Begin(tuple(starts)))
            self.changed(held)

        for hand in self.gate.resizable(now_ns, self):
            assert hand.placement is not None
            hand.tried_ns = now_ns
            self.actions.append(Resize(hand.id, hand.placement))

    def ask_to_save(self, now_ns: int) -> None:
        """Ask programs for the checkpoints that the centre wants, and no more for others."""
        for held, hand in self.hands():
            wanted = held.desired.checkpoint if held.desired is not None and held.runs_on else 0
            if hand.requested == wanted or now_ns < hand.request_after_ns:
                continue
            if hand.warm and hand.alive and not hand.stopping:
                hand.requested = wanted
                self.actions.append(Request(hand.id, wanted))

    def request_failed(self, instance: InstanceId, number: int, now_ns: int) -> None:
        """Nobody knows what a program was last asked for: ask it after a while for what is wanted
        by then. Where another request is under way already that one says it."""
        _, hand = self.find(instance)
        if hand is not None and hand.requested == number:
            hand.requested, hand.request_after_ns = None, now_ns + _AGAIN_NS

    def ask_again(self, now_ns: int) -> None:
        """Repeat what the cluster was asked for and has not done in time; end what is drained."""
        for held, hand in self.hands():
            if hand.drains_until_ns and hand.alive:
                if now_ns >= hand.drains_until_ns or not held.runs_on:
                    hand.drains_until_ns, hand.tried_ns = 0, now_ns
                    self.actions.append(End(hand.id, held.grace_s))
            elif hand.stopping and hand.alive:
                limit_ns = round(held.grace_s * NS_PER_S) + _AGAIN_NS
                if now_ns - hand.tried_ns >= limit_ns:
                    hand.tried_ns = now_ns
                    self.actions.append(End(hand.id, held.grace_s))
