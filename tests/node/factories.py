"""A host made of plain values: drives a node machine, answers its pauses, keeps its own books."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from dure.domain.containers import Container, GpuLoad, GpuTask, PauseWay, TaskTable
from dure.domain.ids import ContainerId, GpuUuid
from dure.domain.node_events import (
    ContainerEnded,
    ContainerStarted,
    GuardChanged,
    NodeEvent,
    PauseEnded,
    ResumedByOthers,
    ResumeEnded,
    TableTaken,
    TimePassed,
)
from dure.domain.node_instructions import NodeInstruction, Pause, Resume, Tell, WakeAt
from dure.domain.units import GIB, NS_PER_MS
from dure.node.machine import NodeMachine
from dure.node.settings import NodeSettings

GPU = GpuUuid("GPU-0")
OTHER_GPU = GpuUuid("GPU-1")
BOTH = (PauseWay.CUDA_LOCK, PauseWay.DOCKER)
MS = NS_PER_MS
TOTAL = 80 * GIB
SAMPLES_LAG_NS = 1100 * MS


def container(
    name: str,
    *,
    gpus: tuple[GpuUuid, ...] = (GPU,),
    started_ns: int = 0,
    image: str = "",
    **labels: str,
) -> Container:
    """A container; labels as `priority="high"`, `max_wait="1s"`."""
    said = tuple((f"dure.{key.replace('_', '-')}", value) for key, value in labels.items())
    return Container(ContainerId(name), name, image or f"image-{name}", started_ns, gpus, said)


@dataclass
class Task:
    """What a container has on each of its GPUs."""

    memory_bytes: int = 0
    share: float = 0.0
    tenant: str | None = None
    program: int = 0
    """Counts the programs it has run one after another; each is a process of its own."""


@dataclass
class Host:
    """One machine and its surroundings."""

    settings: NodeSettings = field(default_factory=NodeSettings)
    prompt: bool = True
    """Answers come at once; else when `answer` is called."""
    guard: bool = True
    now_ns: int = 1_000_000_000
    machine: NodeMachine = field(init=False)
    running: dict[str, Container] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    paused: dict[str, Pause] = field(default_factory=dict)
    """Pauses asked for, and not yet taken back."""
    said: list[NodeInstruction] = field(default_factory=list)
    story: list[tuple[int, str, str]] = field(default_factory=list)
    """Every pause and resume: when, which, whom."""
    wake_ns: int | None = None
    due: list[Pause | Resume] = field(default_factory=list)
    utilization: float | None = None
    """Instead of the sum of the tasks' shares."""
    power_w: float | None = None
    outside: tuple[GpuTask, ...] = ()
    used_bytes: int | None = None
    gpus: tuple[GpuUuid, ...] = (GPU, OTHER_GPU)
    launched: set[str] = field(default_factory=set)
    """Those whose kernel runs on though they are held."""
    _held_ns: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.machine = NodeMachine(self.settings)
        if self.guard:
            self.send(GuardChanged(self.now_ns, None))

    def send(self, event: NodeEvent) -> tuple[NodeInstruction, ...]:
        """Feed one event and do what is asked."""
        if isinstance(event, ResumedByOthers):
            self.paused.pop(event.container, None)
        asked = self.machine.handle(event)
        self.said += asked
        for each in asked:
            match each:
                case Pause(container=name):
                    self.paused[name] = each
                    self._held_ns[name] = self.now_ns
                    self.due.append(each)
                    self.story.append((self.now_ns, "pause", name))
                case Resume(container=name):
                    self.paused.pop(name, None)
                    self.due.append(each)
                    self.story.append((self.now_ns, "resume", name))
                case WakeAt(at_ns=at_ns):
                    self.wake_ns = at_ns
        if self.prompt:
            self.answer()
        return asked

    def answer(self, error: str | None = None, *, restless: bool = False) -> None:
        """Answer everything that was asked for."""
        while self.due:
            asked = self.due.pop(0)
            if isinstance(asked, Pause):
                way = asked.way
                ended = PauseEnded(self.now_ns, asked.container, way, error, restless=restless)
                self.send(ended)
            else:
                self.send(ResumeEnded(self.now_ns, asked.container, error))

    def start(self, what: Container | str, *, found: bool = False) -> str:
        """A container begins to run."""
        made = what if isinstance(what, Container) else container(what)
        made = replace(made, started_ns=made.started_ns or self.now_ns)
        self.running[made.id] = made
        self.tasks[made.id] = Task()
        self.send(ContainerStarted(self.now_ns, made, found=found))
        return made.id

    def end(self, name: str) -> None:
        """It ends."""
        self.running.pop(name)
        self.tasks.pop(name)
        self.paused.pop(name, None)
        self.send(ContainerEnded(self.now_ns, ContainerId(name)))

    def work(self, name: str, memory_gib: float = 4.0, share: float = 0.0) -> None:
        """From now on it holds so much memory and shows so much use of compute."""
        task = self.tasks[name]
        task.memory_bytes, task.share = int(memory_gib * GIB), share

    def table(self) -> TaskTable:
        """What a monitor would see."""
        tasks: list[GpuTask] = list(self.outside)
        for number, (name, task) in enumerate(self.tasks.items()):
            if task.memory_bytes > 0:
                tasks += [
                    GpuTask(
                        gpu,
                        1000 + number,
                        self.running[name].started_ns // (10 * MS) + task.program,
                        ContainerId(name),
                        task.memory_bytes,
                        self._share(name, task),
                        task.tenant,
                    )
                    for gpu in self.running[name].gpus
                ]
        loads = tuple(self._load(gpu, tasks) for gpu in self.gpus)
        return TaskTable(self.now_ns, loads, tuple(tasks))

    def _share(self, name: str, task: Task) -> float:
        """Samples tell for a while of before a pause, and then of nothing."""
        held = name in self.paused and self.now_ns - self._held_ns[name] > SAMPLES_LAG_NS
        return 0.0 if held and name not in self.launched else task.share

    def _load(self, gpu: GpuUuid, tasks: Iterable[GpuTask]) -> GpuLoad:
        mine = [task for task in tasks if task.gpu == gpu]
        used = sum(task.memory_bytes for task in mine)
        use = min(1.0, sum(task.sm_share for task in mine))
        return GpuLoad(
            gpu,
            TOTAL,
            used if self.used_bytes is None else self.used_bytes,
            use if self.utilization is None else self.utilization,
            self.power_w,
            700.0,
        )

    def look(self) -> tuple[NodeInstruction, ...]:
        """The monitor looks."""
        return self.send(TableTaken(self.now_ns, self.table()))

    def run(self, time_ns: int, every_ns: int = 5 * MS) -> None:
        """Let time pass; the monitor looks, wishes to be woken are kept."""
        end_ns = self.now_ns + time_ns
        next_ns = self.now_ns
        while self.now_ns < end_ns:
            next_ns = min(next_ns + every_ns, end_ns)
            self.until(next_ns)
            self.look()

    def until(self, at_ns: int) -> None:
        """Let time pass without a look."""
        while self.wake_ns is not None and self.wake_ns <= at_ns:
            self.now_ns, self.wake_ns = max(self.now_ns, self.wake_ns), None
            self.send(TimePassed(self.now_ns))
        self.now_ns = at_ns

    @property
    def free(self) -> set[str]:
        """Containers that nobody paused through Dure."""
        return set(self.running) - set(self.paused)

    def told(self) -> list[str]:
        """Messages so far."""
        return [each.text for each in self.said if isinstance(each, Tell)]

    def order(self, deed: str = "resume") -> list[str]:
        """Whom a deed was done to, in order."""
        return [name for _, what, name in self.story if what == deed]
