"""Who gets the next request."""

from collections import Counter

from dure.front.table import Table


def table(**weights: int) -> Table:
    made = Table()
    made.set(weights.items())
    return made


def chosen(of: Table, count: int) -> list[str]:
    return [found.address for _ in range(count) if (found := of.choose(0.0)) is not None]


def test_turns_follow_weights_and_are_spread() -> None:
    of = table(a=3, b=1)
    turns = chosen(of, 40)
    assert Counter(turns) == {"a": 30, "b": 10}
    assert "b" in turns[:4]
    assert max(len(part) for part in "".join(turns).split("b")) <= 4


def test_who_leaves_gets_nothing_while_there_is_another() -> None:
    assert set(chosen(table(old=0, new=1), 10)) == {"new"}
    assert set(chosen(table(old=0), 3)) == {"old"}


def test_who_did_not_answer_comes_after_those_who_do() -> None:
    of = table(a=1, b=1)
    resting = next(each for each in of if each.address == "a")
    resting.failed(now_s=0.0)
    assert set(chosen(of, 5)) == {"b"}
    found = of.choose(0.0, tried={"b"})
    assert found is not None
    assert found.address == "a"
    assert of.choose(0.0, tried={"a", "b"}) is None


def test_who_did_not_answer_is_asked_again_after_a_while_that_grows() -> None:
    of = table(a=1, b=1)
    resting = next(each for each in of if each.address == "a")
    resting.failed(now_s=0.0)
    assert {each.address for _ in range(4) if (each := of.choose(1.0)) is not None} == {"a", "b"}
    resting.failed(now_s=1.0)
    assert {each.address for _ in range(4) if (each := of.choose(1.9)) is not None} == {"b"}
    resting.answered()
    assert {each.address for _ in range(4) if (each := of.choose(1.9)) is not None} == {"a", "b"}


def test_what_is_known_of_an_instance_stays_when_others_come_and_go() -> None:
    of = table(a=1, b=1)
    kept = next(each for each in of if each.address == "a")
    kept.in_flight = 4
    of.set([("a", 0), ("c", 1)])
    assert {each.address: (each.weight, each.in_flight) for each in of} == {
        "a": (0, 4),
        "c": (1, 0),
    }
