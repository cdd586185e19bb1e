"""Which instance gets the next request: by weight, spread evenly; who fails rests for a while."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

_FIRST_REST_S, _LONGEST_REST_S = 0.5, 8.0


@dataclass(slots=True)
class Backend:
    """One instance as the front knows it."""

    address: str
    weight: int
    in_flight: int = 0
    failures: int = 0
    """Since it last answered."""
    rests_until_s: float = 0.0
    credit: int = 0
    """Turns it is owed."""

    def failed(self, now_s: float) -> None:
        """It gave no answer: others come first for a while, longer each time."""
        self.failures += 1
        self.rests_until_s = now_s + min(
            _LONGEST_REST_S, _FIRST_REST_S * 2.0 ** (self.failures - 1)
        )

    def answered(self) -> None:
        """It did."""
        self.failures, self.rests_until_s = 0, 0.0


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

    def choose(self, now_s: float, tried: Collection[str] = ()) -> Backend | None:
        """Who gets a request that the tried ones did not take; None: nobody is left.

        Those that rest come after those that do not, and those that leave come last: a request is
        better served by one of them than by nobody.
        """
        left = [each for each in self._backends.values() if each.address not in tried]
        for group in (
            [each for each in left if each.weight and each.rests_until_s <= now_s],
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
    chosen = max(group, key=lambda each: (each.credit, -each.in_flight))
    chosen.credit -= total
    return chosen
