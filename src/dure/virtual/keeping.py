"""Keeps the nodes of a virtual cluster as the centre says its pools are, and says so in time.

While the centre is away nodes stay as it last said they were; Pods that are bound meanwhile wait.
"""

import asyncio
import logging
import time
from contextlib import suppress

from dure.api.virtual import VirtualNode, VirtualNodes
from dure.client.fleet import AsyncFleetClient, FleetError, RefusedError
from dure.domain.errors import DureError
from dure.kube.client import KubeClient
from dure.kube.errors import KubeError, KubeExistsError, KubeNotFoundError
from dure.kube.requests import Scope
from dure.kube.resources import LEASES, NODES, PODS, Object
from dure.virtual import nodes as made
from dure.virtual.nodes import Door, node_name

_log = logging.getLogger("dure.virtual")

MANAGER = "dure-virtual"
_BEAT_S = 10.0
"""Between two words of a node."""
_AGAIN_S = 1.0
_GONE = 404


class VirtualClusterGone(DureError):  # noqa: N818 - an end, not an error
    """The virtual cluster was removed at the centre."""


class NodeKeeper:
    """All nodes of one virtual cluster."""

    def __init__(self, name: str, kube: KubeClient, centre: AsyncFleetClient, door: Door) -> None:
        self._name = name
        self._kube = kube
        self._centre = centre
        self._door = door
        self._said: VirtualNodes | None = None
        self._reached = "it has not answered yet"
        self._changed = asyncio.Event()
        self._tainted: dict[str, bool] = {}
        self.known = asyncio.Event()
        """Set once the centre has said what the nodes are."""

    @property
    def pools(self) -> dict[str, VirtualNode]:
        """Pools by the names of their nodes."""
        found = self._said.nodes if self._said is not None else ()
        return {node_name(node.pool): node for node in found}

    @property
    def owner(self) -> tuple[str, str]:
        """Tenant and team."""
        assert self._said is not None
        return self._said.tenant, self._said.team

    async def run(self) -> None:
        """Until cancelled; raises `VirtualClusterGone`."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            tasks.create_task(self._keep())

    async def _follow(self) -> None:
        while True:
            try:
                async for said in self._centre.virtual_nodes(self._name):
                    self._said, self._reached = said, ""
                    self.known.set()
                    self._changed.set()
                raise VirtualClusterGone(f"virtual cluster {self._name} was removed")
            except RefusedError as error:
                if error.status == _GONE:
                    raise VirtualClusterGone(str(error)) from error
                self._lost(error)
            except FleetError as error:
                self._lost(error)
            await asyncio.sleep(_AGAIN_S)

    def _lost(self, error: FleetError) -> None:
        if not self._reached:
            _log.warning("nodes stay as they are: %s", error)
        self._reached = str(error)
        self._changed.set()

    async def _keep(self) -> None:
        await self.known.wait()
        while True:
            self._changed.clear()
            try:
                await self._write()
            except KubeError as error:
                _log.warning("nodes cannot be written: %s", error)
                await asyncio.sleep(_AGAIN_S)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(_BEAT_S):
                    await self._changed.wait()

    async def _write(self) -> None:
        pools = self.pools
        for name, node in pools.items():
            await self._write_node(name, node)
        for thing in await self._kube.list(NODES, Scope(labels=f"{made.CLUSTER}={self._name}")):
            name = thing["metadata"]["name"]
            if name not in pools:
                await self._retire(thing)

    async def _write_node(self, name: str, node: VirtualNode) -> None:
        now_s = time.time()
        await self._kube.apply(
            LEASES, made.lease_object(name, name, now_s), manager=MANAGER, force=True
        )
        status = {"status": made.node_status(node, self._door, self._reached, now_s)}
        metadata = {"metadata": made.node_metadata(self._name, node)}
        try:
            await self._kube.patch(NODES, name, metadata)
        except KubeNotFoundError:
            await self._create(node)
        await self._kube.patch(NODES, name, status, subresource="status")

    async def _create(self, node: VirtualNode) -> None:
        tainted = await self._tolerated(node.resource)
        if not tainted:
            _log.warning(
                "node %s has no taint: the API server gives Pods that ask for %s no toleration; "
                "start it with --enable-admission-plugins=ExtendedResourceToleration to keep "
                "DaemonSets away",
                node_name(node.pool),
                node.resource,
            )
        with suppress(KubeExistsError):
            await self._kube.create(NODES, made.node_object(self._name, node, tainted=tainted))

    async def _tolerated(self, resource: str) -> bool:
        """Whether Pods that ask for a device tolerate its taint by themselves."""
        if resource not in self._tainted:
            tried = await self._kube.create(PODS, _trial(resource), dry_run=True)
            keys = {each.get("key") for each in tried["spec"].get("tolerations") or ()}
            self._tainted[resource] = resource in keys
        return self._tainted[resource]

    async def _retire(self, node: Object) -> None:
        """A pool is no node any more: nothing new goes there, and the node when it is empty."""
        name = node["metadata"]["name"]
        bound = await self._kube.list(PODS, Scope(fields=f"spec.nodeName={name}"))
        if bound:
            if not node["spec"].get("unschedulable"):
                await self._kube.patch(NODES, name, {"spec": {"unschedulable": True}})
            return
        with suppress(KubeNotFoundError):
            await self._kube.delete(NODES, name)


def _trial(resource: str) -> Object:
    container = {"name": "trial", "image": "trial", "resources": {"limits": {resource: "1"}}}
    metadata = {"generateName": "dure-trial-", "namespace": "default"}
    spec = {"containers": [container], "automountServiceAccountToken": False}
    return {"metadata": metadata, "spec": spec}
