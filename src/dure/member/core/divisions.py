"""Nodes whose devices are to be divided anew: held, asked for, awaited until they show it.

From the moment a wish is known nothing new is placed on its node. It is refused where anything has
devices there, or that is moved elsewhere first where the wish says so. The cluster is asked again
and again, which says each time what is still awaited.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dure.domain.fleet.lifecycle import PartitionPhase
from dure.domain.fleet.protocol.desired import Partition
from dure.domain.fleet.protocol.reports import Inventory, PartitionStatus
from dure.domain.units import NS_PER_S
from dure.member.core.actions import Divide
from dure.member.core.books import Books
from dure.wire.plain import pack, unpack

_AGAIN_NS = 2 * NS_PER_S
"""How often the cluster is asked how far it is."""
_WITHIN_NS = 30 * 60 * NS_PER_S
"""How long it may take; a manager that restarts its node needs minutes."""
_ENTRY = "partition"
_HELD = "cordoned: its devices are to be divided anew"


@dataclass(slots=True)
class _Division:
    """One wish, and what has become of it."""

    partition: Partition
    since_ns: int
    phase: PartitionPhase = PartitionPhase.UNDER_WAY
    why: str = ""
    tried_ns: int | None = None
    asking: bool = False
    """Whether the cluster has been asked and has not answered yet."""

    def status(self) -> PartitionStatus:
        return PartitionStatus(self.partition.node, self.partition.number, self.phase, self.why)


@dataclass(slots=True)
class Divisions:
    """All wishes of the desired set, by node."""

    books: Books
    _known: dict[str, _Division] = field(default_factory=dict)
    _news: set[str] = field(default_factory=set)
    _unsaved: set[str] = field(default_factory=set)
    _dropped: set[str] = field(default_factory=set)

    # What is wanted

    def want(self, partitions: Iterable[Partition], now_ns: int) -> bool:
        """The centre's wishes are these; whether other nodes are held than before."""
        before = self._held()
        wanted = {each.node: each for each in partitions}
        for node in [node for node in self._known if node not in wanted]:
            del self._known[node]
            self._dropped.add(node)
        for node, partition in wanted.items():
            known = self._known.get(node)
            if known is None or known.partition != partition:
                self._known[node] = _Division(partition, now_ns)
                self._changed(node)
        return self._held() != before

    def mark(self, inventory: Inventory) -> Inventory:
        """An inventory in which nothing new is placed on nodes that are held."""
        held = self._held()
        if not held:
            return inventory
        nodes = (
            replace(node, up=False, why=_HELD) if node.up and node.name in held else node
            for node in inventory.nodes
        )
        return replace(inventory, nodes=tuple(nodes))

    def _held(self) -> set[str]:
        return {node for node, each in self._known.items() if not each.phase.ended}

    # What is done

    def step(self, now_ns: int) -> bool:
        """Ask the cluster, or give up; whether a node is held no more."""
        before = self._held()
        for each in self._known.values():
            if each.phase.ended or each.asking:
                continue
            users = self._users(each.partition.node)
            drains = each.partition.drain and now_ns - each.since_ns < _WITHIN_NS
            if users and drains:
                self._waits(each, f"{len(users)} that use its devices to move, as {users[0]}")
            elif users:
                self._end(each, PartitionPhase.REFUSED, f"its devices are used by {users[0]}")
            elif now_ns - each.since_ns >= _WITHIN_NS:
                waited_s = (now_ns - each.since_ns) / NS_PER_S
                why = f"not done after {waited_s:.0f} s: {each.why}"
                self._end(each, PartitionPhase.FAILED, why)
            elif each.tried_ns is None or now_ns - each.tried_ns >= _AGAIN_NS:
                each.tried_ns, each.asking = now_ns, True
                self.books.actions.append(Divide(each.partition))
        return self._held() != before

    def emptying(self) -> frozenset[str]:
        """Nodes from which everything shall move, so that they can be divided."""
        return frozenset(
            node
            for node, each in self._known.items()
            if each.partition.drain and not each.phase.ended and each.tried_ns is None
        )

    def _waits(self, each: _Division, why: str) -> None:
        if each.why != why:
            each.why = why
            self._news.add(each.partition.node)

    def _users(self, node: str) -> list[str]:
        """Instances of Dure's that have devices of a node, or will when they start."""
        return [
            f"attempt {hand.id.attempt} of job {hand.id.workload}"
            for _, hand in self.books.hands()
            if hand.node == node and hand.devices and not hand.life.over
        ]

    def answered(self, partition: Partition, phase: PartitionPhase, why: str) -> bool:
        """What the cluster said when it was asked; whether a node is held no more."""
        each = self._known.get(partition.node)
        if each is None or each.partition != partition or each.phase.ended:
            return False
        each.asking = False
        if phase.ended:
            self._end(each, phase, why)
            return True
        self._waits(each, why)
        return False

    def _end(self, each: _Division, phase: PartitionPhase, why: str) -> None:
        each.phase, each.why = phase, why
        self._changed(each.partition.node)
        # An end that was told and then forgotten would be tried once more.
        self.books.urgent = True

    def _changed(self, node: str) -> None:
        self._news.add(node)
        self._unsaved.add(node)
        self._dropped.discard(node)

    # What is told and kept

    def news(self, *, whole: bool) -> tuple[PartitionStatus, ...]:
        """What was not told yet, or everything."""
        nodes = set(self._known) if whole else self._news & self._known.keys()
        self._news.clear()
        return tuple(self._known[node].status() for node in sorted(nodes))

    def memory(self) -> tuple[dict[str, Any], list[str]]:
        """Entries that changed, and entries to remove."""
        changed = {
            f"{_ENTRY}/{node}": {
                "partition": pack(self._known[node].partition),
                "since_ns": self._known[node].since_ns,
                "phase": self._known[node].phase.value,
                "why": self._known[node].why,
            }
            for node in self._unsaved & self._known.keys()
        }
        removed = [f"{_ENTRY}/{node}" for node in sorted(self._dropped - self._known.keys())]
        self._unsaved.clear()
        self._dropped.clear()
        return changed, removed

    def load(self, entries: Mapping[str, Any]) -> None:
        """Remember what an earlier member knew."""
        for name, found in entries.items():
            if name.startswith(f"{_ENTRY}/"):
                partition = unpack(Partition, found["partition"])
                phase, why = PartitionPhase(found["phase"]), str(found["why"])
                self._known[partition.node] = _Division(
                    partition, int(found["since_ns"]), phase, why
                )
