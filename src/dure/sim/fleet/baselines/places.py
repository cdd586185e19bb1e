"""What baselines know of sites: the summaries the global machine gets, less what was ordered."""

from dataclasses import dataclass, field

from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import Cluster, Fleet, NodeGroup
from dure.domain.fleet.decisions import Site, SiteSummary
from dure.domain.fleet.profiles import DeviceProfile
from dure.domain.fleet.slices import WHOLE_MILLI
from dure.domain.ids import ClusterId
from dure.fleet.fit import Footprint


class Place:
    """One site: free capacity by its last summary, less what was ordered since."""

    __slots__ = (
        "_by_free",
        "_cpu_milli",
        "_free",
        "_host_bytes",
        "_slices",
        "group",
        "profile",
        "site",
        "total",
        "up",
    )

    def __init__(self, site: Site, group: NodeGroup) -> None:
        self.site = site
        self.group = group
        self.profile: DeviceProfile = device_profile(group.profile)
        self.up = True
        self.total = float(group.count * group.devices)
        self._free = self.total
        """Devices, in whole ones."""
        self._by_free = [0] * group.devices + [group.count]
        """How many nodes have 0, 1, 2, … free devices."""
        self._slices: dict[str, int] = {}
        self._cpu_milli = group.count * group.cpu_milli
        self._host_bytes = group.count * group.host_memory_bytes

    @property
    def free_share(self) -> float:
        """Of its devices."""
        return self._free / self.total if self.total else 0.0

    def summarise(self, summary: SiteSummary) -> None:
        """Take over what the site says."""
        self.total = float(max(1, summary.devices))
        self._free = summary.free_compute_milli / WHOLE_MILLI - summary.waiting_devices
        self._by_free = list(summary.nodes_by_free) or self._guess(summary)
        self._slices = dict(summary.free_slices)
        self._cpu_milli = summary.free_cpu_milli
        self._host_bytes = summary.free_host_memory_bytes
        self._take_devices(1, summary.waiting_devices)

    def room_for(self, shape: Footprint) -> int:
        """How many instances of a shape fit there now, as far as a summary can tell."""
        if shape.compute_milli == WHOLE_MILLI:
            room = sum(nodes * (free // shape.devices) for free, nodes in enumerate(self._by_free))
        else:
            known = self._slices.get(shape.template)
            by_compute = int(self._free * WHOLE_MILLI + 1e-6) // shape.compute_milli
            room = by_compute if known is None else known
        if shape.cpu_milli:
            room = min(room, self._cpu_milli // shape.cpu_milli)
        if shape.host_memory_bytes:
            room = min(room, self._host_bytes // shape.host_memory_bytes)
        return max(0, room)

    def take(self, shape: Footprint, instances: int) -> None:
        """Something was ordered there."""
        self._free -= shape.device_share * instances
        self._cpu_milli -= shape.cpu_milli * instances
        self._host_bytes -= shape.host_memory_bytes * instances
        if shape.compute_milli == WHOLE_MILLI:
            self._take_devices(shape.devices, instances)
        elif shape.template in self._slices:
            self._slices[shape.template] -= instances

    def _take_devices(self, devices: int, times: int) -> None:
        """Take whole devices from the nodes they fill best."""
        by_free = self._by_free
        for _ in range(times):
            free = next((n for n in range(devices, len(by_free)) if by_free[n] > 0), None)
            if free is None:
                return
            by_free[free] -= 1
            by_free[free - devices] += 1

    def _guess(self, summary: SiteSummary) -> list[int]:
        """Nodes by free devices where the summary does not tell: the emptiest ones full of room."""
        by_free = [0] * (self.group.devices + 1)
        most = max(1, summary.largest_node_free)
        whole, rest = divmod(summary.free_devices, most)
        by_free[most] += whole
        by_free[rest] += 1
        return by_free


@dataclass(slots=True)
class Places:
    """All sites of all clusters that ever joined, in the order they joined."""

    fleet: Fleet
    rows: list[Place] = field(default_factory=list)
    clusters: dict[ClusterId, Cluster] = field(default_factory=dict)
    _row_of: dict[Site, int] = field(default_factory=dict)

    def join(self, cluster: Cluster) -> None:
        """A cluster is new, back, or has other prices."""
        self.clusters[cluster.id] = cluster
        for group in cluster.groups:
            site = Site(cluster.id, group.name)
            if site in self._row_of:
                self.rows[self._row_of[site]].up = True
            else:
                self._row_of[site] = len(self.rows)
                self.rows.append(Place(site, group))

    def lose(self, cluster: ClusterId) -> None:
        """A cluster cannot be reached."""
        for place in self.rows:
            if place.site.cluster == cluster:
                place.up = False

    def summarise(self, summary: SiteSummary) -> None:
        """A site said what it has left."""
        row = self._row_of.get(summary.site)
        if row is not None:
            self.rows[row].summarise(summary)
