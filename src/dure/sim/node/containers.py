"""A simulated container: its processes, who keeps it from the GPU, and what became of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from dure.domain.containers import Container, PauseWay
from dure.domain.ids import ContainerId, GpuUuid
from dure.sim.node.process import Process
from dure.sim.node.steps import Step, serves


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """Somebody asks every so often whether it lives; a frozen container does not answer."""

    interval_ns: int
    retries: int
    restart: bool = False
    """Whether an unhealthy container is restarted."""


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """A container as the scenario has it."""

    name: str
    steps: tuple[Step, ...]
    start_ns: int = 0
    """When it starts, from the start of the run."""
    release_ns: int | None = None
    """When its program may begin, if it waits at a barrier; its times count from there."""
    gpus: tuple[int, ...] = (0,)
    """One process on each; none: it has no GPU at all."""
    image: str = "task"
    labels: tuple[tuple[str, str], ...] = ()
    project: str | None = None
    health: HealthCheck | None = None
    restarts: int = 0
    """How often it is started again after a failure."""
    outside: bool = False
    """A program of the host, in no container: nobody can pause it."""
    max_wait_ns: int | None = None
    """What its labels allow, as far as they are well written."""
    deadline_ns: int | None = None

    @property
    def begin_ns(self) -> int:
        """The moment its times count from."""
        return self.start_ns if self.release_ns is None else max(self.start_ns, self.release_ns)

    @property
    def serves(self) -> bool:
        return serves(self.steps)


class Holder(Enum):
    """Who keeps a container from the GPU."""

    DURE = "Dure"
    ORDER = "Dure, by order of a person"
    """`dure node pause`: nobody ends it but a person."""
    PERSON = "a person"


@dataclass(slots=True)
class Hold:
    """A pause in effect."""

    holder: Holder
    way: PauseWay
    since_ns: int


@dataclass(slots=True)
class History:
    """What became of a container, over all its lives."""

    ended_ns: int | None = None
    failure: str | None = None
    """Why its last life failed; None: it did not."""
    out_of_memory: int = 0
    pauses: int = 0
    paused_ns: int = 0
    longest_wait_ns: int = 0
    """In one uninterrupted pause of Dure's."""
    unhealthy: int = 0
    latencies_ns: list[int] = field(default_factory=list)
    phases_ns: dict[str, int] = field(default_factory=dict)
    """Time in each kind of operation, of its first process."""
    spans: list[tuple[int, int, str]] = field(default_factory=list)
    """Pauses of Dure's, from, to and by which way."""


@dataclass(eq=False, slots=True)
class SimContainer:
    """A container in the world."""

    spec: ContainerSpec
    id: ContainerId
    gpus: tuple[GpuUuid, ...]
    meetings: frozenset[str]
    """Collectives its program takes part in."""
    running: bool = False
    life: int = 0
    """Counts its starts."""
    started_ns: int = 0
    processes: list[Process] = field(default_factory=list)
    hold: Hold | None = None
    locking: bool = False
    """Whether its CUDA calls are held back, also those of processes to come."""
    history: History = field(default_factory=History)

    @property
    def frozen(self) -> bool:
        return self.hold is not None and self.hold.way is PauseWay.DOCKER

    @property
    def held_by_dure(self) -> bool:
        return self.hold is not None and self.hold.holder is Holder.DURE

    def seen(self) -> Container:
        """What its runtime says of it."""
        spec = self.spec
        return Container(
            id=self.id,
            name=spec.name,
            image=spec.image,
            started_ns=self.started_ns,
            gpus=self.gpus,
            labels=spec.labels,
            project=spec.project,
            paused=self.frozen,
            health_checked=spec.health is not None,
        )

    # Keeping it from the GPU

    def adopt(self, now_ns: int, process: Process) -> None:
        """A new process of a container that is held is held, too."""
        if self.locking:
            process.lock(now_ns, _nobody_waits)
        if self.frozen:
            process.freeze(now_ns)

    def begin_lock(self, now_ns: int, done: Callable[[int], None]) -> None:
        """Hold all its CUDA calls back; done when the copies under way are over."""
        self.locking = True
        one_done = self._counted(now_ns, done)
        for process in list(self.processes):
            process.lock(now_ns, one_done)

    def begin_freeze(self, now_ns: int, done: Callable[[int], None]) -> None:
        """Stop the CPU side of all of it; done when the driver has let it."""
        one_done = self._counted(now_ns, done)
        for process in list(self.processes):
            process.freeze(now_ns, one_done)

    def _counted(self, now_ns: int, done: Callable[[int], None]) -> Callable[[int], None]:
        """To be called by each of its processes; the last one's call is passed on."""
        left = len(self.processes)
        if not left:
            done(now_ns)

        def one_done(at_ns: int) -> None:
            nonlocal left
            left -= 1
            if not left:
                done(at_ns)

        return one_done

    def keep(self, now_ns: int, holder: Holder, way: PauseWay) -> None:
        """The pause takes effect; it began with `begin_lock` or `begin_freeze`."""
        self.hold = Hold(holder, way, now_ns)
        if way is PauseWay.DOCKER:
            for process in self.processes:
                process.freeze(now_ns)
        if holder is Holder.DURE:
            self.history.pauses += 1

    def hand_over(self, now_ns: int) -> None:
        """A pause of Dure's becomes one that a person ordered."""
        if self.hold is not None:
            self._account(self.hold, now_ns)
            self.hold = Hold(Holder.ORDER, self.hold.way, now_ns)

    def let_go(self, now_ns: int) -> None:
        """Undo the pause in effect, and a lock that only began."""
        self.forget_hold(now_ns)
        for process in list(self.processes):
            process.thaw(now_ns)
            process.unlock(now_ns)

    def forget_hold(self, now_ns: int) -> None:
        """The container ended while it was held."""
        hold, self.hold = self.hold, None
        self.locking = False
        if hold is not None:
            self._account(hold, now_ns)

    def _account(self, hold: Hold, now_ns: int) -> None:
        if hold.holder is Holder.DURE:
            waited_ns = now_ns - hold.since_ns
            self.history.paused_ns += waited_ns
            self.history.longest_wait_ns = max(self.history.longest_wait_ns, waited_ns)
            self.history.spans.append((hold.since_ns, now_ns, hold.way.value))


def _nobody_waits(_now_ns: int) -> None:
    """The pause has been answered already."""
