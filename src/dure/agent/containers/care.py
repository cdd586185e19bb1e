"""The composition of what manages containers: made of what, started and ended in which order."""

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dure.agent.containers.answers import ContainerDesk
from dure.agent.containers.guard import Guard
from dure.agent.containers.manager import Manager
from dure.agent.containers.monitor_process import MonitorProcess
from dure.agent.containers.ports import ContainerRuntime, Pauser
from dure.agent.containers.remembering import Memory
from dure.agent.containers.thawing import Thawed, Thawer, thaw_at_start
from dure.agent.containers.watching import Watcher
from dure.agent.events import EventLog
from dure.agent.mps import EMULATOR_VARIABLE
from dure.agent.options import AgentOptions, ContainerOptions
from dure.client.containers import PauseWith
from dure.devices.nvml import GpuFacts
from dure.domain.containers import PauseWay
from dure.domain.errors import DureError, InputError
from dure.domain.events import ReadingsTaken, RiskCleared, RiskRaised
from dure.domain.ids import GpuUuid
from dure.node.machine import NodeMachine
from dure.node.notes import note_settings
from dure.node.settings import NodeSettings
from dure.runtimes.cuda_driver import CudaDriver
from dure.runtimes.cuda_lock import CudaLockPauser, mps_runs
from dure.runtimes.docker import DockerPauser, DockerRuntime, docker_url
from dure.runtimes.inspection import GpuNames, HostGpu
from dure.runtimes.journal import Journal
from dure.runtimes.recording import Recording

_log = logging.getLogger(__name__)

_JOURNAL_WAIT_S = 10.0
"""A watchdog that lets go what a dead agent left has the journal for a few seconds."""


@dataclass(frozen=True, slots=True)
class Host:
    """What the rest of the agent knows and managing containers needs."""

    gpus: tuple[GpuFacts, ...]
    events: EventLog
    tenants: Callable[[], Mapping[int, str]]
    """Level-1 tenants by pid."""


@dataclass(slots=True)
class Care:
    """Everything that manages the containers of this host."""

    desk: ContainerDesk
    _manager: Manager
    _monitor: MonitorProcess
    _watcher: Watcher
    _guard: Guard
    _memory: Memory
    _ends: list[Callable[[], None]] = field(default_factory=list)

    def start(self) -> None:
        """Begin; nothing is paused before watchdog and monitor are there."""
        self._manager.start()
        self._guard.start()
        self._monitor.start()
        self._watcher.start()
        self._memory.start()

    def heed(self, gpu: str, event: ReadingsTaken | RiskRaised | RiskCleared) -> None:
        """Something is foreseen on a GPU: the order of containers follows."""
        if not isinstance(event, ReadingsTaken):
            self._manager.take_risk(GpuUuid(gpu), event)

    def stop(self) -> None:
        """Let everybody go while all that is needed for it is still there, then end the rest."""
        self._memory.stop()
        self._manager.stop()
        self._watcher.stop()
        self._monitor.stop()
        self._guard.stop()
        for end in self._ends:
            end()


