"""Compiled: what one device has free, what fits on it, and taking it."""

from dure.fleet.compiled import counting_nothing
from dure.fleet.packing.ground import (
    ALL_BANDWIDTH,
    ALL_MEMORY,
    ALL_SLOTS,
    BANDWIDTH,
    COLUMNS,
    COMPUTE,
    LIMIT,
    MEMORY,
    PROFILE,
    ROOM,
    SHARING,
    SLOTS,
    WORTH,
    Sharing,
)
from dure.fleet.packing.shapes import ACCEPTED, END_MASK, FIRST_MASK, WHOLE_MILLI, Asks, Ints
from dure.fleet.packing.shapes import BANDWIDTH as ASKS_BANDWIDTH
from dure.fleet.packing.shapes import COMPUTE as ASKS_COMPUTE
from dure.fleet.packing.shapes import MEMORY as ASKS_MEMORY

_WHOLE = int(Sharing.WHOLE)
_SLOTS = int(Sharing.SLOTS)
_QUEUE = int(Sharing.QUEUE)


@counting_nothing
def free_worth(rows: Ints, at: int) -> float:
    """What is free of a device, in thousandths of a device of worth 1000."""
    if rows[at, ROOM] <= 0:
        return 0.0
    sharing = rows[at, SHARING]
    if sharing == _WHOLE:
        share = 1.0
    elif sharing == _QUEUE:
        share = rows[at, ROOM] / rows[at, LIMIT]
    elif sharing == _SLOTS:
        share = _bits(rows[at, SLOTS]) / _bits(rows[at, ALL_SLOTS])
    else:
        share = rows[at, COMPUTE] / WHOLE_MILLI
    return float(share * rows[at, WORTH])


@counting_nothing
def _bits(mask: int) -> int:
    count = 0
    while mask:
        mask &= mask - 1
        count += 1
    return count


@counting_nothing
def _wants_all(rows: Ints, at: int, cells: Ints, ask: int) -> bool:
    return bool(
        cells[ask, rows[at, PROFILE], ASKS_COMPUTE] >= WHOLE_MILLI or rows[at, SHARING] == _WHOLE
    )


@counting_nothing
def amounts_fit(rows: Ints, at: int, cells: Ints, ask: int) -> bool:
    """Whether the device gives one copy all but its slots."""
    profile = rows[at, PROFILE]
    if rows[at, ROOM] < 1 or not cells[ask, profile, ACCEPTED]:
        return False
    memory = cells[ask, profile, ASKS_MEMORY]
    bandwidth = cells[ask, profile, ASKS_BANDWIDTH]
    if _wants_all(rows, at, cells, ask):
        return bool(
            rows[at, ROOM] == rows[at, LIMIT]
            and memory <= rows[at, ALL_MEMORY]
            and bandwidth <= rows[at, ALL_BANDWIDTH]
        )
    if memory > rows[at, MEMORY]:
        return False
    return bool(
        rows[at, SHARING] == _QUEUE
        or (
            bandwidth <= rows[at, BANDWIDTH]
            and cells[ask, profile, ASKS_COMPUTE] <= rows[at, COMPUTE]
        )
    )


@counting_nothing
def next_mask(rows: Ints, at: int, asks: Asks, ask: int, number: int) -> tuple[int, int]:
    """The first feasible placement from that number on in their order: its mask and number.

    A device without slots has one placement, mask 0. Mask -1: there is none.
    """
    cells, masks = asks
    if not amounts_fit(rows, at, cells, ask):
        return -1, 0
    if rows[at, SHARING] != _SLOTS or _wants_all(rows, at, cells, ask):
        return (rows[at, ALL_SLOTS], 0) if number == 0 else (-1, 0)
    profile = rows[at, PROFILE]
    first = cells[ask, profile, FIRST_MASK]
    for index in range(first + number, cells[ask, profile, END_MASK]):
        mask = masks[index]
        if mask & rows[at, SLOTS] == mask:
            return mask, index - first
    return -1, 0


@counting_nothing
def fits_at(rows: Ints, at: int, asks: Asks, ask: int) -> bool:
    """Whether the device can give one copy."""
    return next_mask(rows, at, asks, ask, 0)[0] >= 0


@counting_nothing
def mask_fits(rows: Ints, at: int, asks: Asks, ask: int, mask: int) -> bool:
    """Whether the device can give one copy at just this placement."""
    found, number = next_mask(rows, at, asks, ask, 0)
    while found >= 0:
        if found == mask:
            return True
        found, number = next_mask(rows, at, asks, ask, number + 1)
    return False


@counting_nothing
def book_device(rows: Ints, at: int, cells: Ints, ask: int, mask: int, sign: int) -> None:
    """Take one copy from the device (`sign` 1), or give it back (-1)."""
    if _wants_all(rows, at, cells, ask):
        whole = sign < 0
        rows[at, COMPUTE] = WHOLE_MILLI if whole else 0
        rows[at, MEMORY] = rows[at, ALL_MEMORY] if whole else 0
        rows[at, BANDWIDTH] = rows[at, ALL_BANDWIDTH] if whole else 0
        rows[at, SLOTS] = rows[at, ALL_SLOTS] if whole else 0
        rows[at, ROOM] = rows[at, LIMIT] if whole else 0
        return
    profile = rows[at, PROFILE]
    rows[at, ROOM] -= sign
    rows[at, MEMORY] -= sign * cells[ask, profile, ASKS_MEMORY]
    if rows[at, SHARING] != _QUEUE:
        rows[at, COMPUTE] -= sign * cells[ask, profile, ASKS_COMPUTE]
        rows[at, BANDWIDTH] -= sign * cells[ask, profile, ASKS_BANDWIDTH]
    if sign > 0:
        rows[at, SLOTS] &= ~mask
    else:
        rows[at, SLOTS] |= mask


@counting_nothing
def device_copies(rows: Ints, at: int, cells: Ints, masks: Ints, ask: int) -> int:
    """How many copies the device could hold now."""
    if not amounts_fit(rows, at, cells, ask):
        return 0
    if _wants_all(rows, at, cells, ask):
        return 1
    profile = rows[at, PROFILE]
    most = rows[at, ROOM]
    memory = cells[ask, profile, ASKS_MEMORY]
    if memory > 0:
        most = min(most, rows[at, MEMORY] // memory)
    if rows[at, SHARING] == _QUEUE:
        return int(most)
    compute = cells[ask, profile, ASKS_COMPUTE]
    if compute > 0:
        most = min(most, rows[at, COMPUTE] // compute)
    bandwidth = cells[ask, profile, ASKS_BANDWIDTH]
    if bandwidth > 0:
        most = min(most, rows[at, BANDWIDTH] // bandwidth)
    if rows[at, SHARING] != _SLOTS:
        return int(most)
    count = 0
    free = rows[at, SLOTS]
    for index in range(cells[ask, profile, FIRST_MASK], cells[ask, profile, END_MASK]):
        mask = masks[index]
        if count < most and mask & free == mask:
            free &= ~mask
            count += 1
    return count


@counting_nothing
def alike(rows: Ints, one: int, other: int) -> bool:
    for column in range(COLUMNS):
        if rows[one, column] != rows[other, column]:
            return False
    return True


@counting_nothing
def seen_alike(rows: Ints, index: int) -> bool:
    for earlier in range(index):
        if alike(rows, earlier, index):
            return True
    return False
