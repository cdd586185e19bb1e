"""Labels are read as people mean them, or refused in a sentence."""

import pytest

from dure.domain.errors import InputError
from dure.domain.units import GIB, NS_PER_S
from dure.node.labels import Labels, parse_labels


def test_no_labels_ask_for_nothing() -> None:
    assert parse_labels((("com.example", "x"), ("duress", "y"))) == Labels()


def test_every_label_is_understood() -> None:
    said = {
        "dure.priority": "HIGH",
        "dure.weight": "2.5",
        "dure.deadline": "2m",
        "dure.max-wait": "30s",
        "dure.memory": "10GiB",
        "dure.exempt": "yes",
        "dure.expect": "1.5s",
    }
    assert parse_labels(tuple(said.items())) == Labels(
        priority=1,
        weight=2.5,
        deadline_ns=120 * NS_PER_S,
        max_wait_ns=30 * NS_PER_S,
        memory_bytes=10 * GIB,
        exempt=True,
        expect_ns=1_500_000_000,
    )


@pytest.mark.parametrize(("text", "number"), [("low", -1), ("normal", 0), ("7", 7), (" -3 ", -3)])
def test_a_class_is_a_word_or_a_number(text: str, number: int) -> None:
    assert parse_labels((("dure.priority", text),)).priority == number


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("dure.priority", "urgent"),
        ("dure.priority", "101"),
        ("dure.weight", "0"),
        ("dure.weight", "nan"),
        ("dure.weight", "heavy"),
        ("dure.deadline", "soon"),
        ("dure.deadline", "-5s"),
        ("dure.max-wait", "30"),
        ("dure.memory", "10"),
        ("dure.exempt", "perhaps"),
        ("dure.expect", ""),
    ],
)
def test_a_malformed_label_is_named(key: str, value: str) -> None:
    with pytest.raises(InputError, match=key):
        parse_labels(((key, value),))
