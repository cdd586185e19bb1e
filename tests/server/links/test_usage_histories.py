"""Random histories of a member and its centre: all that was used is counted, and nothing twice.

Instances begin and end, members die before or after they saved, reports are lost, come late or
twice, the centre is away, or says that it is later than its cluster has it. The truth is what the
cluster's own stamps say.
"""

import copy
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dure.domain.fleet.decisions import InstanceId, Placement
from dure.domain.fleet.protocol.desired import AttemptKey
from dure.domain.fleet.protocol.reports import Usage
from dure.domain.ids import WorkloadId
from dure.member.core.held import Hand
from dure.member.core.meters import Meters
from dure.server.links.pricing import told
from dure.stores.rows import Attempt, Meter

KEYS = [AttemptKey(WorkloadId(job), attempt) for job in ("a", "b") for attempt in (1, 2)]
BEGIN_NS = 10**18


@dataclass
class History:
    """A cluster, the meters of its present member, and what the centre has stored."""

    now_ns: int = BEGIN_NS
    """In the fleet's time."""
    ahead_ns: int = 0
    """Of the cluster's calendar, by which instances are stamped."""
    hands: dict[InstanceId, Hand] = field(default_factory=dict)
    meters: Meters = field(default_factory=Meters)
    saved: dict[str, Any] = field(default_factory=dict)
    stored: dict[AttemptKey, Meter] = field(default_factory=dict)
    charged: dict[AttemptKey, int] = field(default_factory=dict)
    spans: dict[AttemptKey, list[tuple[int, int]]] = field(default_factory=dict)
    under_way: list[Usage] = field(default_factory=list)

    def begin(self, key: AttemptKey, devices: int, milli: int) -> None:
        name = InstanceId(key.job, key.attempt, len(self.hands))
        place = Placement(0, tuple(range(devices)), compute_milli=milli)
        hand = Hand(name, "n0", tuple(range(devices)), place, asked=True)
        hand.started_ns = self.now_ns - self.ahead_ns
        self.hands[name] = hand
        self.meters.begin(key, self.seen(hand), self.now_ns)

    def end(self, hand: Hand, *, seen: bool) -> None:
        hand.ended_ns = self.now_ns - self.ahead_ns
        if seen:
            self.meters.end(_key(hand), self.seen(hand), self.now_ns, gone=False)

    def seen(self, hand: Hand) -> Hand:
        """An instance as its member sees it: with stamps in the fleet's time."""
        assert hand.started_ns is not None
        ended_ns = None if hand.ended_ns is None else hand.ended_ns + self.ahead_ns
        return replace(hand, started_ns=hand.started_ns + self.ahead_ns, ended_ns=ended_ns)

    def put_forward(self, jump_ns: int) -> None:
        """The centre says that it is so much later; what has to be safe then is saved."""
        self.now_ns += jump_ns
        self.ahead_ns += jump_ns
        self.meters.put_forward(jump_ns)
        self.save()

    def running(self) -> list[Hand]:
        return [hand for hand in self.hands.values() if hand.ended_ns is None]

    def save(self) -> None:
        self.meters.tidy({_key(hand): hand for hand in self.running()})
        changed, removed = self.meters.memory()
        self.saved |= copy.deepcopy(changed)
        for name in removed:
            self.saved.pop(name, None)

    def die(self) -> None:
        """A new member: it knows what was saved, and sees what its cluster has."""
        self.meters, self.under_way = Meters(), []
        self.meters.load(copy.deepcopy(self.saved), self.now_ns)
        seen: dict[AttemptKey, set[int]] = {}
        for hand in self.hands.values():
            seen.setdefault(_key(hand), set()).add(hand.id.index)
        self.meters.keep_only(seen)
        for hand in self.hands.values():
            if hand.ended_ns is None:
                self.meters.begin(_key(hand), self.seen(hand), self.now_ns)
            else:
                self.meters.end(_key(hand), self.seen(hand), self.now_ns, gone=False)

    def tell(self, *, whole: bool) -> None:
        for hand in self.running():
            self.meters.count(_key(hand), hand, self.now_ns)
        self.under_way += self.meters.tell(ended_only=False, again=whole)

    def store(self, *, acknowledged: bool) -> None:
        for usage in self.under_way:
            self._store(usage)
            if acknowledged:
                self.meters.stored(usage)
        if acknowledged:
            self.under_way = []

    def _store(self, usage: Usage) -> None:
        attempt = Attempt(usage.key.job, usage.key.attempt, "seoul", 1, 1, reserved_ns=BEGIN_NS)
        meter = told(self.stored.get(usage.key), usage, attempt, self.now_ns)
        grown = meter.device_us - meter.charged_us
        if grown:
            self.charged[usage.key] = self.charged.get(usage.key, 0) + grown
            self.spans.setdefault(usage.key, []).append((meter.since_ns, meter.until_ns))
        self.stored[usage.key] = Meter(
            meter.job_id, meter.attempt, meter.cluster, meter.device_us, meter.device_us,
            meter.until_ns, meter.until_ns,
        )  # fmt: skip

    def truth_us(self, key: AttemptKey) -> int:
        of = [hand for hand in self.hands.values() if _key(hand) == key]
        total = 0
        for hand in of:
            assert hand.started_ns is not None
            assert hand.ended_ns is not None
            assert hand.placement is not None
            milli = len(hand.devices) * hand.placement.compute_milli
            total += milli * (hand.ended_ns - hand.started_ns)
        return total // 10**6


