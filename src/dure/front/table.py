"""Which instance gets the next request: by weight, spread evenly, with those in flight counted."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass


@dataclass(slots=True)
class Backend:
    """One instance as the front knows it."""

    address: str
    weight: int
    in_flight: int = 0
    failures: int = 0
    """Since it last answered."""
    credit: int = 0
    """Turns it is owed."""


class Table:
    """The instances of one service."""

    def __init__(self) -> None:
        self._backends: dict[str, Backend] = {}

    def __iter__(self) -> Iterator[Backend]:
        return iter(self._backends.values())

    def __len__(self) -> int:
        return len(self._backends)

    def set(self, weights: Iterable[tuple[str, int]]) -> None:
        """These are the instances now; of those that stay, what is known stays."""
        known = self._backends
        self._backends = {}
        for address, weight in weights:
            backend = known.get(address) or Backend(address, weight)
            backend.weight = weight
            self._backends[address] = backend

    def choose(self, tried: Collection[str] = ()) -> Backend | None:
        """Who gets a request that the tried ones did not take; None: nobody is left.

        Those that answer come before those that last did not, and those that leave come last: a
        request is better served by one of them than by nobody.
        """
        left = [each for each in self._backends.values() if each.address not in tried]
        for group in (
            [each for each in left if each.weight and not each.failures],
            [each for each in left if each.weight],
            left,
        ):
            if group:
                return _next_of(group)
        return None


def _next_of(group: list[Backend]) -> Backend:
    """Turns in proportion to weights, as far apart as they can be."""
    total = 0
    for each in group:
        share = max(1, each.weight)
        each.credit += share
        total += share
    chosen = max(group, key=lambda each: each.credit)
    chosen.credit -= total
    return chosen
