"""The one way fleet decisions compile their inner loops, typed so that checkers see through it.

Compiled code is kept on disk and remade when its own file changes. Functions that call one another
therefore live in one file: a change in a called function of another file would go unnoticed.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

_P = ParamSpec("_P")
_R = TypeVar("_R")


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile to machine code on first use and keep the result on disk for the next process."""
    return cast(Callable[_P, _R], numba.njit(cache=True, error_model="numpy")(function))
