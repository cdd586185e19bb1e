"""A tap never holds up who fills it, and ends within its bounds."""

import asyncio

from dure.kit.taps import FULL, IN_TIME, Bounds, Tap, poured

LONG = 60.0


def _line(number: int) -> bytes:
    return b"%d\n" % number


async def _all(tap: Tap[int], bounds: Bounds) -> list[bytes]:
    return [data async for data in poured(tap, _line, bounds, b"head\n")]


def test_a_tap_that_nobody_empties_ends_by_itself() -> None:
    tap: Tap[int] = Tap(most=2)
    assert [tap.add(number) for number in range(4)] == [True, True, False, False]
    assert tap.why_over == "it was read too slowly"
    assert tap.take() == [0, 1]


def test_what_came_before_the_end_is_poured() -> None:
    tap: Tap[int] = Tap()
    tap.add(1)
    tap.end("enough")
    assert asyncio.run(_all(tap, Bounds(LONG, 100))) == [b"head\n", b"1\n"]


def test_no_line_is_cut_where_it_has_grown_as_large_as_it_may() -> None:
    tap: Tap[int] = Tap()
    for number in range(100):
        tap.add(number)
    poured_ = asyncio.run(_all(tap, Bounds(LONG, len(b"head\n") + 5)))
    assert poured_ == [b"head\n", b"0\n", b"1\n"]
    assert tap.why_over == FULL


def test_it_ends_in_time_and_wants_no_more() -> None:
    tap: Tap[int] = Tap()
    assert asyncio.run(_all(tap, Bounds(0.01, 100))) == [b"head\n"]
    assert tap.why_over == IN_TIME
    assert not tap.add(1)


def test_a_listener_who_leaves_closes_the_tap() -> None:
    async def leave() -> str:
        tap: Tap[int] = Tap()
        source = poured(tap, _line, Bounds(LONG, 100), b"head\n")
        await anext(source)
        await source.aclose()  # type: ignore[attr-defined]
        return tap.why_over

    assert asyncio.run(leave()) == "nobody listens any more"
