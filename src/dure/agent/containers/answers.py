"""What people ask about containers, and tell: names resolved, wishes checked, views made."""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from dure.agent.containers.manager import Manager
from dure.agent.containers.monitor_process import MonitorProcess
from dure.agent.registry import ROOT_UID, ForbiddenError
from dure.agent.wire import Peer
from dure.client.containers import (
    ContainersStatus,
    ContainerStatus,
    ContainerWhy,
    MonitorStatus,
)
from dure.domain.containers import Container, ContainerView, PauseWay, WorkState
from dure.domain.errors import InputError
from dure.domain.node_events import PersonExempted, PersonPaused

_SETTLE_S = 5.0
"""A wish is answered when it is done, but not later than this."""
_LEAST_PREFIX = 1
_NAMED_AT_MOST = 6


class UnknownContainerError(InputError):
    """There is no such container."""


@dataclass(slots=True)
class ContainerDesk:
    """Answers everything under /v1/containers."""

    manager: Manager
    monitor: MonitorProcess
    uid: int
    """The agent's user: he and root may pause containers."""

    def status(self) -> ContainersStatus:
        """Everything `dure node ps` shows."""
        manager = self.manager
        view = manager.view()
        known = manager.call(lambda: dict(manager.containers))
        return ContainersStatus(
            strategy=view.strategy,
            ways=tuple(way.value for way in manager.pausers),
            dry_run=manager.dry_run,
            troubles=manager.call(lambda: tuple(manager.troubles.values())),
            monitor=self._monitor(),
            containers=tuple(status_of(each, view.now_ns) for each in view.containers if each.gpus),
            without_gpu=sum(not container.gpus for container in known.values()),
        )

    def pids(self) -> set[int]:
        """Processes of managed containers."""
        manager = self.manager
        return manager.call(manager.pids)

    def why(self, text: str) -> ContainerWhy:
        """Why a container stands where it does."""
        found = self._find(text)
        return ContainerWhy(id=found.id, name=found.name, sentences=self.manager.why(found.id))

    def pause(self, text: str, peer: Peer) -> ContainerStatus:
        """Keep a container from the GPU until it is resumed."""
        found = self._allowed(text, peer)
        self.manager.person(lambda now_ns: PersonPaused(now_ns, found.id))
        return self._settled(found)

    def resume(self, text: str, peer: Peer) -> ContainerStatus:
        """Let a container go, and leave it alone for a while."""
        found = self._allowed(text, peer)
        self.manager.person_resumes(found.id)
        return self._settled(found)

    def exempt(self, text: str, exempt: bool, peer: Peer) -> ContainerStatus:
        """Never touch a container, or do so again."""
        found = self._allowed(text, peer)
        self.manager.person(lambda now_ns: PersonExempted(now_ns, found.id, exempt))
        return self._settled(found)

    def _allowed(self, text: str, peer: Peer) -> Container:
        """The container meant, where this user may say what it does."""
        if peer.uid not in (ROOT_UID, self.uid):
            raise ForbiddenError(
                "only root and the user of the agent may say what containers do",
                "run the command as one of them",
            )
        found = self._find(text)
        if not found.gpus:
            raise InputError(
                f"container {found.name} has no GPU, so it is never touched",
                "use `docker pause` to freeze it",
            )
        return found

    def _settled(self, found: Container) -> ContainerStatus:
        """What became of a wish."""
        until = time.monotonic() + _SETTLE_S
        while not self.manager.settled(found.id) and time.monotonic() < until:
            time.sleep(0.01)
        return self._status_of(found)

    def _status_of(self, container: Container) -> ContainerStatus:
        view = self.manager.view()
        for each in view.containers:
            if each.id == container.id:
                return status_of(each, view.now_ns)
        raise UnknownContainerError(f"container {container.name} ended", "start it again")

    def _find(self, text: str) -> Container:
        known = self.manager.call(lambda: tuple(self.manager.containers.values()))
        return find_container(text, known)

    def _monitor(self) -> MonitorStatus:
        pulse, process = self.monitor.pulse(), self.monitor.process
        runs = process is not None and process.poll() is None
        return MonitorStatus(
            pid=process.pid if process is not None and runs else None,
            period_ns=self.monitor.period_ns,
            looks=pulse.looks,
            look_ns=pulse.took_ns,
            cpu_ns=pulse.cpu_ns,
            left_out=pulse.left_out,
            deaths=self.monitor.deaths,
        )


def find_container(text: str, known: Iterable[Container]) -> Container:
    """The container of that name or id, or of an id that begins so; raises where there is none,
    or more than one."""
    containers = tuple(known)
    exact = [each for each in containers if text in (each.name, each.id)]
    if exact:
        return exact[0]
    found = [each for each in containers if each.id.startswith(text.lower())]
    if len(text) < _LEAST_PREFIX or not found:
        names = sorted(each.name for each in containers if each.gpus)
        shown = ", ".join(names[:_NAMED_AT_MOST]) or "none with a GPU"
        more = f" and {len(names) - _NAMED_AT_MOST} more" if len(names) > _NAMED_AT_MOST else ""
        raise UnknownContainerError(f"no container '{text}' is running", f"there is {shown}{more}")
    if len(found) > 1:
        names = sorted(f"{each.name} ({each.id[:12]})" for each in found)
        raise InputError(
            f"'{text}' could be {' or '.join(names[:_NAMED_AT_MOST])}",
            "give the name, or more of the id",
        )
    return found[0]


def status_of(view: ContainerView, now_ns: int) -> ContainerStatus:
    """A container as it is sent: moments as lengths of time from now."""
    held = view.way is not None and view.state in (
        WorkState.QUEUED,
        WorkState.ADMISSION,
        WorkState.HELD,
    )
    return ContainerStatus(
        id=view.id,
        name=view.name,
        state=view.state.value,
        reason=view.reason,
        queue_place=view.queue_place,
        waited_ns=view.waited_ns,
        way=view.way.value if isinstance(view.way, PauseWay) else None,
        resume_in_ns=_from(view.resume_by_ns, now_ns) if held else None,
        deadline_in_ns=_from(view.deadline_ns, now_ns),
        sm_share=view.sm_share,
        memory_bytes=view.memory_bytes,
        expected_memory_bytes=view.expected_memory_bytes,
        gpus=view.gpus,
        project=view.project,
        burst_ns=view.burst_ns,
    )


def _from(moment_ns: int | None, now_ns: int) -> int | None:
    return moment_ns - now_ns if moment_ns is not None else None
