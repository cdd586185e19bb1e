"""What the centre is told of each node group: exact, and only when there is something to tell."""

from dataclasses import dataclass, field, fields
from operator import attrgetter

import numpy as np

from dure.domain.fleet.decisions import Site, SiteSummary
from dure.domain.fleet.slices import WHOLE_MILLI
from dure.fleet.local.floor import Floor


@dataclass(slots=True)
class Summaries:
    """The latest summary of each group."""

    floor: Floor
    revision: int = 0
    latest: dict[int, SiteSummary] = field(default_factory=dict)

    def update(self, group: int) -> bool:
        """Take a group's figures anew; returns whether they are to be told.

        After an order they are told also where they are as before, as when it starts in the place
        of another: the centre has counted less since it gave it.
        """
        known = self.latest.get(group)
        summary = self._summary(group, self.revision + 1)
        if known is not None and _same(summary, known) and group not in self.floor.ordered:
            return False
        self.revision += 1
        self.latest[group] = summary
        return True

    def all(self) -> tuple[SiteSummary, ...]:
        """Every group; a higher revision means newer figures."""
        return tuple(self.latest[group] for group in sorted(self.latest))

    def _summary(self, group: int, revision: int) -> SiteSummary:
        each = self.floor.yard.fields[group]
        up, shape = each.open, each.group
        nodes = int(np.count_nonzero(up))
        there = self.floor.on_node[each.first_node : each.first_node + shape.count]
        in_use = np.fromiter(map(bool, there), np.bool_, shape.count)
        billed = int(np.count_nonzero(in_use & each.up))
        empty, used = each.empty_devices(), each.used
        if each.foreign:
            used = used + each.foreign.amounts
        if nodes < shape.count:
            # What is down or cordoned offers nothing.
            empty, used, in_use = empty[up], used[:, up], in_use[up]
        compute, memory, bandwidth, cpu, host = used.sum(axis=1).tolist()
        by_free = np.bincount(empty, minlength=shape.devices + 1).tolist()
        devices = nodes * shape.devices
        waiting = self.floor.queue.waiting(group)
        missing = sum(task.missing * task.footprint.devices for task in waiting)
        return SiteSummary(
            site=Site(self.floor.yard.cluster.id, shape.name),
            profile=shape.profile,
            nodes=nodes,
            nodes_in_use=billed,
            devices=devices,
            free_devices=sum(free * count for free, count in enumerate(by_free)),
            free_on_used_nodes=int(empty[in_use].sum()),
            free_compute_milli=devices * WHOLE_MILLI - compute,
            free_memory_bytes=devices * each.profile.memory_bytes - memory,
            free_cpu_milli=nodes * shape.cpu_milli - cpu,
            free_host_memory_bytes=max(0, nodes * shape.host_memory_bytes - host),
            largest_node_free=max((free for free, count in enumerate(by_free) if count), default=0),
            free_slices=each.probe(),
            waiting_devices=missing,
            fragmentation=each.packer.fragmentation(),
            revision=revision,
            free_bandwidth_milli=devices * WHOLE_MILLI - bandwidth,
            nodes_by_free=tuple(by_free),
        )


_FIGURES = attrgetter(*(each.name for each in fields(SiteSummary) if each.name != "revision"))


def _same(one: SiteSummary, other: SiteSummary) -> bool:
    """Whether two summaries say the same, whenever that was."""
    return bool(_FIGURES(one) == _FIGURES(other))
