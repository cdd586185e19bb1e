"""The learned tuner: a bandit picks what dry runs try, over policies and their settings.

It explores only there: nothing is ever tried on tenants that has not done better in a dry run
first, and the advisor's hysteresis and rollback hold for it as for the rules.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from dure.domain.adaptation import Choice
from dure.kernel.chooser import CONTEXT_NAMES, Chooser, Context, EveryPolicy
from dure.telemetry.bandit import LinearBandit
from dure.telemetry.ports import Bandit

ARMS = (
    Choice("jct"),
    Choice("jct", (("patience", 2.0),)),
    Choice("jct", (("patience", 8.0),)),
    Choice("slo"),
    Choice("slo", (("patience", 0.4),)),
    Choice("slo", (("patience", 1.0), ("tolerance", 0.15))),
    Choice("hybrid"),
    Choice("hybrid", (("patience", 1.0),)),
    Choice("hybrid", (("patience", 0.5),)),
    Choice("hybrid", (("fairness", 0.4),)),
)
"""Every policy as it is, and beside it where a setting trades its promises for others' progress."""

_TRIED = 2
"""Arms in a dry run beside the one in force: as many in all as the rules try."""


def own_bandit() -> LinearBandit:
    """A bandit that knows nothing yet."""
    return LinearBandit(len(ARMS), len(CONTEXT_NAMES))


@dataclass(slots=True)
class TunedChoices:
    """Has a bandit say what to try, and tells it what that gave."""

    bandit: Bandit = field(default_factory=own_bandit)

    def choices(self, context: Context) -> tuple[Choice, ...]:
        """The arms most worth a dry run now."""
        return tuple(ARMS[arm] for arm in self.bandit.rank(context, _TRIED))

    def learn(self, context: Context, inforce: Choice, scores: Mapping[Choice, float]) -> None:
        """Each arm is paid by what it gave over the mean of those tried with it."""
        mean = sum(scores.values()) / max(len(scores), 1)
        for choice, found in scores.items():
            if choice in ARMS:
                self.bandit.update(context, ARMS.index(choice), found - mean)


def chooser_of(tuner: Literal["rules", "bandit"]) -> Callable[[], Chooser]:
    """What makes the chooser of each GPU."""
    return TunedChoices if tuner == "bandit" else EveryPolicy
