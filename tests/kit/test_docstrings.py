from dataclasses import dataclass

from dure.kit.docstrings import attribute_docs


@dataclass
class Documented:
    """A class."""

    plain: int = 1
    told: int = 2
    """Two,
    in two lines."""
    last: int = 3


def test_the_string_under_an_attribute_is_its_description() -> None:
    assert attribute_docs(Documented) == {"told": "Two, in two lines."}


def test_a_class_without_source_has_no_descriptions() -> None:
    assert attribute_docs(type("Made", (), {})) == {}
    assert attribute_docs(int) == {}
