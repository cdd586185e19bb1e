"""Services under a name of the cluster: wherever the centre says that their instances are.

A Service without a selector, and EndpointSlices that Dure writes: so the same name leads to
instances of another cluster once a service has moved there, as far as Pods can reach them. These
spread requests evenly. Where the Gateway API is installed, an HTTPRoute gives each attempt its
exact part: it belongs to the Service itself (a mesh follows it), and to a Gateway if one is named.
"""

import asyncio
import ipaddress
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from dure.domain.errors import DureError
from dure.domain.fleet.protocol.services import RouteBackend, Routes, ServiceRoute
from dure.kube.client import KubeClient
from dure.kube.errors import KubeError, KubeForbiddenError, KubeNotFoundError
from dure.kube.requests import Preconditions, Scope
from dure.kube.resources import (
    ENDPOINT_SLICES,
    HTTP_ROUTES,
    SERVICES,
    Object,
    Resource,
    key_of,
    uid_of,
)
from dure.member.kube import names
from dure.member.kube.settings import KubeSettings

_log = logging.getLogger("dure.member")

_AGAIN_S = 30.0
"""How often it is looked whether somebody else changed them."""
_PORT_NAME = "http"
_SLICE_OF, _SLICE_BY = "kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by"
_OURS = f"{names.OURS},{names.ROUTE}=true"
Wanted = dict[tuple[Resource, str, str], Object]
"""By kind, namespace and name."""


