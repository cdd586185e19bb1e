"""The one way fleet decisions compile their inner loops, typed so that checkers see through it.

Compiled code is kept on disk, and made anew when the function changes, or one that it calls, in
whatever file, or a number that ended up in it. (The compiler's own check looks at one file alone.)
Functions are called by their own names: one that is reached through its module is not followed.
"""

import hashlib
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

_P = ParamSpec("_P")
_R = TypeVar("_R")


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile to machine code on first use and keep the result on disk for the next process."""
    return _kept(function, numba.njit(error_model="numpy"))


def counting_nothing(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The same for a function that makes no arrays, nor calls one that returns an array.

    Its code leaves out counting the users of arrays that are only looked at: a small loop over
    arrays in tuples spends most of its time with that. Whoever calls holds the arrays meanwhile.
    """
    make = numba.njit(error_model="numpy", _nrt=False)  # type: ignore[call-overload]
    return _kept(function, make)


def _kept(function: Callable[_P, _R], compiler: Callable[[Any], Any]) -> Callable[_P, _R]:
    made = compiler(function)
    if isinstance(made, Dispatcher):  # else compiling is switched off
        cast(Any, made)._cache = cast(Any, _Kept)(function)
    return cast(Callable[_P, _R], made)


class _Kept(FunctionCache):
    """Machine code on disk, under a digest of all that it was made of."""

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        parts = set(_parts(cast(FunctionType, self._py_func), set()))
        digest = hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()
        return (*cast(Any, super())._index_key(sig, codegen), digest)


def _parts(function: FunctionType, seen: set[FunctionType]) -> Iterator[str]:
    """The code of a function and of all it calls, with every number that they read."""
    if function in seen:
        return
    seen.add(function)
    home = function.__module__
    yield f"{home}.{function.__qualname__} {function.__defaults__}"
    for code in _codes(function.__code__):
        # Code has names by number: `min` in place of `max` changes the names alone.
        constants = [each for each in code.co_consts if not isinstance(each, str | CodeType)]
        names = (code.co_names, code.co_varnames)
        yield f"{home}.{function.__qualname__} {code.co_code.hex()} {constants} {names}"
        for name in code.co_names:
            value = function.__globals__.get(name)
            if isinstance(value, Dispatcher):
                yield from _parts(cast(FunctionType, value.py_func), seen)
            elif isinstance(value, int | float | tuple):
                yield f"{home}.{name} {value!r}"


def _codes(code: CodeType) -> Iterator[CodeType]:
    """That of a function, and of comprehensions within it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


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
