"""The second layer of the host: containers, their states, and the process that looks at them."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dure.agent.telemetry.ports import Readings
from dure.client.containers import ContainersStatus, ContainerStatus
from dure.domain.metrics import node as m
from dure.domain.metrics.kinds import Reading
from dure.domain.units import NS_PER_S


@dataclass(slots=True)
class ContainerLayer:
    """The containers of this host that have a GPU."""

    status: Callable[[], ContainersStatus]
    name: str = "containers"

    def read(self) -> Readings:
        """What is known of each."""
        status = self.status()
        found = [reading for each in status.containers for reading in _container(each)]
        states = Counter(each.state for each in status.containers)
        found += [Reading(m.CONTAINERS, (state,), float(n)) for state, n in states.items()]
        monitor = status.monitor
        found += [
            Reading(m.MONITOR_LOOKS, (), float(monitor.looks)),
            Reading(m.MONITOR_CPU, (), monitor.cpu_ns / NS_PER_S),
            Reading(m.MONITOR_DEATHS, (), float(monitor.deaths)),
        ]
        if monitor.pid is not None:
            found.append(Reading(m.MONITOR_LOOK_SECONDS, (), monitor.look_ns / NS_PER_S))
        return found


def _container(each: ContainerStatus) -> Iterator[Reading]:
    label = (each.name,)
    yield Reading(m.CONTAINER_STATE, (each.name, each.state), 1.0)
    yield Reading(m.CONTAINER_SM, label, each.sm_share)
    yield Reading(m.CONTAINER_MEMORY, label, float(each.memory_bytes))
    yield Reading(m.CONTAINER_WAITED, label, each.waited_ns / NS_PER_S)
    if each.expected_memory_bytes is not None:
        yield Reading(m.CONTAINER_EXPECTED, label, float(each.expected_memory_bytes))
    if each.burst_ns is not None:
        yield Reading(m.CONTAINER_BURST, label, each.burst_ns / NS_PER_S)