@dataclass
class Routing:
    """Keeps the objects as they shall be."""

    client: KubeClient
    settings: KubeSettings
    warn: Callable[[str], None]
    _routes: dict[str, ServiceRoute] = field(default_factory=dict)
    _whole: bool = False
    """Whether the centre has said everything: what is not among it may be removed."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _warned: set[str] = field(default_factory=set)

    def hear(self, word: Routes) -> None:
        """What the centre says."""
        if word.whole:
            self._routes.clear()
            self._whole = True
        for route in word.services:
            if route.ended:
                self._routes.pop(route.job, None)
            else:
                self._routes[route.job] = route
        self._news.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                async with asyncio.timeout(_AGAIN_S):
                    await self._news.wait()
            except TimeoutError:
                pass
            self._news.clear()
            if self._whole:
                try:
                    await self.settle()
                except KubeError as error:
                    self._say(f"names of services are out of date: {error}")

    async def settle(self) -> None:
        """Make, change and remove what differs."""
        there: dict[tuple[Resource, str, str], Object] = {}
        kinds = [SERVICES, ENDPOINT_SLICES]
        gateway = await self._listed(HTTP_ROUTES)
        if gateway is not None:
            kinds.append(HTTP_ROUTES)
        for resource in (SERVICES, ENDPOINT_SLICES):
            for thing in await self.client.list(resource, Scope(labels=_OURS)):
                there[resource, *key_of(thing)] = thing
        for thing in gateway or ():
            there[HTTP_ROUTES, *key_of(thing)] = thing
        wanted = {
            place: thing
            for place, thing in self._wanted(weighted=gateway is not None)
            if place[0] in kinds
        }
        for place, thing in wanted.items():
            if not _same(there.get(place), thing):
                await self._put(place, thing, known=place in there)
        for place, thing in there.items():
            if place not in wanted:
                await self._remove(place[0], thing)

    async def _listed(self, resource: Resource) -> list[Object] | None:
        """Ours of a kind; None where the cluster does not know it, or it is not ours to see."""
        try:
            return await self.client.list(resource, Scope(labels=_OURS))
        except (KubeNotFoundError, KubeForbiddenError):
            return None

    async def _put(self, place: tuple[Resource, str, str], thing: Object, *, known: bool) -> None:
        resource, namespace, name = place
        try:
            if not known and await self._is_foreign(resource, namespace, name):
                self._say(f"{resource.kind} {namespace}/{name} is not Dure's: rename or remove it")
                return
            await self.client.apply(resource, thing, manager=names.MANAGER, force=True)
        except KubeNotFoundError:
            _log.debug("namespace %s is gone", namespace)
        except DureError as error:
            self._say(f"{resource.kind} {namespace}/{name} cannot be written: {error}")

    async def _is_foreign(self, resource: Resource, namespace: str, name: str) -> bool:
        try:
            found = await self.client.get(resource, name, namespace)
        except KubeNotFoundError:
            return False
        return not names.is_ours(found["metadata"].get("labels") or {})

    async def _remove(self, resource: Resource, thing: Object) -> None:
        metadata = thing["metadata"]
        with suppress(KubeNotFoundError):
            await self.client.delete(
                resource,
                metadata["name"],
                namespace=metadata["namespace"],
                only=Preconditions(uid=uid_of(thing)),
            )

    def _say(self, what: str) -> None:
        """Tell people once."""
        if what not in self._warned:
            self._warned.add(what)
            self.warn(what)

    # What shall be

    def _wanted(self, *, weighted: bool) -> Iterator[tuple[tuple[Resource, str, str], Object]]:
        for route in self._routes.values():
            for resource, thing in self._objects(route, weighted=weighted):
                yield (resource, route.namespace, thing["metadata"]["name"]), thing

    def _objects(self, route: ServiceRoute, *, weighted: bool) -> Iterator[tuple[Resource, Object]]:
        yield SERVICES, _service(route, route.name)
        yield from self._slices(route, route.name, route.backends)
        if not weighted:
            return
        attempts = sorted({each.attempt for each in route.backends})
        for attempt in attempts:
            own = tuple(each for each in route.backends if each.attempt == attempt)
            name = f"{route.name}-a{attempt}"
            yield SERVICES, _service(route, name)
            yield from self._slices(route, name, own)
        if attempts:
            yield HTTP_ROUTES, self._http_route(route, attempts)

    def _slices(
        self, route: ServiceRoute, service: str, backends: tuple[RouteBackend, ...]
    ) -> Iterator[tuple[Resource, Object]]:
        groups: dict[tuple[str, int], list[tuple[str, int]]] = {}
        for each in backends:
            place = _place_of(each.address)
            if place is None:
                self._say(
                    f"service {route.name} answers at {each.address}, which Pods cannot be sent "
                    "to: give nodes of that cluster an IP address that others reach"
                )
                continue
            family, host, port = place
            groups.setdefault((family, port), []).append((host, each.weight))
        for (family, port), hosts in sorted(groups.items()):
            name = f"{service}-{family.lower()}-{port}"
            yield ENDPOINT_SLICES, _slice(route, service, name, (family, port), hosts)

    def _http_route(self, route: ServiceRoute, attempts: list[int]) -> Object:
        parents: list[Object] = [
            {"group": "", "kind": "Service", "name": route.name, "port": route.port}
        ]
        if self.settings.gateway:
            namespace, _, name = self.settings.gateway.rpartition("/")
            parents.append({"name": name, **({"namespace": namespace} if namespace else {})})
        backends = [
            {
                "name": f"{route.name}-a{attempt}",
                "port": route.port,
                "weight": sum(each.weight for each in route.backends if each.attempt == attempt),
            }
            for attempt in attempts
        ]
        spec: Object = {"parentRefs": parents, "rules": [{"backendRefs": backends}]}
        if self.settings.gateway:
            spec["hostnames"] = [f"{route.name}.{route.namespace}"]
        return {"metadata": _metadata(route, route.name), "spec": spec}


def _metadata(route: ServiceRoute, name: str) -> Object:
    labels = {
        names.MANAGED_BY: names.MANAGER,
        names.ROUTE: "true",
        names.JOB: names.label_value(route.job),
    }
    return {"name": name, "namespace": route.namespace, "labels": labels}


def _service(route: ServiceRoute, name: str) -> Object:
    port = {"name": _PORT_NAME, "port": route.port, "protocol": "TCP"}
    return {"metadata": _metadata(route, name), "spec": {"type": "ClusterIP", "ports": [port]}}


def _slice(
    route: ServiceRoute,
    service: str,
    name: str,
    group: tuple[str, int],
    hosts: list[tuple[str, int]],
) -> Object:
    family, port = group
    metadata = _metadata(route, name)
    metadata["labels"] |= {_SLICE_OF: service, _SLICE_BY: "dure.io"}
    return {
        "metadata": metadata,
        "addressType": family,
        "endpoints": [
            {
                "addresses": [host],
                "conditions": {
                    "ready": weight > 0,
                    "serving": True,
                    "terminating": weight == 0,
                },
            }
            for host, weight in sorted(hosts)
        ],
        "ports": [{"name": _PORT_NAME, "port": port, "protocol": "TCP"}],
    }


def _place_of(address: str) -> tuple[str, str, int] | None:
    """Family, host and port of an address that Pods can be sent to; None: it is none."""
    host, _, port = address.rpartition(":")
    try:
        found = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
    if found.is_loopback or found.is_link_local or found.is_unspecified or not port.isdecimal():
        return None
    return ("IPv4" if found.version == 4 else "IPv6"), str(found), int(port)


def _same(there: Object | None, wanted: Object) -> bool:
    """Whether all that is wanted is so; what the API server adds does not matter."""
    return there is not None and _within(wanted, there)


def _within(wanted: Any, there: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(there, dict) and all(
            name in there and _within(value, there[name]) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        same = isinstance(there, list) and len(there) == len(wanted)
        return same and all(map(_within, wanted, there))
    return bool(wanted == there)
