"""A contextual bandit: one linear model of reward for each arm, tried where it may be the best.

Each arm keeps a ridge regression of its rewards on the context (LinUCB with disjoint arms, Li et
al. 2010). An arm is ranked by what it is expected to pay plus how little is known of it there, so
that it explores by itself and stops when there is nothing to find out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

_DOUBT = 0.15
"""Standard deviations of doubt count so much: rewards are differences of some per cent."""
_RIDGE = 1.0


@dataclass(slots=True)
class LinearBandit:
    """Arms by number, contexts of one length."""

    arms: int
    features: int
    doubt: float = _DOUBT
    _inverse: NDArray[np.float64] = field(init=False)
    """[arm, feature, feature]"""
    _sums: NDArray[np.float64] = field(init=False)
    """[arm, feature]"""

    def __post_init__(self) -> None:
        self._inverse = np.repeat(np.eye(self.features)[None] / _RIDGE, self.arms, axis=0)
        self._sums = np.zeros((self.arms, self.features))

    def expected(self, context: Sequence[float]) -> NDArray[np.float64]:
        """[arm]: what each would pay."""
        weights = np.einsum("aij,aj->ai", self._inverse, self._sums)
        return np.asarray(weights @ np.asarray(context))

    def rank(self, context: Sequence[float], count: int) -> tuple[int, ...]:
        """The arms most worth trying, the best first."""
        seen = np.asarray(context, dtype=float)
        spread = np.sqrt(np.einsum("i,aij,j->a", seen, self._inverse, seen))
        order = np.argsort(-(self.expected(context) + self.doubt * spread), kind="stable")
        return tuple(int(arm) for arm in order[:count])

    def update(self, context: Sequence[float], arm: int, reward: float) -> None:
        """An arm was tried and paid so much."""
        seen = np.asarray(context, dtype=float)
        if not np.isfinite(reward) or not np.isfinite(seen).all():
            return
        known = self._inverse[arm] @ seen
        self._inverse[arm] -= np.outer(known, known) / (1.0 + seen @ known)
        self._sums[arm] += reward * seen

    def state(self) -> dict[str, list[object]]:
        """All it learned, as plain data."""
        return {"inverse": self._inverse.tolist(), "sums": self._sums.tolist()}

    def restore(self, state: dict[str, list[object]]) -> bool:
        """Go on from what another learned; False where that is of another shape."""
        inverse, sums = (np.asarray(state.get(part), dtype=float) for part in ("inverse", "sums"))
        if inverse.shape != self._inverse.shape or sums.shape != self._sums.shape:
            return False
        if not (np.isfinite(inverse).all() and np.isfinite(sums).all()):
            return False
        self._inverse, self._sums = inverse, sums
        return True
