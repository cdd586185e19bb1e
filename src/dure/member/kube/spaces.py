"""Namespaces of scoped virtual clusters: made, kept as they shall be, and taken away again.

What belongs to a namespace is Dure's and is put right again when somebody changes it; what users
have in it is theirs. A namespace that was there before stays when its virtual cluster goes.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dure.domain.errors import DureError
from dure.domain.fleet.protocol.link import AccessAnswer, AccessRequest
from dure.domain.fleet.virtual import SpacePhase, SpaceStatus, VirtualCluster, VirtualTier
from dure.kube.client import KubeClient
from dure.kube.errors import KubeError, KubeExistsError, KubeForbiddenError, KubeNotFoundError
from dure.kube.labels import PREFIX
from dure.kube.requests import Preconditions, Scope
from dure.kube.resources import NAMESPACES, PODS, SERVICE_ACCOUNTS, Object, Resource, uid_of
from dure.member.core.desk import Desk
from dure.member.kube import names

_log = logging.getLogger("dure.member")

QUOTAS = Resource("", "v1", "ResourceQuota", "resourcequotas")
LIMITS = Resource("", "v1", "LimitRange", "limitranges")
POLICIES = Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
VIRTUAL = f"{PREFIX}virtual-cluster"
"""Label of a namespace and of what belongs to it."""
ACCOUNT = "dure-tenant"
"""As whom people of the tenant speak to the API server."""
TENANT_ROLE = "dure-virtual-tenant"
"""ClusterRole of `deploy/kubernetes/virtual-rights.yaml`: what these may do in their namespace."""
MEMBER_ROLE = "dure-member-tenant"
MEMBER_ACCOUNT = "dure-member"
KEEP_S = 30.0
"""How often it is looked whether everything is as it shall be."""
_LOOK_S = 1.0
_RIGHTS = "apply deploy/kubernetes/virtual-rights.yaml"
_LIVE = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True)
class Around:
    """How people and the member find each other in this cluster."""

    own_namespace: str
    """The member's."""
    url: str
    """Where people find the API server."""


