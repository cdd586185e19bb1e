"""Strategies by name."""

from collections.abc import Callable

from dure.domain.errors import InputError
from dure.node.strategies.base import Strategy
from dure.node.strategies.dure import DureStrategy
from dure.node.strategies.none import NoStrategy
from dure.node.strategies.paper import PaperStrategy

STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "dure": DureStrategy,
    "none": NoStrategy,
    "paper": PaperStrategy,
    "paper-window": lambda: PaperStrategy("paper-window", whole_window=True),
}


def make_strategy(name: str) -> Strategy:
    """A strategy by name; raises `InputError` for an unknown one."""
    make = STRATEGIES.get(name)
    if make is None:
        raise InputError(f"'{name}' is not a strategy", f"use one of {', '.join(STRATEGIES)}")
    return make()