def make_care(options: AgentOptions, wanted: ContainerOptions, host: Host) -> Care:
    """All of it, with what an earlier agent left frozen already let go; raises where an option
    asks for what is not possible."""
    folder = options.places.containers_dir
    runtime = DockerRuntime(docker_url(), gpu_names(host.gpus))
    driver = CudaDriver()
    under_mps = options.sharing == "mps"
    lock = CudaLockPauser(runtime.place, driver, mps=lambda: under_mps or mps_runs())
    pausers = usable(wanted.pause_with, lock, DockerPauser(runtime))
    memory = Memory(folder / "history.json")
    settings = NodeSettings(strategy=wanted.strategy, ways=tuple(pausers), history=memory.load())
    NodeMachine(settings)  # an unknown strategy is known before anything is touched
    journal = Journal(folder, runtime.place, _JOURNAL_WAIT_S)
    runtime.journal = journal
    thawer, stop = Thawer(driver), threading.Event()
    for thawed in thaw_at_start(journal, thawer, stop):
        host.events.add("container", _told(thawed))
    monitor = MonitorProcess()
    recording = Recording(wanted.record, note_settings(settings)) if wanted.record else None
    manager = Manager(
        make_machine=lambda: NodeMachine(settings),
        pausers=pausers,
        journal=journal,
        look_every=monitor.look_every,
        events=host.events,
        tenants=host.tenants,
        dry_run=wanted.dry_run,
        expect=expecting(wanted, pausers, driver),
        record=recording.add if recording is not None else None,
    )
    monitor.on_table = manager.take_table
    monitor.on_news = lambda news: manager.take_trouble("monitor", news)
    memory.learned = manager.history
    host.events.add("container", _introduced(wanted, pausers))
    return Care(
        desk=ContainerDesk(manager, monitor, os.getuid()),
        _manager=manager,
        _monitor=monitor,
        _watcher=_watcher(runtime, manager),
        _guard=_guard(folder, manager, start_one=wanted.start_watchdog),
        _memory=memory,
        _ends=[
            *(stop.set, lock.close, thawer.close, journal.close),
            *((recording.close,) if recording is not None else ()),
        ],
    )


def _told(thawed: Thawed) -> str:
    return f"{thawed.owed.name} was left paused: it {thawed.outcome.value}"


def _introduced(wanted: ContainerOptions, pausers: Iterable[PauseWay]) -> str:
    ways = ", ".join(way.value for way in pausers)
    dry = ", dry run" if wanted.dry_run else ""
    return f"containers are managed by {wanted.strategy}, paused with {ways}{dry}"


def expecting(
    wanted: ContainerOptions, ways: Collection[PauseWay], driver: CudaDriver
) -> Callable[[int], None]:
    """Has helpers of the lock ready before they are needed, where the lock will be used at all."""
    if wanted.dry_run or PauseWay.CUDA_LOCK not in ways:
        return lambda _: None
    return driver.expect


def _guard(folder: Path, manager: Manager, *, start_one: bool) -> Guard:
    return Guard(
        folder,
        lambda: manager.last_round_ns,
        lambda there: manager.take_trouble(
            "watchdog", None if there else "the watchdog does not answer"
        ),
        start_one=start_one,
    )


def _watcher(runtime: ContainerRuntime, manager: Manager) -> Watcher:
    return Watcher(
        runtime,
        on_list=manager.take_list,
        on_event=manager.take_event,
        on_loss=lambda reason: manager.take_trouble("runtime", reason),
    )


def usable(wanted: PauseWith, lock: Pauser, docker: Pauser) -> dict[PauseWay, Pauser]:
    """The ways that may be used here, best first; raises where the one asked for cannot be."""
    found: dict[PauseWay, Pauser] = {}
    if wanted != "docker":
        reason = lock.unsupported()
        if reason is None:
            found[PauseWay.CUDA_LOCK] = lock
        elif wanted == "cuda-lock":
            raise InputError(reason, "use --pause-with docker", field="--pause-with")
        else:
            _log.info("the CUDA lock is not used: %s", reason)
    if wanted != "cuda-lock":
        try:
            reason = docker.unsupported()
        except DureError as error:
            reason = None  # it may come later; until then nobody is there to be paused
            _log.warning("%s", error)
        if reason is None:
            found[PauseWay.DOCKER] = docker
        elif wanted == "docker":
            raise InputError(reason, "use --pause-with cuda-lock", field="--pause-with")
        else:
            _log.warning("%s", reason)
    return found


def gpu_names(gpus: Iterable[GpuFacts]) -> GpuNames:
    """The GPUs of this host, by all their names; the emulator's are given by the environment."""
    hosts = tuple(HostGpu(gpu.index, GpuUuid(gpu.uuid), gpu.minor) for gpu in gpus)
    return GpuNames(hosts, environment_counts=EMULATOR_VARIABLE in os.environ)