class Spaces:
    """All virtual clusters of one member."""

    def __init__(
        self, client: KubeClient, desk: Desk, around: Around, stir: Callable[[], None]
    ) -> None:
        self._client = client
        self._desk = desk
        self._around = around
        self._stir = stir
        self._kept: dict[str, tuple[VirtualCluster, float]] = {}
        """As each was last made, and when."""
        self._statuses: dict[str, SpaceStatus] = {}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._look()
            await asyncio.sleep(_LOOK_S)

    def _wanted(self) -> list[VirtualCluster]:
        around = self._desk.stage.surroundings
        found = () if around is None else around.virtual
        return [each for each in found if each.tier is VirtualTier.SCOPED]

    async def _look(self) -> None:
        wanted = self._wanted()
        names_now = {each.name for each in wanted}
        self._statuses = {name: one for name, one in self._statuses.items() if name in names_now}
        self._kept = {name: one for name, one in self._kept.items() if name in names_now}
        for virtual in wanted:
            before, at_s = self._kept.get(virtual.name, (None, 0.0))
            if before == virtual and time.monotonic() - at_s < KEEP_S and not virtual.leaving:
                continue
            self._statuses[virtual.name] = await self._tend(virtual)
            self._kept[virtual.name] = (virtual, time.monotonic())
        if self._desk.teller.spaces.put(self._statuses.values()):
            self._stir()

    async def _tend(self, virtual: VirtualCluster) -> SpaceStatus:
        phase, why, pods = SpacePhase.READY, "", 0
        try:
            if virtual.leaving:
                phase, why, pods = await self._leave(virtual)
            else:
                await self._make(virtual)
                pods = await self._pods(virtual.namespace)
        except KubeForbiddenError as error:
            phase, why = SpacePhase.REFUSED, f"{error.what}; {_RIGHTS}"
        except KubeError as error:
            _log.warning("virtual cluster %s is not as it shall be: %s", virtual.name, error)
            phase, why = SpacePhase.REFUSED, str(error)
        return SpaceStatus(virtual.name, virtual.number, phase, why, pods)

    async def _pods(self, namespace: str) -> int:
        scope = Scope(namespace, fields=_LIVE, names_only=True)
        return len(await self._client.list(PODS, scope))

    # What shall be there

    async def _make(self, virtual: VirtualCluster) -> None:
        await self._name_space(virtual)
        wanted = dict(self._things(virtual))
        for (resource, name), thing in wanted.items():
            metadata = {
                "name": name,
                "namespace": virtual.namespace,
                "labels": {names.MANAGED_BY: names.MANAGER, VIRTUAL: virtual.name},
            }
            await self._client.apply(
                resource, {"metadata": metadata, **thing}, manager=names.MANAGER, force=True
            )
        for resource, name in _OPTIONAL:
            if (resource, name) not in wanted:
                await self._drop(resource, name, virtual.namespace)

    async def _name_space(self, virtual: VirtualCluster) -> None:
        """The namespace, marked as the tenant's; one that was there keeps that it was."""
        marks = {names.TENANT: virtual.tenant, VIRTUAL: virtual.name}
        made: Object = {
            "metadata": {
                "name": virtual.namespace,
                "labels": {names.MANAGED_BY: names.MANAGER, **marks},
            }
        }
        try:
            await self._client.create(NAMESPACES, made)
        except KubeExistsError:
            await self._client.patch(NAMESPACES, virtual.namespace, {"metadata": {"labels": marks}})

    def _things(
        self, virtual: VirtualCluster
    ) -> Iterator[tuple[tuple[Resource, str], dict[str, Any]]]:
        if virtual.quota:
            yield (QUOTAS, "dure-quota"), {"spec": {"hard": dict(virtual.quota)}}
        if virtual.defaults:
            item = {"type": "Container", "defaultRequest": dict(virtual.defaults)}
            yield (LIMITS, "dure-defaults"), {"spec": {"limits": [item]}}
        if virtual.isolated:
            yield (POLICIES, "dure-isolation"), {"spec": _among_themselves()}
        yield (SERVICE_ACCOUNTS, ACCOUNT), {}
        person = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": virtual.namespace}
        yield (BINDINGS, ACCOUNT), _binding(TENANT_ROLE, person)
        member = {
            "kind": "ServiceAccount",
            "name": MEMBER_ACCOUNT,
            "namespace": self._around.own_namespace,
        }
        yield (BINDINGS, MEMBER_ACCOUNT), _binding(MEMBER_ROLE, member)

    # What shall go

    async def _leave(self, virtual: VirtualCluster) -> tuple[SpacePhase, str, int]:
        try:
            space = await self._client.get(NAMESPACES, virtual.namespace)
        except KubeNotFoundError:
            return SpacePhase.GONE, "", 0
        labels = space["metadata"].get("labels") or {}
        if labels.get(VIRTUAL) != virtual.name:
            return SpacePhase.GONE, "", 0  # Nothing of it was ever here, or not any more.
        if "deletionTimestamp" in space["metadata"]:
            return SpacePhase.LEAVING, f"namespace {virtual.namespace} is being removed", 0
        pods = await self._pods(virtual.namespace)
        if pods and not virtual.forced:
            why = f"{pods} Pods run in namespace {virtual.namespace}; end them, or use force"
            return SpacePhase.LEAVING, why, pods
        await self._take_away(virtual, space)
        if labels.get(names.MANAGED_BY) != names.MANAGER:
            return SpacePhase.GONE, "", pods
        return SpacePhase.LEAVING, f"namespace {virtual.namespace} is being removed", pods

    async def _take_away(self, virtual: VirtualCluster, space: Object) -> None:
        for resource, name in (*_OPTIONAL, *_ALWAYS):
            await self._drop(resource, name, virtual.namespace)
        if names.is_ours(space["metadata"].get("labels") or {}):
            only = Preconditions(uid=uid_of(space))
            await self._client.delete(NAMESPACES, virtual.namespace, only=only)
        else:
            marks = {"metadata": {"labels": {VIRTUAL: None}}}
            await self._client.patch(NAMESPACES, virtual.namespace, marks)

    async def _drop(self, resource: Resource, name: str, namespace: str) -> None:
        with suppress(KubeNotFoundError):
            await self._client.delete(resource, name, namespace=namespace)

    # Who wants to speak to the API server

    async def access(self, request: AccessRequest) -> AccessAnswer:
        """A token for the account of a virtual cluster, or why there is none."""
        virtual = next((each for each in self._wanted() if each.name == request.name), None)
        if virtual is None or virtual.leaving:
            return AccessAnswer(request.id, error=f"there is no {request.name} in this cluster")
        try:
            token = await self._client.account_token(virtual.namespace, ACCOUNT, request.for_s)
        except KubeForbiddenError as error:
            return AccessAnswer(request.id, error=f"{error.what}; {_RIGHTS}")
        except DureError as error:
            return AccessAnswer(request.id, error=str(error))
        access = self._client.access
        return AccessAnswer(
            request.id,
            token=token,
            url=self._around.url or access.url,
            authority=(access.authority or b"").decode("ascii", "replace"),
            namespace=virtual.namespace,
        )


_OPTIONAL = ((QUOTAS, "dure-quota"), (LIMITS, "dure-defaults"), (POLICIES, "dure-isolation"))
_ALWAYS = (
    (BINDINGS, ACCOUNT),
    (SERVICE_ACCOUNTS, ACCOUNT),
    (BINDINGS, MEMBER_ACCOUNT),
)
"""The member's own rights last: without them nothing more can be done."""


def _binding(role: str, subject: Mapping[str, str]) -> dict[str, Any]:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    return {"roleRef": reference, "subjects": [dict(subject)]}


def _among_themselves() -> dict[str, Any]:
    """Pods of the namespace reach one another and the world; nobody else reaches them."""
    return {
        "podSelector": {},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {}}]}],
    }
