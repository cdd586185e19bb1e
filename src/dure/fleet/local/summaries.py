"""What the centre is told of each node group: exact, and only when something changed."""

from dataclasses import dataclass, field, replace

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
        """Take a group's figures anew; returns whether any changed."""
        known = self.latest.get(group)
        summary = self._summary(group, known.revision if known is not None else 0)
        if summary == known:
            return False
        self.revision += 1
        self.latest[group] = replace(summary, revision=self.revision)
        return True

    def all(self) -> tuple[SiteSummary, ...]:
        """Every group; a higher revision means newer figures."""
        return tuple(self.latest[group] for group in sorted(self.latest))

    def _summary(self, group: int, revision: int) -> SiteSummary:
        each = self.floor.yard.fields[group]
        up, shape = each.up, each.group
        nodes = int(up.sum())
        there = self.floor.on_node[each.first_node : each.first_node + shape.count]
        in_use = up & np.array([bool(guests) for guests in there], dtype=np.bool_)
        empty = each.empty_devices()
        compute, memory, bandwidth, cpu, host = (
            int(total) for total in each.used[:, up].sum(axis=1)
        )
        devices = nodes * shape.devices
        waiting = self.floor.queue.waiting(group)
        missing = sum(task.missing * task.footprint.devices for task in waiting)
        return SiteSummary(
            site=Site(self.floor.yard.cluster.id, shape.name),
            profile=shape.profile,
            nodes=nodes,
            nodes_in_use=int(in_use.sum()),
            devices=devices,
            free_devices=int(empty[up].sum()),
            free_on_used_nodes=int(empty[in_use].sum()),
            free_compute_milli=devices * WHOLE_MILLI - compute,
            free_memory_bytes=devices * each.profile.memory_bytes - memory,
            free_cpu_milli=nodes * shape.cpu_milli - cpu,
            free_host_memory_bytes=nodes * shape.host_memory_bytes - host,
            largest_node_free=int(empty[up].max(initial=0)),
            free_slices=tuple(
                (name, each.packer.copies(each.packed(shape))) for name, shape in each.probes
            ),
            waiting_devices=missing,
            fragmentation=each.packer.fragmentation(),
            revision=revision,
            free_bandwidth_milli=devices * WHOLE_MILLI - bandwidth,
            nodes_by_free=tuple(np.bincount(empty[up], minlength=shape.devices + 1).tolist()),
        )
