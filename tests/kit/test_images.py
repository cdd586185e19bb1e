"""An image gives back what was put in: values, identity, shared parts; and runs nothing."""

import json
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pytest

from dure.kit.images import ImageError, image_of, value_of

HERE = (__name__,)


class Colour(Enum):
    RED = "red"


class Pair(NamedTuple):
    first: int
    second: str


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    colour: Colour = Colour.RED


@dataclass(slots=True)
class Thing:
    parts: list["Thing"] = field(default_factory=list)
    owner: "Thing | None" = None
    known: dict[Key, Any] = field(default_factory=dict)


class Plain:
    def __init__(self) -> None:
        self.calls = {Key: self.answer}

    def answer(self) -> int:
        return 42


def again(value: Any) -> Any:
    """There and back, through the text of a file."""
    return value_of(json.loads(json.dumps(image_of(value))), HERE)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        2**80,
        0.1 + 0.2,
        float("inf"),
        "ü",
        b"\x00\xff",
        (1, [2, {3}, frozenset({4})]),
        {Key("a"): {"b": deque([1, 2], maxlen=3)}},
        Pair(1, "x"),
        Colour.RED,
        Key,
    ],
)
def test_a_value_comes_back_equal_and_of_its_type(value: Any) -> None:
    made = again(value)
    assert made == value
    assert type(made) is type(value)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.arange(6)[::2],
        np.zeros(0, dtype=bool),
        np.array([(1, 2.5)], dtype=[("a", "<i4"), ("b", "<f8")]),
        np.float64(0.1),
    ],
)
def test_an_array_comes_back_to_the_last_bit_and_can_be_written(array: Any) -> None:
    made = again(array)
    assert made.dtype == array.dtype
    assert made.tobytes() == np.ascontiguousarray(array).tobytes()
    if isinstance(made, np.ndarray):
        made[...] = made


def test_what_was_one_object_is_one_object_again_also_in_a_circle() -> None:
    thing = Thing()
    thing.parts = [Thing(owner=thing), Thing(owner=thing)]
    thing.known[Key("a")] = thing.parts
    made = again(thing)
    assert made.parts[0].owner is made
    assert made.parts[1].owner is made
    assert made.known[Key("a")] is made.parts


def test_a_method_belongs_to_the_object_that_was_made() -> None:
    made = again(Plain())
    assert made.calls[Key]() == 42
    assert made.calls[Key].__self__ is made


def test_code_is_in_no_image() -> None:
    with pytest.raises(ImageError, match="is code"):
        image_of(lambda: 1)


@pytest.mark.parametrize(
    ("image", "story"),
    [
        ([["tuple", [1]], ["object", "os:DirEntry"]], "no package that is allowed"),
        ([["tuple", [1]], ["class", "subprocess:Popen"]], "no package that is allowed"),
        ([["tuple", [1]], ["object", f"{__name__}:Nobody"]], "has no"),
        ([["tuple", [1]], ["object", f"{__name__}:Key", "name", "a"]], "has also 'colour'"),
        ([["tuple", [1]], ["object", f"{__name__}:Key", "size", 1]], "size"),
        ([["tuple", [1]], ["enum", f"{__name__}:Colour", "BLUE"]], "has no 'BLUE'"),
        ([["tuple", [1]], ["tuple", [1]]], "a part of itself"),
        ([["tuple", [7]]], "index"),
        ([["tuple", [1]], ["magic"]], "no kind of node"),
        ({}, "no nodes"),
    ],
)
def test_what_fits_no_code_is_refused_in_words(image: Any, story: str) -> None:
    with pytest.raises(ImageError, match=story):
        value_of(image, HERE)
