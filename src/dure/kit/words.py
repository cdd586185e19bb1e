"""Words for what is wrong with a value, shared by all who read what people write."""

import difflib
from collections.abc import Iterable

KINDS = {
    "string_type": ("text", "put it in quotes"),
    "int_type": ("a whole number", "write it without quotes or fraction"),
    "int_from_float": ("a whole number", "write it without a fraction"),
    "float_type": ("a number", "write a plain number"),
    "bool_type": ("true or false", "write true or false"),
    "finite_number": ("a finite number", "write an ordinary number"),
}
"""By pydantic's name of an error: what was wanted, and the remedy."""
BOUNDS = {
    "greater_than": ("gt", "above"),
    "greater_than_equal": ("ge", "of at least"),
    "less_than": ("lt", "below"),
    "less_than_equal": ("le", "of at most"),
}
"""By pydantic's name of an error: where it tells the bound, and how that is said."""


_MOST_COMPARED = 100
"""Characters of a word that are compared; no name is longer, and comparing takes its time."""


def nearest(word: str, known: Iterable[str], kind: str = "one of") -> str:
    """The remedy for a word nobody knows: the one that was probably meant, else all there are."""
    words = list(known)
    if not words:
        return "leave it out"
    by_lower = {each.lower(): each for each in words}
    meant = word[:_MOST_COMPARED].lower()
    close = difflib.get_close_matches(meant, by_lower, n=1, cutoff=0.6)
    return f"did you mean '{by_lower[close[0]]}'?" if close else f"use {kind} {', '.join(words)}"


def printable(text: str) -> str:
    """The same text with a question mark for each character that could steer a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
