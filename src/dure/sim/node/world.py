"""The host in virtual time: GPUs, containers that come and go, their processes and peers."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from dure.domain.containers import GpuTask, TaskTable
from dure.domain.ids import ContainerId, GpuUuid
from dure.domain.units import NS_PER_MS
from dure.sim.agenda import Agenda
from dure.sim.node.containers import ContainerSpec, SimContainer
from dure.sim.node.gpu import Gpu
from dure.sim.node.model import GpuModel
from dure.sim.node.process import Ending, Process
from dure.sim.node.steps import meetings, operations

START_NS = 1_000_000_000_000
"""The clock at the start of a run: no clock of a host ever shows 0."""
_FIRST_PID = 1_000
_RESTART_NS = 100 * NS_PER_MS
"""Docker's wait before the first restart of a container that failed; it doubles each time."""


_STOP_NS = 10_000 * NS_PER_MS
"""`docker stop` kills after 10 s unless told otherwise."""
_STOP_LOOK_NS = 10 * NS_PER_MS
STOPPED = "stopped by a person"
KILLED_HELD = "killed while it was held"
"""What is said of a container that ended because somebody asked it to."""


class Watcher(Protocol):
    """Told of what containers do, as a runtime's events tell it."""

    def container_started(self, now_ns: int, container: SimContainer) -> None:
        """It runs."""

    def container_ended(self, now_ns: int, container: SimContainer) -> None:
        """It runs no more."""


Gate = Callable[[SimContainer], bool]
"""Whether a container's program may begin now."""