def _key(hand: Hand) -> AttemptKey:
    return AttemptKey(hand.id.workload, hand.id.attempt)


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("begin"), st.sampled_from(KEYS), st.integers(1, 8), st.integers(1, 1000)
        ),
        st.tuples(st.just("end"), st.integers(0, 20), st.booleans()),
        st.tuples(
            st.just("whole"), st.sampled_from(KEYS), st.integers(1, 10**12), st.booleans()
        ),
        st.tuples(st.just("wait"), st.integers(1, 10**14)),
        st.tuples(st.just("forward"), st.integers(10**9, 10**13)),
        st.sampled_from(
            [("save",), ("die",), ("cut",), ("tell", False), ("tell", True), ("store", True),
             ("store", False)]
        ),
    ),
    min_size=5,
    max_size=60,
)  # fmt: skip


def play(history: History, step: tuple[Any, ...]) -> None:
    match step:
        case ("begin", key, devices, milli):
            history.begin(key, devices, milli)
        case ("end", number, seen) if history.running():
            running = history.running()
            history.end(running[number % len(running)], seen=seen)
        case ("whole", key, length_ns, saved):
            history.begin(key, 1, 1000)
            history.now_ns += length_ns
            history.end(history.running()[-1], seen=True)
            if saved:
                history.save()
        case ("wait", length_ns):
            history.now_ns += length_ns
        case ("forward", jump_ns):
            history.put_forward(jump_ns)
        case ("save",):
            history.save()
        case ("die",):
            history.die()
        case ("cut",):
            history.under_way = []
            history.tell(whole=True)
        case ("tell", whole):
            history.tell(whole=whole)
        case ("store", acknowledged):
            history.store(acknowledged=acknowledged)


@settings(max_examples=300, deadline=None)
@given(steps)
def test_whatever_happens_all_use_is_charged_once(happened: list[tuple[Any, ...]]) -> None:
    history = History()
    for step in happened:
        play(history, step)
    history.now_ns += 10**9
    for hand in history.running():
        history.end(hand, seen=True)
    history.die()  # sees the ends that nobody saw
    history.tell(whole=True)
    history.store(acknowledged=True)
    for key in {_key(hand) for hand in history.hands.values()}:
        assert history.charged.get(key, 0) == history.truth_us(key)
        spans = history.spans.get(key, [])
        assert all(BEGIN_NS <= since <= until <= history.now_ns for since, until in spans)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    history.hands.clear()
    history.save()
    assert history.saved == {}
