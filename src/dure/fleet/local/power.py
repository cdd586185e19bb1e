"""Which nodes are on: empty ones are switched off after a while, needed ones woken."""

import heapq
from dataclasses import dataclass, field

from dure.domain.fleet.instructions import LocalInstruction, PowerNode
from dure.fleet.local.instances import NEVER_NS
from dure.fleet.local.settings import PowerRules
from dure.fleet.local.yard import Yard


@dataclass(slots=True)
class Power:
    """Switches nodes. A node that is being woken counts as on: what starts there waits for it."""

    yard: Yard
    rules: PowerRules
    enabled: bool
    empty_since: dict[int, int] = field(default_factory=dict)
    """Powered nodes without an instance, and since when."""
    clock: list[tuple[int, int]] = field(default_factory=list)
    """When which node has been empty for long enough."""

    def emptied(self, node: int, now_ns: int) -> None:
        """The last instance left a node, or the node is new."""
        self.empty_since[node] = now_ns
        if self.enabled:
            heapq.heappush(self.clock, (now_ns + self.rules.idle_ns, node))

    def used(self, node: int) -> list[LocalInstruction]:
        """Something is about to start on a node: wake it if it is off."""
        self.empty_since.pop(node, None)
        where = self.yard.fields[self.yard.group_of[node]]
        if where.powered[node - where.first_node]:
            return []
        where.powered[node - where.first_node] = True
        return [PowerNode(node, on=True)]

    def found(self, node: int) -> None:
        """Something runs on a node: it is on."""
        self.empty_since.pop(node, None)
        self._set(node, True)

    def lost(self, node: int) -> None:
        """A node died; whatever it was, it is not on."""
        self.empty_since.pop(node, None)
        self._set(node, False)

    def back(self, node: int, now_ns: int) -> None:
        """A node is back, and on."""
        self._set(node, True)
        self.emptied(node, now_ns)

    def start(self, on: bool, now_ns: int) -> None:
        """Before the first event: all nodes are empty."""
        for node in range(len(self.yard.group_of)):
            if on:
                self.emptied(node, now_ns)
            else:
                self._set(node, False)

    def switch_off(self, now_ns: int) -> list[LocalInstruction]:
        """Switch off what has been empty for long enough, beyond the spare nodes of each group."""
        done: list[LocalInstruction] = []
        while self.clock and self.clock[0][0] <= now_ns:
            ring_ns, node = heapq.heappop(self.clock)
            since = self.empty_since.get(node)
            if since is None or since + self.rules.idle_ns > ring_ns:
                continue
            spare = self._spare(self.yard.group_of[node]) <= self.rules.spare_nodes
            if spare or self.yard.is_foreign(node):
                heapq.heappush(self.clock, (now_ns + self.rules.idle_ns, node))
                continue
            del self.empty_since[node]
            self._set(node, False)
            done.append(PowerNode(node, on=False))
        return done

    def next_ns(self) -> int:
        """When to look next."""
        return self.clock[0][0] if self.clock else NEVER_NS

    def _spare(self, group: int) -> int:
        return sum(self.yard.group_of[node] == group for node in self.empty_since)

    def _set(self, node: int, on: bool) -> None:
        where = self.yard.fields[self.yard.group_of[node]]
        where.powered[node - where.first_node] = on