class World:
    """Everything on the host that is not Dure."""

    def __init__(
        self, specs: Sequence[ContainerSpec], gpus: Sequence[GpuModel], agenda: Agenda
    ) -> None:
        self.agenda = agenda
        self.gpus = [
            Gpu(GpuUuid(f"GPU-{number}"), model, agenda) for number, model in enumerate(gpus)
        ]
        self.containers = [self._made(spec, number) for number, spec in enumerate(specs)]
        self.by_id = {container.id: container for container in self.containers}
        self.watcher: Watcher | None = None
        self.gate: Gate = lambda _: True
        self._pid = _FIRST_PID
        self._owner: dict[int, SimContainer] = {}
        self._waiting: list[SimContainer] = []
        """Due, but kept at the gate."""
        self._meeting: dict[str, list[Process]] = {}
        self._meetings_held: Counter[str] = Counter()

    def start(self) -> None:
        """Note everything that is known to come."""
        for container in self.containers:
            self.agenda.note(START_NS + container.spec.start_ns, self._start, container)

    @property
    def unfinished(self) -> list[SimContainer]:
        return [each for each in self.containers if each.history.ended_ns is None]

    def table(self, now_ns: int) -> TaskTable:
        """What a monitor sees now."""
        loads = tuple(gpu.load(now_ns) for gpu in self.gpus)
        tasks = []
        for gpu in self.gpus:
            for pid, memory_bytes in gpu.memory.items():
                container = self._owner[pid]
                tasks.append(
                    GpuTask(
                        gpu.uuid,
                        pid,
                        container.started_ns // (10 * NS_PER_MS),
                        None if container.spec.outside else container.id,
                        memory_bytes,
                        gpu.share(pid),
                    )
                )
        return TaskTable(now_ns, loads, tuple(tasks))

    def retry_gate(self, now_ns: int) -> None:
        """Let those begin whom the gate lets through by now."""
        for container in list(self._waiting):
            if container in self._waiting and self.gate(container):
                self._waiting.remove(container)
                self._begin(now_ns, container)

    def restart(self, now_ns: int, container: SimContainer) -> None:
        """Kill a container and start it again, as a healer does."""
        self._stop(now_ns, container)
        self.agenda.note(now_ns + _RESTART_NS, self._start, container)

    def stop(self, now_ns: int, container: SimContainer) -> None:
        """Ask a container to end, as `docker stop` does; after a while it is killed."""
        when = (container, container.life, now_ns + _STOP_NS)
        self.agenda.note(now_ns, self._try_stop, when)

    # A process's surroundings

    def process_ended(self, now_ns: int, process: Process, ending: Ending) -> None:
        container = self._owner.pop(process.pid)
        history = container.history
        if container.processes and container.processes[0] is process:
            history.phases_ns = dict(process.phases_ns)
        container.processes.remove(process)
        if ending is Ending.OUT_OF_MEMORY:
            history.out_of_memory += 1
        if ending is Ending.DONE and not container.processes:
            history.ended_ns, history.failure = now_ns, None
        self._leave_meetings(now_ns, process, ending)
        if ending in (Ending.OUT_OF_MEMORY, Ending.PEER_LOST):
            self._failed(now_ns, container, ending)
        elif ending is Ending.DONE and not container.processes:
            self._gone(now_ns, container)

    def answered(self, process: Process, latency_ns: int) -> None:
        self._owner[process.pid].history.latencies_ns.append(latency_ns)

    def meet(self, now_ns: int, process: Process, name: str) -> None:
        waiting = self._meeting.setdefault(name, [])
        waiting.append(process)
        patience_ns = process.gpu.model.peer_patience_ns
        meeting = (name, process, self._meetings_held[name])
        self.agenda.note(now_ns + patience_ns, self._give_up, meeting)
        self._end_meeting(now_ns, name)

    # Life of a container

    def _made(self, spec: ContainerSpec, number: int) -> SimContainer:
        uuids = tuple(self.gpus[index].uuid for index in spec.gpus)
        name = ContainerId(f"{number:04x}-{spec.name}")
        return SimContainer(spec, name, uuids, meetings(spec.steps))

    def _start(self, now_ns: int, container: SimContainer) -> None:
        container.running = True
        container.life += 1
        container.started_ns = now_ns
        if self.watcher is not None and not container.spec.outside:
            self.watcher.container_started(now_ns, container)
        release_ns = START_NS + container.spec.begin_ns
        self.agenda.note(max(now_ns, release_ns), self._release, (container, container.life))
        health = container.spec.health
        if health is not None:
            checked = (container, container.life, 0)
            self.agenda.note(now_ns + health.interval_ns, self._check_health, checked)

    def _release(self, now_ns: int, what: tuple[SimContainer, int]) -> None:
        container, life = what
        if not container.running or container.life != life:
            return
        if self.gate(container):
            self._begin(now_ns, container)
        else:
            self._waiting.append(container)

    def _begin(self, now_ns: int, container: SimContainer) -> None:
        spec = container.spec
        for index in spec.gpus or (0,):
            self._pid += 1
            gpu, program = self.gpus[index], operations(spec.steps)
            process = Process(self._pid, gpu, program, self.agenda, self)
            self._owner[self._pid] = container
            container.processes.append(process)
            container.adopt(now_ns, process)
        for process in list(container.processes):
            process.start(now_ns)

    def _failed(self, now_ns: int, container: SimContainer, ending: Ending) -> None:
        container.history.failure = ending.value
        self._stop(now_ns, container)
        if container.life <= container.spec.restarts:
            wait_ns = _RESTART_NS << (container.life - 1)
            self.agenda.note(now_ns + wait_ns, self._start, container)
        else:
            container.history.ended_ns = now_ns
            self.retry_gate(now_ns)

    def _stop(self, now_ns: int, container: SimContainer) -> None:
        for process in list(container.processes):
            process.kill(now_ns)
        self._gone(now_ns, container)

    def _gone(self, now_ns: int, container: SimContainer) -> None:
        if not container.running:
            return
        container.running = False
        container.forget_hold(now_ns)
        if self.watcher is not None and not container.spec.outside:
            self.watcher.container_ended(now_ns, container)
        self.retry_gate(now_ns)

    def _check_health(self, now_ns: int, what: tuple[SimContainer, int, int]) -> None:
        container, life, failures = what
        health = container.spec.health
        if health is None or not container.running or container.life != life:
            return
        failures = failures + 1 if container.frozen else 0
        if failures == health.retries:
            container.history.unhealthy += 1
            if health.restart:
                self.restart(now_ns, container)
                return
        checked = (container, life, failures)
        self.agenda.note(now_ns + health.interval_ns, self._check_health, checked)

    def _try_stop(self, now_ns: int, what: tuple[SimContainer, int, int]) -> None:
        """It ends by itself unless it is frozen, or locked with a context to give up."""
        container, life, kill_ns = what
        if not container.running or container.life != life:
            return
        on_gpu = any(process.on_gpu for process in container.processes)
        if now_ns < kill_ns and (container.frozen or (container.locking and on_gpu)):
            self.agenda.note(now_ns + _STOP_LOOK_NS, self._try_stop, what)
            return
        killed = now_ns >= kill_ns
        container.history.failure = KILLED_HELD if killed else STOPPED
        container.history.ended_ns = now_ns
        self._stop(now_ns, container)

    # Collectives

    def _end_meeting(self, now_ns: int, name: str) -> None:
        """Let all go on if all have come."""
        waiting = self._meeting.get(name, [])
        peers = sum(
            len(container.processes or container.spec.gpus)
            for container in self.containers
            if name in container.meetings and container.history.ended_ns is None
        )
        if waiting and len(waiting) >= peers:
            self._meeting[name] = []
            self._meetings_held[name] += 1
            for process in waiting:
                process.met(now_ns)

    def _leave_meetings(self, now_ns: int, process: Process, ending: Ending) -> None:
        for name, waiting in list(self._meeting.items()):
            if process in waiting:
                waiting.remove(process)
            if ending is Ending.DONE:
                self._end_meeting(now_ns, name)

    def _give_up(self, now_ns: int, what: tuple[str, Process, int]) -> None:
        """A peer did not come: the collective library ends the program."""
        name, process, number = what
        if number == self._meetings_held[name] and process in self._meeting.get(name, ()):
            process.fail(now_ns, Ending.PEER_LOST)
