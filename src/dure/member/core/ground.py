"""What the cluster consists of: nodes come, go and change, and the local stage hears of it."""

from dataclasses import dataclass

from dure.domain.fleet.events import NodeBack, NodeCordoned, NodeLost
from dure.domain.fleet.protocol.reports import Inventory, NodeFact
from dure.member.core.books import Books
from dure.member.core.divisions import Divisions
from dure.member.core.layout import Layout, is_cordoned
from dure.member.core.stage import Stage
from dure.member.core.teller import Teller


@dataclass(slots=True)
class Ground:
    """Nodes as they were last seen."""

    books: Books
    stage: Stage
    divisions: Divisions
    teller: Teller
    synced: bool = False
    """Whether all that exists was told once."""
    _inventory: Inventory | None = None

    def see(self, inventory: Inventory, now_ns: int) -> None:
        """Nodes came, went, or may (not) be used."""
        self._inventory = inventory
        self.look_again(now_ns)

    def look_again(self, now_ns: int) -> None:
        """Nodes changed, or which of them are held."""
        if self._inventory is None:
            return
        inventory = self.divisions.mark(self._inventory)
        known, layout = self.books.layout, Layout(inventory)
        self.books.layout = layout
        self.teller.inventory_changed = True
        if not self.synced:
            for _, hand in self.books.hands():
                if hand.placement is not None and known is None:
                    hand.placement = layout.placement(hand.placement, hand.node, hand.devices)
            return
        if known is None or known.shape != layout.shape:
            self.stage.build(now_ns)
            return
        for number, (old, new) in enumerate(
            zip(known.inventory.nodes, inventory.nodes, strict=True)
        ):
            self._node_changed(number, old, new, now_ns)

    def _node_changed(self, number: int, old: NodeFact, new: NodeFact, now_ns: int) -> None:
        was, now = _state(old), _state(new)
        if was == now:
            return
        if now == _UP:
            self.stage.tell(NodeBack(now_ns, number))
        elif now == _CORDONED:
            self.stage.tell(NodeCordoned(now_ns, number))
        else:
            for held, hand in list(self.books.hands()):
                if hand.node == new.name and not hand.life.over:
                    self.stage.release(hand)
                    self.books.end_hand(held, hand, now_ns)
            self.stage.tell(NodeLost(now_ns, number))


_UP, _CORDONED, _DOWN = "up", "cordoned", "down"


def _state(node: NodeFact) -> str:
    if node.up:
        return _UP
    return _CORDONED if is_cordoned(node) else _DOWN
