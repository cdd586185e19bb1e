"""How a member does, read from its core: in its event loop, in microseconds."""

from collections import Counter
from collections.abc import Iterator

from dure.domain.ids import ClusterId
from dure.domain.metrics import member as m
from dure.domain.metrics.kinds import Reading
from dure.domain.units import NS_PER_S
from dure.member.core.held import Hand
from dure.member.ports import Life
from dure.member.runtime import Member

_SETTLED = (Life.READY, Life.RUNNING)
_NEVER_NS = 0
"""Before this the centre was never heard of."""


def read_member(cluster: ClusterId, member: Member | None) -> Iterator[Reading]:
    """All of it; `member`: None while another one acts for the cluster."""
    label = (str(cluster),)
    yield Reading(m.MEMBER_ACTS, label, float(member is not None))
    if member is None:
        return
    desk = member.desk
    yield Reading(m.MEMBER_SYNCED, label, float(desk.synced))
    if desk.contact_ns > _NEVER_NS:
        silent_s = max(0, member.clock.now_ns() - desk.contact_ns) / NS_PER_S
        yield Reading(m.MEMBER_SILENT, label, silent_s)
    yield Reading(m.MEMBER_ATTEMPTS, label, float(len(desk.books.attempts)))
    hands = [hand for _, hand in desk.books.hands()]
    lives = Counter(hand.life for hand in hands)
    for life in Life:
        yield Reading(m.MEMBER_INSTANCES, (*label, life.value), float(lives[life]))
    drift = sum(_drifts(hand) for hand in hands)
    yield Reading(m.MEMBER_DRIFT, label, float(drift))
    yield Reading(m.MEMBER_WORKING, label, float(member.actions))
    yield Reading(m.MEMBER_FAILURES, label, float(member.failures))
    for summary in desk.stage.sites:
        site = (*label, str(summary.site))
        yield Reading(m.MEMBER_FREE, site, float(summary.free_devices))
        yield Reading(m.MEMBER_WAITING, site, float(summary.waiting_devices))


def _drifts(hand: Hand) -> bool:
    """Whether an instance is not as it shall be."""
    if hand.stopping:
        return not hand.life.over
    return not hand.life.over and hand.life not in _SETTLED
