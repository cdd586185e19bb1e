"""All that is known of the cluster, and what of it has not been told yet. No I/O.

Changes of objects go in, `news` gives the sights they make. Nothing is told before everything was
listed once; then the inventory, what others hold, and every instance.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dure.domain.fleet.programs import Thing
from dure.domain.fleet.protocol.reports import Inventory
from dure.domain.fleet.virtual import FEATURE as VIRTUAL
from dure.domain.ids import TenantId
from dure.kube.devices import NodeDevices, UnknownDevicesError, node_devices
from dure.kube.inventory import KubeNode, inventory_of, kube_node
from dure.kube.nodes import why_not
from dure.kube.resources import Object, ObjectKey, key_of
from dure.member.kube import names
from dure.member.kube.claims import NodeOffers, allocated_pools, read_offers
from dure.member.kube.foreign import Foreigners
from dure.member.kube.instances import Instances
from dure.member.kube.numbering import Numbering
from dure.member.kube.pods import tolerations
from dure.member.kube.settings import KubeSettings
from dure.member.ports import InventoryChanged, Sight, Taken, Warned

LOGS = "logs"
DRA = "dra"


@dataclass
class Board:
    """The cluster's objects, as far as they matter."""

    settings: KubeSettings
    nodes: dict[str, Object] = field(default_factory=dict)
    slices: dict[ObjectKey, Object] = field(default_factory=dict)
    foreign_claims: dict[ObjectKey, Object] = field(default_factory=dict)
    claims: dict[ObjectKey, Object] = field(default_factory=dict)
    """Of Dure's."""
    namespaces: set[str] = field(default_factory=set)
    things: dict[tuple[TenantId, str], frozenset[str]] = field(default_factory=dict)
    """Names by tenant and kind."""
    foreigners: Foreigners = field(default_factory=Foreigners)
    instances: Instances = field(default_factory=Instances)
    numbering: Numbering | None = None
    """Of the inventory that was told last."""
    devices: dict[str, NodeDevices] = field(default_factory=dict)
    """Of the nodes of that inventory."""
    offers: Mapping[str, NodeOffers] = field(default_factory=dict)
    _found: dict[str, KubeNode] = field(default_factory=dict)
    """Nodes with accelerators."""
    _inventory: Inventory | None = None
    _taken: dict[str, Taken] = field(default_factory=dict)
    _warnings: dict[str, bool] = field(default_factory=dict)
    """What to warn of, and whether that was done."""
    _stale: set[str] = field(default_factory=set)
    """Nodes whose foreign share may have changed."""
    _recount: bool = True
    """Whether the inventory may have changed."""
    _reread: bool = True
    """Whether what drivers offer may have changed."""

    # What happens to objects; None: it is gone

    def put_node(self, node: Object, *, gone: bool) -> None:
        """A node came, changed or went."""
        name = node["metadata"]["name"]
        if gone:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = node
        self._look_at(name)

    def put_pod(self, pod: Object, *, gone: bool) -> None:
        """A Pod, Dure's or another's."""
        key = key_of(pod)
        if names.is_ours(pod["metadata"].get("labels") or {}):
            self.instances.put_pod(pod, gone=gone)
            return
        self._stale |= self.foreigners.put(key, None if gone else pod)
        owners = pod["metadata"].get("ownerReferences") or ()
        self._recount |= any(owner.get("kind") == "DaemonSet" for owner in owners)

    def put_claim(self, claim: Object, *, gone: bool) -> None:
        """A claim of devices."""
        ours = names.is_ours(claim["metadata"].get("labels") or {})
        known = self.claims if ours else self.foreign_claims
        before = known.pop(key_of(claim), None)
        if not gone:
            known[key_of(claim)] = claim
        if not ours:
            for one in (before, claim):
                self._stale |= set(allocated_pools(one)) if one else set()

    def put_slice(self, thing: Object, *, gone: bool) -> None:
        """What a driver offers."""
        self._reread = True
        if gone:
            self.slices.pop(key_of(thing), None)
        else:
            self.slices[key_of(thing)] = thing

    def put_things(self, tenant: TenantId, kind: str, found: frozenset[str] | None) -> None:
        """All things of a kind that a tenant has; None: it has no namespace any more."""
        self._recount = True
        if found is None:
            self.things.pop((tenant, kind), None)
        else:
            self.things[tenant, kind] = found

    def warn(self, what: str) -> None:
        """Tell a person, once."""
        self._warnings.setdefault(what, False)

    # What is to be told

    def news(self) -> Iterator[Sight]:
        """Everything that differs from what was told."""
        if self._reread:
            self._reread = False
            self.offers = read_offers(self.slices.values())
            for name in self.nodes:
                self._look_at(name)
        if self._recount:
            self._recount = False
            yield from self._counted()
        if self.numbering is not None:
            yield from self._others()
            yield from self.instances.news(self.numbering)
        for what in [what for what, told in self._warnings.items() if not told]:
            self._warnings[what] = True
            yield Warned(what)

    def _counted(self) -> Iterator[Sight]:
        found = self._found
        overheads = {name: self.foreigners.overhead(name) for name in found}
        things = frozenset(
            (tenant, Thing(kind, name))
            for (tenant, kind), all_names in self.things.items()
            for name in all_names
        )
        features = frozenset({LOGS, VIRTUAL, DRA} if self.offers else {LOGS, VIRTUAL})
        inventory = inventory_of(found.values(), overheads, things, features)
        self.devices = {name: node.devices for name, node in found.items()}
        if inventory == self._inventory:
            return
        if self._inventory is None or inventory.nodes != self._inventory.nodes:
            self._stale |= found.keys()
        self._taken = {name: taken for name, taken in self._taken.items() if name in found}
        if self._inventory is None or _shape(inventory) != _shape(self._inventory):
            self.instances.renumbered()
        self._inventory = inventory
        self.numbering = Numbering(inventory)
        yield InventoryChanged(inventory)

    def _look_at(self, name: str) -> None:
        """See what a node is now; most of its changes make no difference."""
        node = self._node(name)
        if node != self._found.get(name):
            self._recount = True
        if node is None:
            self._found.pop(name, None)
        else:
            self._found[name] = node

    def _node(self, name: str) -> KubeNode | None:
        node = self.nodes.get(name)
        if node is None:
            return None
        try:
            offered = self.offers.get(name)
            devices = offered.devices() if offered else node_devices(node)
        except UnknownDevicesError as error:
            self.warn(str(error))
            return None
        if devices is None or devices.count < 1:
            return None
        stood = tolerations(devices.taint_keys, self.settings)
        return kube_node(node, devices, why_not(node, stood))

    def _others(self) -> Iterator[Taken]:
        claimed = self._claimed() if self._stale else {}
        for node in sorted(self._stale & self.devices.keys()):
            devices = self.devices[node]
            taken = self.foreigners.taken(node, devices, claimed.get(node, 0))
            if taken != self._taken.get(node, Taken(node)):
                self._taken[node] = taken
                yield taken
        self._stale.clear()

    def _claimed(self) -> dict[str, int]:
        """How many devices of each node claims of others touch."""
        touched: dict[str, set[int]] = {}
        for claim in self.foreign_claims.values():
            for node, devices in allocated_pools(claim).items():
                if node in self.offers:
                    touched.setdefault(node, set()).update(self.offers[node].numbers(devices))
        return {node: len(devices) for node, devices in touched.items()}


def _shape(inventory: Inventory) -> tuple[object, ...]:
    """What two inventories share if the same numbers mean the same in both."""
    sizes = tuple((group.name, group.count, group.devices) for group in inventory.groups)
    return (sizes, tuple(node.name for node in inventory.nodes))
