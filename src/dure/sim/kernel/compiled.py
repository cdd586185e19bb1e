"""The one way the simulator compiles its inner loop, typed so that checkers see through it."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

_P = ParamSpec("_P")
_R = TypeVar("_R")


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile to machine code on first use and keep the result on disk for the next process."""
    return cast(Callable[_P, _R], numba.njit(cache=True, error_model="numpy")(function))
