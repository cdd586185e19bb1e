"""The host's ways to pause in virtual time: how long they take, how they fail, and the watchdog."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from dure.domain.containers import PauseWay
from dure.domain.node_instructions import NEVER_NS, Pause
from dure.sim.agenda import Agenda
from dure.sim.node.containers import Holder, SimContainer
from dure.sim.node.model import HostModel

Answer = Callable[[int, PauseWay, str | None], None]
"""Told the moment, the way that was used, and what went wrong, if anything."""

DOCKER_AWAY = "the Docker daemon does not answer"
GONE = "there is no such container"


@dataclass(frozen=True, slots=True)
class _Job:
    """One thing to do to a container."""

    pause: bool
    way: PauseWay
    resume_by_ns: int
    answer: Answer
    holder: Holder = Holder.DURE


class SimRuntime:
    """Pauses and lets go, one thing after another for each container."""

    def __init__(self, agenda: Agenda, host: HostModel) -> None:
        self._agenda = agenda
        self._host = host
        self.docker_away = False
        self.failures = 0
        """Things that could not be done."""
        self.overdue = 0
        """Pauses that the watchdog ended because their deadline had passed."""
        self.when_overdue: Callable[[int, SimContainer], None] = lambda *_: None
        self._jobs: dict[SimContainer, deque[_Job]] = {}
        self._generation = 0
        """Raised when the agent dies: nobody waits for the answers of an older one."""

    def pause(self, now_ns: int, container: SimContainer, wish: Pause, answer: Answer) -> None:
        """Keep a container from the GPU, by another way where this one does not work."""
        way = wish.way
        if way is PauseWay.CUDA_LOCK and not self._host.lockable:
            way = PauseWay.DOCKER
        holder = Holder.ORDER if wish.by_person else Holder.DURE
        self._add(now_ns, container, _Job(True, way, wish.resume_by_ns, answer, holder))

    def resume(self, now_ns: int, container: SimContainer, answer: Answer) -> None:
        """Let a container go."""
        self._add(now_ns, container, _Job(False, PauseWay.DOCKER, 0, answer))

    def agent_died(self) -> None:
        """What was asked for and not begun is forgotten, and nobody is told of the rest."""
        self._generation += 1
        self._jobs.clear()

    def thaw_all(self, now_ns: int, containers: list[SimContainer]) -> None:
        """The watchdog lets go of everything Dure keeps, whatever Docker says."""
        for container in containers:
            if container.held_by_dure or (container.locking and container.hold is None):
                container.let_go(now_ns)

    # One job after another

    def _add(self, now_ns: int, container: SimContainer, job: _Job) -> None:
        queue = self._jobs.setdefault(container, deque())
        queue.append(job)
        if len(queue) == 1:
            self._begin(now_ns, container)

    def _begin(self, now_ns: int, container: SimContainer) -> None:
        queue = self._jobs[container]
        job = queue[0]
        if not job.pause and container.locking:
            job = queue[0] = replace(job, way=PauseWay.CUDA_LOCK)
        by_lock = job.way is PauseWay.CUDA_LOCK
        host = self._host
        if job.pause:
            takes_ns = host.lock_ns if by_lock else host.docker_pause_ns
        else:
            takes_ns = host.unlock_ns if by_lock else host.docker_resume_ns
        self._agenda.note(now_ns + takes_ns, self._carry_out, (container, job, self._generation))

    def _carry_out(self, now_ns: int, what: tuple[SimContainer, _Job, int]) -> None:
        container, job, generation = what
        if generation != self._generation:
            return
        if not container.running:
            self._ended(now_ns, container, job, GONE if job.pause else None)
        elif job.way is PauseWay.DOCKER and self.docker_away:
            self.failures += 1
            self._ended(now_ns, container, job, DOCKER_AWAY)
        elif job.pause:
            self._pause(now_ns, container, job)
        else:
            if container.hold is None or container.hold.holder is not Holder.PERSON:
                container.let_go(now_ns)
            self._ended(now_ns, container, job, None)

    def _pause(self, now_ns: int, container: SimContainer, job: _Job) -> None:
        generation, life = self._generation, container.life
        if container.hold is not None:
            if container.hold.holder is Holder.PERSON:
                self._ended(now_ns, container, job, "a person paused it")
            else:
                if job.holder is Holder.ORDER:
                    container.hand_over(now_ns)
                self._ended(now_ns, container, replace(job, way=container.hold.way), None)
            return

        def in_effect(at_ns: int) -> None:
            if generation != self._generation:
                return
            if not container.running or container.life != life:
                self._ended(at_ns, container, job, GONE)
                return
            container.keep(at_ns, job.holder, job.way)
            if job.resume_by_ns < NEVER_NS:
                due_ns = max(at_ns, job.resume_by_ns + self._host.overdue_ns)
                self._agenda.note(due_ns, self._check_overdue, (container, container.hold))
            self._ended(at_ns, container, job, None)

        begin = container.begin_lock if job.way is PauseWay.CUDA_LOCK else container.begin_freeze
        begin(now_ns, in_effect)

    def _ended(self, now_ns: int, container: SimContainer, job: _Job, error: str | None) -> None:
        queue = self._jobs[container]
        queue.popleft()
        if queue:
            self._begin(now_ns, container)
        job.answer(now_ns, job.way, error)

    def _check_overdue(self, now_ns: int, what: tuple[SimContainer, object]) -> None:
        container, hold = what
        if container.hold is hold and container.running:
            self.overdue += 1
            container.let_go(now_ns)
            self.when_overdue(now_ns, container)
