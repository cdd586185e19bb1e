"""The one way the simulator compiles its inner loop, typed so that checkers see through it.

Compiled code is kept on disk under a digest of all sources it comes from. (The compiler's own
check looks at one file at a time and would miss a change in a function called from another.)
"""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba

_SOURCES = (
    "compiled.py",
    "state.py",
    "silicon.py",
    "gate.py",
    "engine.py",
    "../../domain/latency.py",
    "../../domain/plan.py",
)
"""Modules whose functions or constants end up in compiled code; a test keeps this complete."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _cache_folder() -> Path:
    """Where compiled code of exactly these sources is kept."""
    digest = hashlib.sha256(numba.__version__.encode())
    for name in _SOURCES:
        digest.update((Path(__file__).parent / name).read_bytes())
    name = f"simulator-{digest.hexdigest()[:16]}"
    wanted = Path(os.environ.get("NUMBA_CACHE_DIR") or _user_cache() / "dure") / name
    return (
        wanted if _can_write(wanted) else Path(tempfile.gettempdir()) / f"dure-{os.getuid()}" / name
    )


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~").expanduser() / ".cache")


def _can_write(folder: Path) -> bool:
    """Whether files can be made in a folder, or in the first parent of it that exists."""
    while not folder.exists() and folder.parent != folder:
        folder = folder.parent
    return os.access(folder, os.W_OK | os.X_OK)


CACHE_FOLDER = _cache_folder()


@contextmanager
def _kept_in(folder: Path) -> Iterator[None]:
    """What is compiled meanwhile is kept there; what others compile stays where it was."""
    settings = cast(Any, numba.config)
    before = settings.CACHE_DIR
    settings.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        settings.CACHE_DIR = before


def is_compiled() -> bool:
    """Whether an earlier process left the compiled simulator on disk."""
    return CACHE_FOLDER.is_dir()


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile to machine code on first use and keep the result on disk for the next process."""
    with _kept_in(CACHE_FOLDER):
        return cast(Callable[_P, _R], numba.njit(cache=True, error_model="numpy")(function))
