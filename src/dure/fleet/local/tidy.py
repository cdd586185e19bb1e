"""Defragmentation and compaction: plans of a few moves, tried on paper and made only if they pay.

Compaction empties a node that is nearly empty, so that it costs nothing any more. Defragmentation
opens room for an order that is blocked although there would be enough free capacity in all. Either
commits only when every instance that must go has a home, taken before anything moves, and when what
is won is worth the moves. Services move at once, warm first; jobs at their next checkpoint. Only so
many moves are under way at a time, and begun within an hour.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from dure.domain.fleet.instructions import Warn
from dure.domain.fleet.policy import HOUR_NS, FleetPolicy
from dure.domain.fleet.slices import WHOLE_MILLI
from dure.fleet.local.admission import Admission, Flags
from dure.fleet.local.floor import Floor
from dure.fleet.local.instances import (
    NEVER_NS,
    DisplacementCost,
    Instance,
    Spot,
    Task,
    displacement_cost,
)
from dure.fleet.local.settings import TidyRules

Moves = list[tuple[Instance, Spot]]


@dataclass(slots=True)
class Tidy:
    """Plans and makes moves inside a cluster."""

    floor: Floor
    admission: Admission
    rules: TidyRules
    policy: FleetPolicy = field(default_factory=FleetPolicy)
    look_ns: int = -1
    """When the cluster is looked at next."""
    tried_ns: dict[int, int] = field(default_factory=dict)
    """By group: when room was last sought for its first blocked order."""
    begun_ns: list[int] = field(default_factory=list)
    """When moves of the last hour were begun."""
    emptying: frozenset[int] = frozenset()
    """Nodes that somebody wants to be empty."""
    empty_ns: int = NEVER_NS
    """When those are looked at next."""

    # When

    def next_ns(self) -> int:
        """When to look next."""
        times = [self.look_ns, self.empty_ns]
        for group, line in enumerate(self.floor.queue.lines):
            if line.tasks:
                since = max(line.tasks[0].queued_ns, self.tried_ns.get(group, -NEVER_NS))
                times.append(since + self.rules.blocked_ns)
        return min(times)

    def run(self, now_ns: int) -> None:
        """Do what is due."""
        if self.look_ns < 0:
            # Clusters look at different moments, so that no round finds all of them at it.
            name = self.floor.yard.cluster.id.encode()
            self.look_ns = now_ns + zlib.crc32(name) % self.rules.interval_ns
        for group, line in enumerate(self.floor.queue.lines):
            if not line.tasks:
                continue
            since = max(line.tasks[0].queued_ns, self.tried_ns.get(group, -NEVER_NS))
            if now_ns >= since + self.rules.blocked_ns:
                self.tried_ns[group] = now_ns
                self.open_room(line.tasks[0], now_ns)
        if now_ns >= self.empty_ns:
            wanted = frozenset[int]() if self.policy.dry_run else self.emptying
            self.empty_ns = now_ns + self.rules.empty_ns if self.emptying else NEVER_NS
            for node in sorted(wanted):
                self.empty(node, now_ns)
        if now_ns >= self.look_ns:
            self.look_ns = now_ns + self.rules.interval_ns
            for group in range(len(self.floor.yard.fields)):
                self.compact(group, now_ns)

    # Compaction

    def compact(self, group: int, now_ns: int) -> None:
        """Empty the least used nodes of a group onto others that stay in use."""
        yard, where = self.floor.yard, self.floor.yard.fields[group]
        if self.floor.queue.lines[group].tasks:
            return
        left = self._allowance(now_ns)
        if not left:
            return
        stays = self._stays_in_use(group, now_ns)
        nodes = (stays & ~where.held & ~where.draining).nonzero()[0].tolist()
        used = where.used[0]
        for node in sorted(nodes, key=lambda each: (int(used[each]), each)):
            there = self.floor.on_node[where.first_node + node].values()
            leaving = self._to_move(there, now_ns)
            moved = sum(each.spot.footprint.device_share for each in leaving)
            if not leaving or where.group.devices < self.rules.gain * moved:
                continue
            others = stays.copy()
            others[node] = False
            owner = self.floor.leases.owner(leaving[0].task)
            allowed = yard.allowed(group, owner) & others
            movers = [(each.spot, 1.0) for each in leaving]
            homes = yard.empty_out(group, movers, left, allowed)
            if homes is None:
                continue
            moves = list(zip(leaving, homes, strict=True))
            if self._commit(moves, f"empties node {where.first_node + node}", now_ns):
                left -= len(moves)
                stays[node] = False

    def _stays_in_use(self, group: int, now_ns: int) -> Flags:
        """Nodes with somebody who does not leave by himself soon."""
        where = self.floor.yard.fields[group]
        there = self.floor.on_node[where.first_node : where.first_node + where.group.count]
        flags = [
            any(not self._leaves(each, now_ns) for each in guests.values()) for guests in there
        ]
        return where.open & np.array(flags, dtype=np.bool_)

    def want_empty(self, nodes: frozenset[int], now_ns: int) -> None:
        """Somebody wants these nodes, and no others, to be empty."""
        self.emptying = frozenset(each for each in nodes if each < len(self.floor.on_node))
        self.empty_ns = now_ns

    def empty(self, node: int, now_ns: int) -> None:
        """Move from a node what may be moved, as far as there is room and moves are left."""
        yard = self.floor.yard
        for instance in list(self.floor.on_node[node].values()):
            task = instance.task
            going = instance.leaving is not None or instance.id.index in task.moving
            ready = instance.warm or not task.serving
            if going or not ready or not self._is_movable(task) or not self._allowance(now_ns):
                continue
            allowed = yard.allowed(task.group, self.floor.leases.owner(task))
            for other in self.emptying:
                where = yard.fields[task.group]
                if yard.group_of[other] == task.group:
                    allowed[other - where.first_node] = False
            spots = yard.choose(task.group, instance.spot.shape, 1, allowed)
            if spots is not None:
                self._commit([(instance, spots[0])], f"empties node {node}", now_ns)

    # Defragmentation

    def open_room(self, task: Task, now_ns: int) -> None:
        """Move others out of the way of an order that would fit if free capacity lay together."""
        yard, group = self.floor.yard, task.group
        allowed = yard.allowed(group, self.floor.leases.owner(task), held=True)
        where = yard.fields[group]
        count = 1 if task.serving else task.missing
        size = where.group.devices * WHOLE_MILLI
        taken = where.used[0][allowed].sum() + where.foreign.amounts[0][allowed].sum()
        free = int(allowed.sum()) * size - int(taken)
        if free < count * task.footprint.devices * task.footprint.compute_milli:
            return
        left = self._allowance(now_ns)
        if not left:
            return
        able = self._able(task, allowed, now_ns)
        movers = [(each.spot, float(rank)) for rank, each in enumerate(able, start=1)]
        want = (task.shape, count)
        found = yard.open_room(group, want, movers, left, allowed)
        if found is None or not found[0]:
            return
        homes, nodes = found
        moves = [(able[key], home) for key, home in homes.items()]
        moved = sum(instance.spot.footprint.device_share for instance, _ in moves)
        if count * task.footprint.device_share < self.rules.gain * moved:
            self._drop(moves)
        elif self._commit(moves, "makes room for one that needs more in one place", now_ns):
            self.admission.keep(task, nodes, now_ns)

    def _able(self, task: Task, allowed: Flags, now_ns: int) -> list[Instance]:
        """Who could move out of the way of a task, the least affected first."""
        where = self.floor.yard.fields[task.group]
        able: list[tuple[DisplacementCost, int, Instance]] = []
        costs: dict[int, DisplacementCost | None] = {}  # by task; None: it stays
        for node in allowed.nonzero()[0].tolist():
            for instance in self.floor.on_node[where.first_node + node].values():
                other = instance.task
                if id(other) not in costs:
                    gives_way = task.priority >= other.priority and self._is_movable(other)
                    costs[id(other)] = displacement_cost(other, now_ns) if gives_way else None
                cost = costs[id(other)]
                if cost is not None and self._is_settled(instance, now_ns):
                    able.append((cost, instance.id.index, instance))
        able.sort(key=lambda each: each[:2])
        return [instance for _, _, instance in able]

    # Plans

    def _allowance(self, now_ns: int) -> int:
        """How many moves may be begun now."""
        rules = self.rules
        self.begun_ns = [at_ns for at_ns in self.begun_ns if now_ns - at_ns < HOUR_NS]
        under_way = sum(
            len(task.moving) + sum(each.leaving is not None for each in task.instances.values())
            for task in self.floor.tasks.values()
        )
        at_once, of_hour = self.policy.local_moves_at_once, self.policy.local_moves_per_hour
        at_once = rules.most_at_once if at_once is None else at_once
        of_hour = rules.most_per_hour if of_hour is None else of_hour
        left = rules.most_moves
        if at_once is not None:
            left = min(left, at_once - under_way)
        if of_hour is not None:
            left = min(left, of_hour - len(self.begun_ns))
        return max(0, left)

    def _to_move(self, there: Iterable[Instance], now_ns: int) -> list[Instance]:
        """Who must move for a node to empty; nobody where one who must cannot."""
        staying = [each for each in there if not self._leaves(each, now_ns)]
        return staying if all(self._may_move(each, now_ns) for each in staying) else []

    def _leaves(self, instance: Instance, now_ns: int) -> bool:
        """Whether a job's instance goes by itself before a move would pay."""
        task = instance.task
        soon = task.expected_end_ns - now_ns < self.rules.worth_moving_ns
        return not task.serving and (soon or task.ending)

    def _may_move(self, instance: Instance, now_ns: int) -> bool:
        return self._is_settled(instance, now_ns) and self._is_movable(instance.task)

    def _is_settled(self, instance: Instance, now_ns: int) -> bool:
        """Whether an instance has been where it is for a while and is about to go nowhere."""
        task = instance.task
        if instance.leaving is not None or instance.id.index in task.moving:
            return False
        rested = now_ns - instance.moved_ns >= self.rules.rest_ns
        return rested and (instance.warm or not task.serving)

    def _is_movable(self, task: Task) -> bool:
        """Whether instances of a task may be moved at all."""
        workload = task.order.workload
        if task.ending or not self.policy.of(workload.kind).migrate or not workload.preemptible:
            return False
        return task.serving or workload.gang.checkpoint_s is not None

    def _drop(self, moves: Moves) -> None:
        for _, spot in moves:
            self.floor.yard.give_back(spot)

    def _commit(self, moves: Moves, what: str, now_ns: int) -> bool:
        """Make the moves: services now, jobs at their next checkpoint; False: in a dry run."""
        if self.policy.dry_run:
            self._drop(moves)
            names = ", ".join(f"{each.id.workload}#{each.id.index}" for each, _ in moves)
            self.floor.out.append(Warn(names, f"a move that {what} was planned, not made"))
            return False
        moves.sort(key=lambda move: displacement_cost(move[0].task, now_ns))
        self.begun_ns += [now_ns] * len(moves)
        for instance, spot in moves:
            if instance.task.serving:
                self.floor.move(instance, spot, what, now_ns)
            else:
                self.floor.plan_move(instance, spot, what)
        return True
