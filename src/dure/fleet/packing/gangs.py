"""Places for a gang: all its equal instances at once, on the fewest nodes, in one zone if any."""

import numpy as np

from dure.fleet.packing.packer import Packer, Placement
from dure.fleet.packing.shapes import Flags, Ints


def choose_gang(
    packer: Packer, shape: int, count: int, allowed: Flags | None = None
) -> tuple[Placement, ...] | None:
    """Places for `count` instances of one shape, or None where not all of them fit at once.

    Zones in which the whole gang fits come first, the one with fewest nodes needed, then the one
    left fullest; without such a zone it may cross them. Nothing is taken.
    """
    room = packer.copies_by_node(shape, allowed)
    if int(np.minimum(room, count).sum()) < count:
        return None
    for zone in _zones_by_fit(packer.ground.zone, room, count):
        found = _fill(packer, shape, count, (room > 0) & (packer.ground.zone == zone))
        if found is not None:
            return found
    return _fill(packer, shape, count, room > 0)


def _zones_by_fit(zones: Ints, room: Ints, count: int) -> list[int]:
    ranked = []
    for zone in np.unique(zones[room > 0]).tolist():
        inside = np.sort(np.minimum(room[zones == zone], count))[::-1]
        total = np.cumsum(inside)
        if total[-1] >= count:
            ranked.append((int(np.searchsorted(total, count)), int(total[-1]), zone))
    return [zone for _, _, zone in sorted(ranked)]


def _fill(packer: Packer, shape: int, count: int, usable: Flags) -> tuple[Placement, ...] | None:
    """Largest nodes first; the last part goes where it fits tightest."""
    found: list[Placement] = []
    usable = usable.copy()
    with packer.what_if():
        while len(found) < count:
            room = packer.copies_by_node(shape, usable)
            node = _next_node(packer, shape, room, count - len(found))
            if node < 0:
                return None
            only = np.zeros_like(usable)
            only[node] = True
            while len(found) < count:
                place = packer.choose(shape, only)
                if place is None:
                    break
                packer.take_chosen(place)
                found.append(place)
            usable[node] = False
    return tuple(found)


def _next_node(packer: Packer, shape: int, room: Ints, left: int) -> int:
    most = int(room.max(initial=0))
    if most == 0:
        return -1
    wanted = most if most < left else int(room[room >= left].min())
    alike = np.flatnonzero(room == wanted).tolist()
    return int(min(alike, key=lambda node: (packer.cost(shape, node), node)))
