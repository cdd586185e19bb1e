"""The bandit of the library river, as a stand-in for Dure's own: `pip install '.[learn]'`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dure.learners.river import library
from dure.telemetry.ports import Bandit

_DOUBT = 0.1


def river_bandit(arms: int, doubt: float = _DOUBT) -> Bandit:
    """LinUCB with disjoint arms; the library is imported here."""
    return RiverBandit(arms, doubt)


@dataclass(slots=True)
class RiverBandit:
    """Arms by number."""

    arms: int
    doubt: float = _DOUBT
    _model: Any = field(init=False)

    def __post_init__(self) -> None:
        self._model = library("bandit").LinUCBDisjoint(alpha=self.doubt, seed=7)

    def rank(self, context: Sequence[float], count: int) -> tuple[int, ...]:
        """One arm after the other, each the best of those left."""
        left, found = list(range(self.arms)), list[int]()
        named = _named(context)
        while left and len(found) < count:
            arm = int(self._model.pull(left, context=named))
            left.remove(arm)
            found.append(arm)
        return tuple(found)

    def update(self, context: Sequence[float], arm: int, reward: float) -> None:
        """An arm was tried and paid so much."""
        self._model.update(arm, _named(context), reward)


def _named(context: Sequence[float]) -> dict[str, float]:
    return {str(number): float(value) for number, value in enumerate(context)}
