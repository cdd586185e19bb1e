"""What attempts use of devices: counted in whole numbers, and kept until the centre has stored it.

A meter only grows, and the centre charges by how much it grew. So it may be told twice, late, or by
the next member. Counting goes on from what was saved: of an instance that still runs that is right
even if the save is old, since the time in between is counted again on the same meter. Of one that
vanished while no member was there, nobody knows more than the last save.

All moments are in the fleet's time. That the centre puts it forward is no use: what runs is counted
from as much later on.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dure.domain.fleet.protocol.desired import AttemptKey
from dure.domain.fleet.protocol.reports import Usage
from dure.domain.fleet.slices import WHOLE_MILLI
from dure.domain.ids import WorkloadId
from dure.domain.units import NS_PER_S
from dure.member.core.held import Hand

_ENTRY = "usage"
_SAVED_NS = 300 * NS_PER_S
"""How old a save of what runs may be."""
BEHIND_NS = 10 * NS_PER_S
"""What runs is counted up to so long ago: its end is stamped by its node, whose clock may be behind
this one, and what was counted beyond that could not be taken back."""
_PER_US = WHOLE_MILLI * 1000
"""Thousandths of a device in use for a nanosecond, in one device-microsecond."""


def _name_of(key: AttemptKey) -> str:
    return f"{_ENTRY}/{key.job}/{key.attempt}"


@dataclass(slots=True)
class Running:
    """An instance that uses devices."""

    counted_ns: int
    """Until when it is counted."""
    milli: int
    """Thousandths of devices that it holds."""


@dataclass(slots=True)
class Meter:
    """One attempt."""

    milli_ns: int = 0
    """All it has used, in thousandths of a device for a nanosecond."""
    since_ns: int = 0
    """From when on what is not stored was used."""
    until_ns: int = 0
    stored_us: int = 0
    """What the centre has surely stored."""
    told_us: int = 0
    running: dict[int, Running] = field(default_factory=dict)
    """By the instance's number."""
    over: set[int] = field(default_factory=set)
    """Instances that are counted to their end, and may be seen again."""
    saved_ns: int = 0
    """When it was last meant to be saved."""

    @property
    def device_us(self) -> int:
        """All it has used."""
        return self.milli_ns // _PER_US

    def count(self, one: Running, now_ns: int) -> None:
        """Count an instance up to a moment."""
        if now_ns <= one.counted_ns:
            return
        if self.device_us == self.stored_us:
            self.since_ns = one.counted_ns
        self.milli_ns += one.milli * (now_ns - one.counted_ns)
        self.until_ns = max(self.until_ns, now_ns)
        one.counted_ns = now_ns


