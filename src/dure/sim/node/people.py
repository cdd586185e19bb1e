"""People on a simulated host: they pause, unpause and stop by Docker, or use `dure node`."""

from collections.abc import Sequence

from dure.domain.containers import PauseWay
from dure.sim.node.containers import Holder, SimContainer
from dure.sim.node.faults import Deed, PersonAct
from dure.sim.node.managing import Manager
from dure.sim.node.world import START_NS, World


class People:
    """Do what the scenario says, whether there is an agent or not."""

    def __init__(self, world: World, manager: Manager | None, acts: Sequence[PersonAct]) -> None:
        self._world = world
        self._manager = manager
        self._acts = acts

    def start(self) -> None:
        """Note everything they will do."""
        for act in self._acts:
            self._world.agenda.note(START_NS + act.at_ns, self._act, act)

    def _act(self, now_ns: int, act: PersonAct) -> None:
        for container in self._world.containers:
            if container.spec.name == act.container and container.running:
                self._do(now_ns, container, act.deed)

    def _do(self, now_ns: int, container: SimContainer, deed: Deed) -> None:
        manager = self._manager
        if manager is not None and manager.runtime.docker_away and "docker" in deed.value:
            return  # it answers people as little as anybody else
        match deed:
            case Deed.DOCKER_PAUSE:
                if container.frozen:
                    return  # Docker refuses to pause what is paused
                container.let_go(now_ns)
                container.keep(now_ns, Holder.PERSON, PauseWay.DOCKER)
                if manager is not None:
                    manager.paused_by_others(now_ns, container)
            case Deed.DOCKER_UNPAUSE:
                if not container.frozen:
                    return
                container.let_go(now_ns)
                if manager is not None:
                    manager.resumed_by_others(now_ns, container)
            case Deed.DOCKER_STOP:
                self._world.stop(now_ns, container)
                if manager is not None:
                    manager.stopping(now_ns, container)
            case _ if manager is not None:
                manager.ordered(now_ns, container, deed)
