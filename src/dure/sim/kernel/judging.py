"""Judges a run by the declared objective, from what really happened and not from counters."""

import numpy as np

from dure.kernel.objective import WINDOW_NS, Deeds, score
from dure.sim.kernel.availability import WINDOW_NS as LOOK_NS
from dure.sim.kernel.availability import windows_kept
from dure.sim.kernel.run import Outcome


def scores(outcome: Outcome) -> tuple[float, ...]:
    """The objective in each window of a run in which somebody wanted something.

    A request counts in the window in which it was answered; one that nobody has answered at the
    end, in the last, once it is late.
    """
    last = max(1, -(-outcome.end_ns // WINDOW_NS))
    found = (score(_deeds(outcome, number, number == last - 1)) for number in range(last))
    return tuple(each for each in found if each is not None)


def overall(outcome: Outcome) -> float:
    """The mean over those windows; 0 where nobody wanted anything."""
    found = scores(outcome)
    return float(np.mean(found)) if found else 0.0


def _deeds(outcome: Outcome, number: int, last: bool) -> list[Deeds]:
    start_ns, end_ns = number * WINDOW_NS, min((number + 1) * WINDOW_NS, outcome.end_ns)
    found = []
    for index, load in enumerate(outcome.setting.loads):
        # Who left in the middle of its work would count as waiting for ever.
        there_ns = outcome.end_ns if load.leaves_ns is None else load.leaves_ns
        looks = min(len(outcome.windows) - 1, there_ns // LOOK_NS)
        first_look, last_look = (min(at // LOOK_NS, looks) for at in (start_ns, end_ns))
        done = outcome.finished[outcome.finished["tenant"] == index]
        inside = done[(done["finish"] >= start_ns) & (done["finish"] < end_ns)]
        requests, late = len(inside), 0
        promise = load.tenant.slo.latency
        if promise is not None:
            late = int((inside["finish"] - inside["arrival"] > promise.target_ns).sum())
            if last:
                waiting = _waiting_late(outcome, index, len(done), promise.target_ns)
                requests, late = requests + waiting, late + waiting
        work_ns, busy_ns = (
            outcome.windows[last_look, index, :2] - outcome.windows[first_look, index, :2]
        )
        seen = outcome.windows[first_look : last_look + 1, index]
        windows, available = windows_kept(load.tenant, seen, LOOK_NS)
        found.append(
            Deeds(
                load.tenant,
                float(end_ns - start_ns),
                requests=requests,
                late=late,
                bursts=requests,
                work_ns=float(work_ns),
                busy_ns=float(busy_ns),
                windows=windows,
                available=available,
            )
        )
    return found


def _waiting_late(outcome: Outcome, index: int, done: int, target_ns: int) -> int:
    """Requests that came and were not answered, and have waited longer than they may."""
    arrivals = getattr(outcome.setting.loads[index].work, "at_ns", np.zeros(0, np.int64))
    return int((outcome.end_ns - arrivals[done:] > target_ns).sum())