@dataclass(slots=True)
class Meters:
    """All attempts that have used something which the centre may not have stored."""

    _meters: dict[AttemptKey, Meter] = field(default_factory=dict)
    _ended: set[AttemptKey] = field(default_factory=set)
    """Attempts with news that need not wait: nothing of them runs any more."""
    _unsaved: set[AttemptKey] = field(default_factory=set)
    _dropped: set[AttemptKey] = field(default_factory=set)

    # Counting

    def begin(self, key: AttemptKey, hand: Hand, now_ns: int) -> None:
        """An instance is ready: it uses its devices since its cluster started it."""
        meter = self._meters.setdefault(key, Meter())
        index = hand.id.index
        if index in meter.running or index in meter.over:
            return  # an earlier member began to count it
        meter.running[index] = Running(hand.started_ns or now_ns, _milli(hand))
        meter.saved_ns = now_ns
        self._unsaved.add(key)

    def end(self, key: AttemptKey, hand: Hand, now_ns: int, *, gone: bool) -> None:
        """An instance is over; `gone`: it will not be seen again."""
        index = hand.id.index
        if hand.started_ns is not None and hand.ended_ns is not None:
            # Where nobody saw it run it was quick, or no member was there.
            self.begin(key, hand, now_ns)
        meter = self._meters.get(key)
        if meter is None:
            return
        one = meter.running.pop(index, None)
        if one is not None:
            meter.count(one, hand.ended_ns or now_ns)
            meter.over.add(index)
            self._unsaved.add(key)
            if not meter.running:
                self._ended.add(key)
        if gone:
            self.gone(key, index)

    def gone(self, key: AttemptKey, index: int) -> None:
        """Nothing of an instance is left in the cluster."""
        meter = self._meters.get(key)
        if meter is not None and index in meter.over:
            meter.over.discard(index)
            self._unsaved.add(key)

    def count(self, key: AttemptKey, hand: Hand, now_ns: int) -> None:
        """Count an instance that runs, at the share that it has had until now."""
        meter = self._meters.get(key)
        one = None if meter is None else meter.running.get(hand.id.index)
        if meter is None or one is None:
            return
        milli = _milli(hand)
        changed = bool(milli) and milli != one.milli
        meter.count(one, now_ns if changed else now_ns - BEHIND_NS)
        if changed:
            one.milli = milli
        if changed or now_ns - meter.saved_ns >= _SAVED_NS:
            meter.saved_ns = now_ns
            self._unsaved.add(key)

    def put_forward(self, jump_ns: int) -> None:
        """The centre put the fleet's time forward: nothing was used in that. Saved at once: the
        next member would count the difference."""
        for key, meter in self._meters.items():
            for one in meter.running.values():
                one.counted_ns += jump_ns
            if meter.running:
                self._unsaved.add(key)

    def keep_only(self, present: Mapping[AttemptKey, set[int]]) -> None:
        """Everything in the cluster was seen: what else ran is over since nobody knows when."""
        for key, meter in self._meters.items():
            indices = present.get(key, set())
            for index in meter.running.keys() - indices:
                del meter.running[index]
                self._unsaved.add(key)
            if meter.over - indices:
                meter.over &= indices
                self._unsaved.add(key)
            if not meter.running:
                self._ended.add(key)

    # Telling

    def tell(self, *, ended_only: bool, again: bool) -> Iterator[Usage]:
        """What the centre was not told; `again`: what it may not have stored."""
        for key in sorted(self._ended if ended_only else self._meters):
            meter = self._meters.get(key)
            if meter is None:
                continue
            if again:
                meter.told_us = meter.stored_us
            if meter.device_us > meter.told_us:
                meter.told_us = meter.device_us
                yield Usage(key, meter.device_us, meter.since_ns, meter.until_ns)
        self._ended.clear()

    def stored(self, usage: Usage) -> None:
        """The centre has stored what was told."""
        meter = self._meters.get(usage.key)
        if meter is not None and usage.device_us > meter.stored_us:
            meter.stored_us, meter.since_ns = usage.device_us, usage.until_ns

    def tidy(self, known: Mapping[AttemptKey, Any]) -> None:
        """Forget attempts that are known no more, once all they used is stored."""
        for key in [key for key in self._meters if key not in known]:
            meter = self._meters[key]
            if not meter.running and meter.stored_us == meter.device_us:
                del self._meters[key]
                self._dropped.add(key)

    # Memory

    def memory(self) -> tuple[dict[str, Any], list[str]]:
        """Entries that changed, and entries to remove."""
        changed = {
            _name_of(key): _entry(self._meters[key]) for key in self._unsaved & self._meters.keys()
        }
        removed = [_name_of(key) for key in sorted(self._dropped - self._meters.keys())]
        self._unsaved.clear()
        self._dropped.clear()
        return changed, removed

    def load(self, entries: Mapping[str, Any], now_ns: int) -> None:
        """Remember what an earlier member counted; where the fleet's time is not known to be as
        late as then, what runs is counted from about now on."""
        for name, found in entries.items():
            if name.startswith(f"{_ENTRY}/"):
                _, job, attempt = name.split("/")
                meter = self._meters[AttemptKey(WorkloadId(job), int(attempt))] = _read(found)
                for one in meter.running.values():
                    one.counted_ns = min(one.counted_ns, now_ns + BEHIND_NS)


def _milli(hand: Hand) -> int:
    if hand.placement is None:
        return 0
    return len(hand.devices) * hand.placement.compute_milli


def _entry(meter: Meter) -> dict[str, Any]:
    return {
        "milli_ns": str(meter.milli_ns),  # more than JSON's readers agree on
        "since_ns": meter.since_ns,
        "until_ns": meter.until_ns,
        "stored_us": meter.stored_us,
        "running": [[index, one.counted_ns, one.milli] for index, one in meter.running.items()],
        "over": sorted(meter.over),
    }


def _read(found: Mapping[str, Any]) -> Meter:
    stored_us = int(found["stored_us"])
    return Meter(
        milli_ns=int(found["milli_ns"]),
        since_ns=int(found["since_ns"]),
        until_ns=int(found["until_ns"]),
        stored_us=stored_us,
        told_us=stored_us,
        running={index: Running(ns, milli) for index, ns, milli in found["running"]},
        over=set(found["over"]),
    )
