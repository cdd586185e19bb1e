"""The one way fleet decisions compile their inner loops, typed so that checkers see through it.

Compiled code is kept on disk and remade when its own file changes. Functions that call one another
therefore live in one file: a change in a called function of another file would go unnoticed.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba
from numba.core.dispatcher import Dispatcher

_P = ParamSpec("_P")
_R = TypeVar("_R")


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile to machine code on first use and keep the result on disk for the next process."""
    return cast(Callable[_P, _R], numba.njit(cache=True, error_model="numpy")(function))


def counting_nothing(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The same for a function that makes no arrays, nor calls one that returns an array.

    Its code leaves out counting the users of arrays that are only looked at: a small loop over
    arrays in tuples spends most of its time with that. Whoever calls holds the arrays meanwhile.
    """
    make = numba.njit(cache=True, error_model="numpy", _nrt=False)  # type: ignore[call-overload]
    return cast(Callable[_P, _R], make(function))


def straight(function: Callable[_P, _R], *example: _P.args, **_: _P.kwargs) -> Callable[_P, _R]:
    """The machine code for arguments of the types of these, called without a look at their types.

    That look costs some microseconds where an argument is a tuple of many arrays: more than small
    loops themselves. Whoever calls answers for the types, also for arrays being contiguous.
    """
    if not isinstance(function, Dispatcher):
        return function  # compiling is switched off
    types = tuple(numba.typeof(each) for each in example)  # type: ignore[no-untyped-call]
    function.compile(types)
    return cast(Callable[_P, _R], function.get_overload(types))
