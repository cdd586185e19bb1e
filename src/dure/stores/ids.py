"""Ids that sort by the time they were made: ULIDs in lower case, so they are valid in DNS names."""

import secrets
import threading
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32: no i, l, o, u."""
_LENGTH = 26
_RANDOM_BITS = 80
_BITS_PER_CHARACTER = 5


class SortableIds:
    """Makes ids; each sorts after the one before, even if the clock steps back."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def new(self) -> str:
        """The next id."""
        fresh = (time.time_ns() // 1_000_000) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
        with self._lock:
            self._last = max(fresh, self._last + 1)
            return _text(self._last)


def _text(number: int) -> str:
    last = (_LENGTH - 1) * _BITS_PER_CHARACTER
    return "".join(
        _ALPHABET[number >> shift & 31] for shift in range(last, -1, -_BITS_PER_CHARACTER)
    )


_IDS = SortableIds()


def new_id() -> str:
    """An id that is unique everywhere and sorts after those this process made before."""
    return _IDS.new()
