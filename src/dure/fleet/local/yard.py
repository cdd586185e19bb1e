"""All node groups of a cluster: choose, take and give back places, and plan moves between them.

With `fields` beside it the only door to the packing core.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dure.domain.errors import InvariantError
from dure.domain.fleet.clusters import Cluster
from dure.fleet.local.fields import Field, Flags, Ints
from dure.fleet.local.foreign import Use
from dure.fleet.local.instances import Spot
from dure.fleet.packing import packer as packing
from dure.fleet.packing.defrag import Held, Move, MoveLimits, plan_emptying, plan_room
from dure.fleet.packing.gangs import choose_gang

Mover = tuple[Spot, float]
"""A place whose holder may move, and how much that disturbs."""


class Yard:
    """All node groups of a cluster. Nodes and devices are numbered through them in their order."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.fields: list[Field] = []
        self.group_of: list[int] = []
        """By node."""
        node = device = 0
        for index, group in enumerate(cluster.groups):
            self.fields.append(Field(group, node, device))
            self.group_of += [index] * group.count
            node += group.count
            device += group.count * group.devices
        self.by_name = {group.name: index for index, group in enumerate(cluster.groups)}

    def allowed(self, group: int, owner: int = -1, held: bool = False) -> Flags:
        """Nodes of a group that may take something new of one owner."""
        field = self.fields[group]
        flags: Flags = field.open & (field.owner == owner) & ~field.draining
        return flags if held else flags & ~field.held

    def choose(self, group: int, shape: int, count: int, allowed: Flags) -> list[Spot] | None:
        """Take places for all of `count` instances, or none.

        Powered nodes come first; nodes that must be woken are used when those do not suffice.
        """
        field = self.fields[group]
        powered = allowed & field.powered
        spots = self._choose(group, shape, count, powered)
        if spots is None and not bool((powered == allowed).all()):
            spots = self._choose(group, shape, count, allowed)
        return spots

    def _choose(self, group: int, shape: int, count: int, allowed: Flags) -> list[Spot] | None:
        field = self.fields[group]
        found = self._find(field, shape, count, allowed)
        if found is None:
            return None
        spots = [field.spot(each, shape, group) for each in found]
        for spot in spots:
            field.account(spot, 1)
        return spots

    def _find(
        self, field: Field, shape: int, count: int, allowed: Flags
    ) -> list[packing.Placement] | None:
        """Places for a gang, taken: side by side in one link domain, else on the fewest nodes."""
        packer, packed = field.packer, field.packed(shape)
        if count == 1:
            single = packer.choose(packed, allowed)
            if single is None:
                return None
            packer.take_chosen(single)
            return [single]
        block = field.block(shape, count)
        together = packer.choose(block, allowed) if block is not None else None
        if together is not None:
            return _split(packer, packed, together, count)
        found = choose_gang(packer, packed, count, allowed)
        if found is None:
            return None
        for each in found:
            packer.take_chosen(each)
        return list(found)

    def take(self, spot: Spot) -> None:
        """Occupy just this place; an error where it is not free."""
        field = self.fields[spot.group]
        field.packer.take(field.place(spot))
        field.account(spot, 1)

    def give_back(self, spot: Spot) -> None:
        """Free a place."""
        field = self.fields[spot.group]
        field.packer.give_back(field.place(spot))
        field.account(spot, -1)
        if field.foreign:
            field.foreign.freed(spot.node - field.first_node)

    def reshape(self, spot: Spot, shape: int) -> Spot | None:
        """Another shape on the same devices in place of one that is held; None: there is no room
        for it, and nothing has changed."""
        field = self.fields[spot.group]
        less = field.footprints[shape].compute_milli <= spot.footprint.compute_milli
        self.give_back(spot)
        for place in field.places_on(spot, shape):
            made = field.spot(place, shape, spot.group)
            try:
                # What grows must find room as something new does; what shrinks has it.
                (self.take_found if less else self.take)(made)
            except InvariantError:
                continue
            return made
        self.take_found(spot)
        return None

    def copies(self, group: int, shape: int, allowed: Flags) -> int:
        """How many instances of a shape would fit now."""
        return self.fields[group].packer.copies(self.fields[group].packed(shape), allowed)

    def copies_by_node(self, group: int, shape: int) -> Ints:
        """The same for each node of the group."""
        field = self.fields[group]
        return field.packer.copies_by_node(field.packed(shape))

    # Plans of moves

    def empty_out(
        self, group: int, movers: Sequence[Mover], most_moves: int, allowed: Flags
    ) -> list[Spot] | None:
        """Homes elsewhere for all movers of one node, taken, in their order; None: not for all."""
        field = self.fields[group]
        plan = plan_emptying(field.packer, self._held(field, movers), most_moves, allowed)
        return None if plan is None else self._take_homes(field, group, movers, plan.moves)

    def open_room(
        self,
        group: int,
        want: tuple[int, int],
        movers: Sequence[Mover],
        most_moves: int,
        allowed: Flags,
    ) -> tuple[dict[int, Spot], list[int]] | None:
        """Homes for some movers, taken, by whose moves shape `want[0]` fits `want[1]` times.

        Homes by the movers' positions, and the nodes where the room will be. A home must be free
        while its mover still has its old place: services move warm first, jobs at a checkpoint.
        """
        field = self.fields[group]
        by_node: dict[int, list[Held]] = {}
        for each in self._held(field, movers):
            by_node.setdefault(each.placement.node, []).append(each)
        moves: list[Move] = []
        nodes: set[int] = set()
        packer, shape = field.packer, field.packed(want[0])
        with packer.what_if():
            for _ in range(want[1]):
                limits = MoveLimits(most_moves=max(1, most_moves - len(moves)))
                plan = plan_room(packer, shape, by_node, limits, allowed)
                if plan is None or plan.opened is None:
                    return None
                for move in plan.moves:
                    packer.give_back(move.source)
                packer.take(plan.opened)
                for move in plan.moves:
                    packer.take(move.target)
                    there = by_node[move.source.node]
                    by_node[move.source.node] = [each for each in there if each.key != move.key]
                moves += plan.moves
                nodes.add(plan.opened.node)
                if len(moves) > most_moves:
                    return None
        leaving = [movers[move.key] for move in moves]
        homes = self._take_homes(field, group, leaving, moves)
        if homes is None:
            return None
        return dict(zip((move.key for move in moves), homes, strict=True)), sorted(nodes)

    def _held(self, field: Field, movers: Sequence[Mover]) -> list[Held]:
        return [
            Held(key, field.place(spot), disturbance)
            for key, (spot, disturbance) in enumerate(movers)
        ]

    def _take_homes(
        self, field: Field, group: int, movers: Sequence[Mover], moves: Sequence[Move]
    ) -> list[Spot] | None:
        """Take the places that a plan moves to, or none where one overlaps a place still held."""
        by_source = {move.source: move.target for move in moves}
        homes: list[Spot] = []
        for spot, _ in movers:
            home = field.spot(by_source[field.place(spot)], spot.shape, group)
            try:
                self.take(home)
            except InvariantError:
                for taken in homes:
                    self.give_back(taken)
                return None
            homes.append(home)
        return homes

    def take_found(self, spot: Spot) -> None:
        """`take` for what is there already, whether or not something new may come."""
        field = self.fields[spot.group]
        node = spot.node - field.first_node
        field.foreign.lift(node)
        field.packer.set_open(node, True)
        try:
            self.take(spot)
        finally:
            field.packer.set_open(node, bool(field.open[node]))
            field.foreign.settle(node)

    def set_up(self, node: int, is_up: bool, cordoned: bool = False) -> None:
        """A node died, or is back, or takes nothing new."""
        field = self.fields[self.group_of[node]]
        field.up[node - field.first_node] = is_up
        field.cordoned[node - field.first_node] = cordoned
        field.packer.set_open(node - field.first_node, is_up and not cordoned)

    def set_foreign(self, node: int, use: Use) -> None:
        """What others than Dure use of a node, all of it."""
        field = self.fields[self.group_of[node]]
        field.foreign.set(node - field.first_node, use)

    def is_foreign(self, node: int) -> bool:
        """Whether others than Dure use a node."""
        field = self.fields[self.group_of[node]]
        return field.foreign.on(node - field.first_node)

    def is_up(self, node: int) -> bool:
        """Whether a node can be used."""
        field = self.fields[self.group_of[node]]
        return bool(field.up[node - field.first_node])

    def is_cordoned(self, node: int) -> bool:
        """Whether a node that is up takes nothing new."""
        field = self.fields[self.group_of[node]]
        return bool(field.cordoned[node - field.first_node])

    @contextmanager
    def what_if(self, group: int) -> Iterator[None]:
        """Undo all that is taken and given back inside, which must be of one group."""
        field = self.fields[group]
        kept = field.used.copy()
        try:
            with field.packer.what_if():
                yield
        finally:
            field.used = kept


def _split(
    packer: packing.Packer, packed: int, block: packing.Placement, count: int
) -> list[packing.Placement]:
    """Take a block of devices as the places of several instances."""
    size = len(block.devices) // count
    devices = sorted(block.devices)
    found = [
        packing.Placement(
            packed, block.node, tuple(devices[at * size : (at + 1) * size]), (0,) * size
        )
        for at in range(count)
    ]
    for each in found:
        packer.take_chosen(each)
    return found
