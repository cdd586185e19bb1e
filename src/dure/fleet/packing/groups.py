"""Compiled: devices of one node for copies that need several, side by side or linked."""

import numpy as np

from dure.fleet.compiled import counting_nothing
from dure.fleet.packing.devices import amounts_fit, device_copies, fits_at, free_worth
from dure.fleet.packing.ground import DOMAIN, PROFILE
from dure.fleet.packing.shapes import ALONE, DEVICES, TOGETHER, Asks, Ints, Together

_LINKED = int(Together.LINKED)
_CONTIGUOUS = int(Together.CONTIGUOUS)


@counting_nothing
def _same_group(rows: Ints, one: int, other: int, by_domain: bool) -> bool:
    return bool(
        rows[one, PROFILE] == rows[other, PROFILE]
        and (not by_domain or rows[one, DOMAIN] == rows[other, DOMAIN])
    )


@counting_nothing
def _is_first_of_group(rows: Ints, index: int, by_domain: bool) -> bool:
    for earlier in range(index):
        if _same_group(rows, earlier, index, by_domain):
            return False
    return True


@counting_nothing
def group_copies(rows: Ints, cells: Ints, masks: Ints, ask: int, held: Ints) -> tuple[float, int]:
    """Worth of the devices that several-device copies could use, and the number of copies.

    `held` is a place for a number for each device.
    """
    needed = cells[ask, 0, DEVICES]
    if needed > len(rows):
        return 0.0, 0
    together = cells[ask, 0, TOGETHER]
    by_domain = together != 0
    if cells[ask, 0, ALONE] and together == 0 and _one_profile(rows):
        return _empty_copies(rows, cells, ask, needed)
    total = 0
    for index in range(len(rows)):
        held[index] = device_copies(rows, index, cells, masks, ask)
        total += held[index]
    if total < needed:
        return 0.0, 0
    worth = 0.0
    copies = 0
    for first in range(len(rows)):
        if not _is_first_of_group(rows, first, by_domain):
            continue
        if together == _CONTIGUOUS:
            count = _run_copies(rows, held, first, needed)
        else:
            count = _spread_copies(rows, held, first, by_domain, needed)
        if count == 0:
            continue
        copies += count
        for index in range(first, len(rows)):
            if held[index] > 0 and _same_group(rows, first, index, by_domain):
                worth += free_worth(rows, index)
    return worth, copies


@counting_nothing
def _one_profile(rows: Ints) -> bool:
    for index in range(1, len(rows)):
        if rows[index, PROFILE] != rows[0, PROFILE]:
            return False
    return True


@counting_nothing
def _empty_copies(rows: Ints, cells: Ints, ask: int, needed: int) -> tuple[float, int]:
    """The same where only empty devices of one profile count, wherever they are: no grouping."""
    worth = 0.0
    count = 0
    for index in range(len(rows)):
        if amounts_fit(rows, index, cells, ask):
            worth += free_worth(rows, index)
            count += 1
    return (worth, count // needed) if count >= needed else (0.0, 0)


@counting_nothing
def _spread_copies(rows: Ints, held: Ints, first: int, by_domain: bool, needed: int) -> int:
    """Copies of `needed` different devices each, out of one group."""
    total = 0
    for index in range(first, len(rows)):
        if _same_group(rows, first, index, by_domain):
            total += held[index]
    count = total // needed
    while count > 0:
        room = 0
        for index in range(first, len(rows)):
            if _same_group(rows, first, index, by_domain):
                room += min(held[index], count)
        if room >= count * needed:
            break
        count -= 1
    return count


@counting_nothing
def _run_copies(rows: Ints, held: Ints, first: int, needed: int) -> int:
    """Copies out of runs of neighbouring devices of one group."""
    copies = 0
    run = 0
    for index in range(first, len(rows)):
        if held[index] > 0 and _same_group(rows, first, index, True):
            run += 1
            if run == needed:
                copies += 1
                run = 0
        else:
            run = 0
    return copies


@counting_nothing
def ask_on_rows(rows: Ints, cells: Ints, masks: Ints, ask: int, held: Ints) -> tuple[float, int]:
    """Worth of the devices an ask fits on, and how many copies they could hold."""
    if cells[ask, 0, DEVICES] > 1:
        return group_copies(rows, cells, masks, ask, held)
    worth = 0.0
    copies = 0
    for index in range(len(rows)):
        count = device_copies(rows, index, cells, masks, ask)
        if count > 0:
            worth += free_worth(rows, index)
            copies += count
    return worth, copies


@counting_nothing
def _pick_group(rows: Ints, asks: Asks, ask: int, by_domain: bool, picks: Ints) -> bool:
    """Devices for a copy that needs several: from the group that they leave fullest."""
    needed = asks.cells[ask, 0, DEVICES]
    best = len(rows) + 1
    best_first = -1
    for first in range(len(rows)):
        if not _is_first_of_group(rows, first, by_domain):
            continue
        count = 0
        for index in range(first, len(rows)):
            if _same_group(rows, first, index, by_domain) and fits_at(rows, index, asks, ask):
                count += 1
        if needed <= count < best:
            best = count
            best_first = first
    if best_first < 0:
        return False
    for slot in range(needed):
        tightest = -1
        least = np.inf
        for index in range(best_first, len(rows)):
            if not _same_group(rows, best_first, index, by_domain):
                continue
            worth = free_worth(rows, index)
            if worth < least and fits_at(rows, index, asks, ask):
                taken = False
                for earlier in range(slot):
                    taken = taken or picks[earlier] == index
                if not taken:
                    least = worth
                    tightest = index
        picks[slot] = tightest
    return True


@counting_nothing
def _pick_run(rows: Ints, asks: Asks, ask: int, picks: Ints) -> bool:
    """Neighbouring devices of one domain, from the shortest run that has enough."""
    needed = asks.cells[ask, 0, DEVICES]
    best = len(rows) + 1
    best_start = -1
    start = 0
    for index in range(len(rows) + 1):
        fits = index < len(rows) and fits_at(rows, index, asks, ask)
        if fits and (index == start or _same_group(rows, start, index, True)):
            continue
        if needed <= index - start < best:
            best = index - start
            best_start = start
        start = index if fits else index + 1
    for slot in range(needed):
        picks[slot] = best_start + slot
    return best_start >= 0


@counting_nothing
def pick_several(rows: Ints, asks: Asks, ask: int, picks: Ints) -> bool:
    together = asks.cells[ask, 0, TOGETHER]
    if together == _CONTIGUOUS:
        return _pick_run(rows, asks, ask, picks)
    if _pick_group(rows, asks, ask, True, picks):
        return True
    return bool(together != _LINKED and _pick_group(rows, asks, ask, False, picks))


@counting_nothing
def room_on_rows(rows: Ints, asks: Asks, ask: int, picks: Ints) -> bool:
    """Whether these devices could give one copy now."""
    needed = asks.cells[ask, 0, DEVICES]
    if needed > len(rows):
        return False
    if needed > 1:
        return pick_several(rows, asks, ask, picks)
    for index in range(len(rows)):
        if fits_at(rows, index, asks, ask):
            return True
    return False
