"""Spreads independent runs over processes; results come back in the order of the items."""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

from dure.sim.benches.report import Tell

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def spread(
    work: Callable[[_Item], _Result],
    items: Sequence[_Item],
    *,
    workers: int,
    tell: Tell,
    name: Callable[[_Item], str] = str,
) -> list[_Result]:
    """`work` on every item; with one worker in this process, else in fresh ones.

    Processes are spawned, not forked: the progress bar is a thread, and a fork beside a thread
    can hang.
    """
    if workers <= 1 or len(items) <= 1:
        results = []
        for index, item in enumerate(items):
            tell(name(item), index / len(items))
            results.append(work(item))
        return results
    found: dict[int, _Result] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(items)), mp_context=context) as pool:
        indices = {pool.submit(work, item): index for index, item in enumerate(items)}
        for future in as_completed(indices):
            index = indices[future]
            found[index] = future.result()
            tell(f"{name(items[index])} done", len(found) / len(items))
    return [found[index] for index in range(len(items))]
