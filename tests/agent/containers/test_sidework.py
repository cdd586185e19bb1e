"""Tasks side by side: all are begun, and those that hang are left out."""

import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from dure.agent.containers.sidework import side_by_side


def test_all_tasks_are_done_with_no_more_threads_than_wished() -> None:
    seen: set[str] = set()

    def square(number: int) -> int:
        seen.add(threading.current_thread().name + str(threading.get_ident()))
        return number * number

    results = side_by_side({number: partial(square, number) for number in range(50)}, 3, 5.0)
    assert results == {number: number * number for number in range(50)}
    assert len(seen) <= 3
    assert side_by_side({}, 3, 5.0) == {}


def test_those_that_hang_are_left_out_and_hold_up_no_other() -> None:
    go_on = threading.Event()
    tasks: dict[int, Callable[[], bool]] = {}
    for number in range(5):
        tasks[number] = partial(go_on.wait, 60.0)
    tasks[5] = lambda: True
    began = time.monotonic()
    try:
        results = side_by_side(tasks, 2, 0.3)
    finally:
        go_on.set()
    assert results == {5: True}
    assert time.monotonic() - began < 10


def test_where_no_thread_can_start_tasks_are_done_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert side_by_side({1: lambda: "a", 2: lambda: "b"}, 2, 0.3) == {1: "a", 2: "b"}
