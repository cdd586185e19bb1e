"""How a service passes from one attempt to the next: requests in steps, then a while to finish.

Everything follows from when the new attempt began to run, which is stored: so every server says the
same, and a new leader goes on where the last one was.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dure.domain.fleet.lifecycle import AttemptState
from dure.domain.fleet.protocol.reports import AttemptStatus, InstanceStatus
from dure.domain.units import NS_PER_S
from dure.server.records import REPLACES, YIELDS, status_of
from dure.stores.rows import Attempt

SHARES = (0.1, 0.5, 1.0)
"""Of requests for the new attempt, in steps of equal length; with the last the old one drains."""
WHOLE = 1000
"""Weight of an instance that gets as many requests as any."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast it goes."""

    shift_s: float
    """From the first request at the new place until all of them go there."""
    drain_s: float
    """For what the old place has begun."""

    def share(self, since_ns: int) -> float:
        """Part of requests for an attempt that has run so long."""
        steps = len(SHARES) - 1
        done = steps if self.shift_s <= 0 else steps * since_ns / (self.shift_s * NS_PER_S)
        return SHARES[max(0, min(steps, int(done)))]

    def shifted(self, since_ns: int) -> bool:
        """Whether all requests go to an attempt that has run so long."""
        return since_ns >= self.shift_s * NS_PER_S


def shares(attempts: Iterable[Attempt], now_ns: int, pace: Pace) -> dict[int, float]:
    """What each attempt of a service gets of its requests, in full instances; those that are not
    named get nothing.

    An attempt whose instances are not all there yet gets some only where no other one serves. One
    that takes the place of another gets them in steps, as long as it is able to answer.
    """
    found = {each.attempt: each for each in attempts}
    running = {n: each for n, each in found.items() if each.state is AttemptState.RUNNING}
    if not running:
        begun = (each for each in found.values() if each.state is AttemptState.COMMITTED)
        return {each.attempt: float(len(ready(each))) for each in begun}
    parts = {number: float(len(ready(each))) for number, each in running.items()}
    for number, attempt in running.items():
        old = attempt.spec.get(REPLACES)
        if old not in running:
            continue
        takes = answers(attempt) and not attempt.spec.get(YIELDS)
        part = pace.share(now_ns - (attempt.running_ns or now_ns)) if takes else 0.0
        both = max(parts[number], parts[old])
        parts[number], parts[old] = part * both, (1.0 - part) * both
    return parts


def weighted(
    attempts: Iterable[Attempt], parts: Mapping[int, float]
) -> Iterator[tuple[Attempt, InstanceStatus, int]]:
    """Instances that are ready, each with its part of what its attempt gets, in thousandths of a
    full instance; those that are kept warm, or leave, get nothing."""
    for attempt in attempts:
        leaves = attempt.state is AttemptState.RELEASING
        if attempt.attempt not in parts and not leaves:
            continue
        instances = ready(attempt)
        for each in (*instances, *resting(attempt)):
            part = 0.0 if each.standby else parts.get(attempt.attempt, 0.0) / len(instances)
            yield attempt, each, round(WHOLE * part)


def ready(attempt: Attempt) -> tuple[InstanceStatus, ...]:
    """Instances that requests are sent to."""
    return tuple(each for each in _reachable(attempt) if not each.standby)


def resting(attempt: Attempt) -> tuple[InstanceStatus, ...]:
    """Instances that would answer and are kept warm, or finish what they have."""
    return tuple(each for each in _reachable(attempt) if each.standby)


def _reachable(attempt: Attempt) -> tuple[InstanceStatus, ...]:
    status = status_of(attempt)
    instances = () if status is None else status.instances
    return tuple(each for each in instances if each.ready and each.address)


def answers(attempt: Attempt) -> bool:
    """Whether all instances do that were ordered, or that its load needs where those are fewer."""
    status = status_of(attempt)
    if status is None:
        return False
    ordered = int(attempt.spec.get("instances", 1))
    if status.sizing is None:
        whole = all(each.ready for each in status.instances)
        return whole and len(status.instances) >= ordered
    needed = min(ordered, max(1, status.sizing.serving))
    return sum(each.ready for each in status.instances) >= needed


def reachable(status: AttemptStatus | None) -> bool:
    """Whether there is anything that requests could be sent to."""
    return status is not None and any(each.address for each in status.instances)
