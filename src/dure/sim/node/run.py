"""Runs one mode of a scenario, from the first container's start to the last one's end."""

from dataclasses import dataclass, field, replace

from dure.node.settings import NodeSettings
from dure.sim.agenda import Agenda
from dure.sim.node.containers import ContainerSpec, SimContainer
from dure.sim.node.faults import Fault, PersonAct
from dure.sim.node.foreseeing import StatedRisk, Watcher
from dure.sim.node.managing import Manager
from dure.sim.node.model import GpuModel, HostModel
from dure.sim.node.modes import Mode
from dure.sim.node.people import People
from dure.sim.node.results import NodeResult, Watch, result_of
from dure.sim.node.world import START_NS, World


@dataclass(frozen=True, slots=True)
class Setting:
    """Everything that is the same for all modes."""

    containers: tuple[ContainerSpec, ...]
    gpus: tuple[GpuModel, ...] = (GpuModel(),)
    host: HostModel = field(default_factory=HostModel)
    settings: NodeSettings = field(default_factory=NodeSettings)
    """Of Dure; strategy and ways are the mode's."""
    experienced: bool = False
    """Whether Dure has seen these containers run once, and knows what their images do."""
    faults: tuple[Fault, ...] = ()
    acts: tuple[PersonAct, ...] = ()
    risks: tuple[StatedRisk, ...] = ()
    """What is foreseen; who has no Dure does not heed it."""
    limit_ns: int = 3600 * 10**9
    """The run is given up after this long."""


_SLICE_NS = 10**9
"""How often the run looks whether everything has ended."""


def run(setting: Setting, mode: Mode) -> NodeResult:
    """Everything that happened."""
    settings = setting.settings
    if mode.strategy is not None:
        settings = replace(settings, strategy=mode.strategy, ways=mode.ways)
        if setting.experienced:
            calm = replace(setting, settings=settings, faults=(), acts=(), risks=())
            _, before = _run(calm, mode)
            settings = replace(settings, history=before.history() if before is not None else ())
    result, _ = _run(replace(setting, settings=settings), mode)
    return result


def _run(setting: Setting, mode: Mode) -> tuple[NodeResult, Manager | None]:
    agenda = Agenda()
    world = World(setting.containers, setting.gpus, agenda)
    manager = None
    if mode.strategy is not None:
        manager = Manager(world, setting.settings, setting.host, setting.faults)
        manager.start()
        Watcher(world, manager, setting.risks).start()
    People(world, manager, setting.acts).start()
    if mode.queued:
        world.gate = _Turns(world)
    watch = Watch(world)
    world.start()
    watch.start()
    end_ns = START_NS + setting.limit_ns
    now_ns = START_NS
    while now_ns < end_ns and world.unfinished:
        now_ns = min(end_ns, now_ns + _SLICE_NS)
        agenda.run_until(now_ns)
    return result_of(mode.name, world, manager, watch, now_ns), manager


class _Turns:
    """Lets a job's program begin when all jobs before it that share a GPU with it have ended."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __call__(self, container: SimContainer) -> bool:
        spec = container.spec
        if spec.serves or spec.outside or not spec.gpus:
            return True
        return not any(self._before(other, container) for other in self._world.unfinished)

    def _before(self, other: SimContainer, container: SimContainer) -> bool:
        if other is container or other.spec.serves or other.spec.outside:
            return False
        if other.meetings & container.meetings or not set(other.gpus) & set(container.gpus):
            return False
        place = (container.spec.begin_ns, self._world.containers.index(container))
        return (other.spec.begin_ns, self._world.containers.index(other)) < place
