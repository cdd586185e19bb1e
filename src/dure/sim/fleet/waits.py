"""What workloads without a place wait for, as the centre says; only of centres that say it."""

import re
from typing import Protocol, runtime_checkable

from dure.domain.fleet.workloads import Workload
from dure.domain.ids import WorkloadId
from dure.sim.fleet.results import WaitSample
from dure.sim.fleet.setting import Setting

_MOST_AT_END = 20
"""Workloads nobody asked for that are listed when they wait at the end."""


@runtime_checkable
class SaysWhy(Protocol):
    """A centre that can be asked."""

    def why_waiting(self, workload: WorkloadId) -> str:
        """What a workload without a place waits for; empty: it has one, or is not known."""


class Waits:
    """Follows the workloads that were asked for, round by round, and looks at all at the end."""

    def __init__(self, setting: Setting, centre: object) -> None:
        self._setting = setting
        self._centre = centre if isinstance(centre, SaysWhy) else None
        self._wanted = [each for each in setting.workloads if each.id in setting.explain]
        self._since: dict[WorkloadId, tuple[int, str]] = {}
        """Of those that wait: since when, and for what."""
        self._found: list[WaitSample] = []

    @property
    def samples(self) -> tuple[WaitSample, ...]:
        """All that were kept."""
        return tuple(self._found)

    def look(self, now_ns: int) -> None:
        """A round is over: who of those asked for waits now, and for what?"""
        if self._centre is None:
            return
        for workload in self._wanted:
            why = self._centre.why_waiting(workload.id)
            before = self._since.get(workload.id)
            if before is not None and _same(before[1], why):
                self._since[workload.id] = (before[0], why)
                continue
            if before is not None:
                self._keep(workload, before, now_ns)
                del self._since[workload.id]
            if why:
                first = before is None and not self._known(workload)
                start_ns = max(workload.submitted_ns, self._setting.start_ns)
                self._since[workload.id] = (start_ns if first else now_ns, why)

    def refused(self, workload: WorkloadId, why: str, now_ns: int) -> None:
        """A workload was turned away for good."""
        for each in self._wanted:
            if each.id == workload and self._centre is not None:
                self._found.append(_sample(each, (now_ns, why), now_ns, refused=True))

    def finish(self, now_ns: int) -> None:
        """The run ends: those who still wait, asked for or not."""
        if self._centre is None:
            return
        for workload in self._wanted:
            before = self._since.get(workload.id)
            if before is not None:
                self._found.append(_sample(workload, before, now_ns, at_end=True))
        left = _MOST_AT_END
        for workload in self._setting.workloads:
            if not left:
                return
            if workload.id in self._setting.explain or workload.submitted_ns >= now_ns:
                continue
            why = self._centre.why_waiting(workload.id)
            if why:
                left -= 1
                since = (workload.submitted_ns, why)
                self._found.append(_sample(workload, since, now_ns, at_end=True))

    def _known(self, workload: Workload) -> bool:
        """Whether it has waited before."""
        return any(each.workload == workload.id for each in self._found)

    def _keep(self, workload: Workload, before: tuple[int, str], now_ns: int) -> None:
        if now_ns > before[0]:
            self._found.append(_sample(workload, before, now_ns))


def _same(one: str, other: str) -> bool:
    """Whether two reasons differ in nothing but their figures."""
    return bool(other) and _FIGURES.sub("", one) == _FIGURES.sub("", other)


_FIGURES = re.compile(r"[0-9][0-9.,]*(?:e[+-]?[0-9]+)?")


def _sample(
    workload: Workload,
    since: tuple[int, str],
    until_ns: int,
    *,
    at_end: bool = False,
    refused: bool = False,
) -> WaitSample:
    return WaitSample(
        workload=workload.id,
        kind=workload.kind.value,
        tenant=workload.tenant,
        from_ns=since[0],
        until_ns=until_ns,
        why=since[1],
        at_end=at_end,
        refused=refused,
    )
