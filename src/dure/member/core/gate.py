"""Starts that wait until what they would stand beside is really over.

The local stage frees a place the moment it decides so; the program there may still take its time to
end. And a job must never run twice: neither two attempts of it, nor a gang beside its former self.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from dure.domain.ids import WorkloadId
from dure.domain.units import NS_PER_S
from dure.member.core.held import Hand, Held

_AGAIN_NS = 10 * NS_PER_S
"""Before a change of size that was asked for and is not known to be made is asked for again."""


class Known(Protocol):
    """All attempts and instances there are."""

    def hands(self) -> Iterator[tuple[Held, Hand]]:
        """Every instance with its attempt."""

    def of_job(self, job: WorkloadId) -> list[Held]:
        """All attempts of a job."""


@dataclass(slots=True, eq=False)
class Waiting:
    """Instances of one attempt that start together."""

    held: Held
    hands: list[Hand]


@dataclass(slots=True)
class Gate:
    """All starts that wait, in the order they were decided."""

    waiting: list[Waiting] = field(default_factory=list)

    def add(self, held: Held, hand: Hand) -> None:
        """Let an instance wait; with its gang, where that waits already."""
        for each in self.waiting:
            if each.held is held and not held.serving:
                each.hands.append(hand)
                return
        self.waiting.append(Waiting(held, [hand]))

    def drop(self, hand: Hand) -> bool:
        """Take an instance back; False where it does not wait."""
        for each in self.waiting:
            if hand in each.hands:
                each.hands.remove(hand)
                if not each.hands:
                    self.waiting.remove(each)
                return True
        return False

    def open(self, now_ns: int, known: Known) -> list[Waiting]:
        """Those that may start now."""
        if not self.waiting:
            return []
        leaving = _leaving(known)
        free = [each for each in self.waiting if _may_start(each, now_ns, known, leaving)]
        self.waiting = [each for each in self.waiting if each not in free]
        return free

    def resizable(self, now_ns: int, known: Known) -> list[Hand]:
        """Instances that may be given more or less of their devices now: more only when whoever
        had that before has really given it up."""
        waiting = [hand for _, hand in known.hands() if hand.resizing and hand.alive]
        waiting = [hand for hand in waiting if now_ns - hand.tried_ns >= _AGAIN_NS]
        if not waiting:
            return []
        leaving = _leaving(known)
        return [
            hand
            for hand in waiting
            if hand.shrinks
            or not any(
                other is not hand and _overlap(hand, other) for other in leaving.get(hand.node, ())
            )
        ]


def _leaving(known: Known) -> dict[str, list[Hand]]:
    """Those who have yet to give up what they no longer have, all or a part of it, by node."""
    leaving: dict[str, list[Hand]] = {}
    for _, hand in known.hands():
        if hand.alive and (hand.stopping or (hand.resizing and hand.shrinks)):
            leaving.setdefault(hand.node, []).append(hand)
    return leaving


def _may_start(
    waiting: Waiting, now_ns: int, known: Known, leaving: Mapping[str, list[Hand]]
) -> bool:
    held = waiting.held
    if now_ns < held.not_before_ns:
        return False
    if not held.serving:
        for other in known.of_job(held.key.job):
            if any(other is not held or hand.stopping for hand in other.alive()):
                return False
    return not any(
        _overlap(hand, other) for hand in waiting.hands for other in leaving.get(hand.node, ())
    )


def _overlap(one: Hand, other: Hand) -> bool:
    """Whether two places of one node have something in common; slots of a device are told apart."""
    if not one.placement or not other.placement or not one.placement.masks:
        return bool(set(one.devices) & set(other.devices))
    mine = dict(zip(one.devices, one.placement.masks, strict=False))
    theirs = dict(zip(other.devices, other.placement.masks, strict=False))
    return any(
        not mine[each] or not theirs[each] or bool(mine[each] & theirs[each])
        for each in mine.keys() & theirs.keys()
    )
