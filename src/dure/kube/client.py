"""A thin client of the Kubernetes API: any kind of object, server-side apply, watches, logs."""

import json
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from types import TracebackType
from typing import Self

import httpx

from dure.kube.access import Access
from dure.kube.errors import KubeUnreachableError, refused_status
from dure.kube.requests import LogOptions, Page, Preconditions, Scope, WatchEvent
from dure.kube.resources import PODS, SERVICE_ACCOUNTS, Object, Resource
from dure.kube.streams import lines_of
from dure.kube.transport import (
    APPLY,
    JSON,
    MERGE,
    METADATA,
    METADATA_LIST,
    Patience,
    Request,
    Transport,
)

PAGE_SIZE = 500
"""Objects asked for at once; what kubectl asks for."""


class KubeClient:
    """Talks to one cluster; used by any number of tasks of one event loop.

    Objects that name no namespace are meant in that of the access. Requests that may be sent twice
    are sent again for a while when the API server is gone; every refusal is a `KubeError`.
    """

    def __init__(
        self,
        access: Access,
        patience: Patience | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self.access = access
        self.chance = chance or random.Random()
        self._transport = Transport(access, patience or Patience(), self.chance)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give the connections back."""
        await self._transport.close()

    # Reading

    async def server_version(self) -> str:
        """Such as v1.36.3."""
        return str((await self._transport.send(Request("GET", "/version")))["gitVersion"])

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """One object as it is now."""
        path = self._path(resource, name, namespace)
        return await self._transport.send(Request("GET", path))

    async def pages(
        self, resource: Resource, scope: Scope | None = None, page_size: int = PAGE_SIZE
    ) -> AsyncGenerator[Page]:
        """All objects page by page, as they were when the first was read; 0: all in one."""
        chosen = scope or Scope()
        path = resource.path(chosen.namespace)
        query = chosen.query() | ({"limit": str(page_size)} if page_size else {})
        accept = METADATA_LIST if chosen.names_only else JSON
        while True:
            body = await self._transport.send(Request("GET", path, query, accept=accept))
            metadata = body["metadata"]
            items = [_named(item, resource) for item in body.get("items") or ()]
            yield Page(items, str(metadata["resourceVersion"]))
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]

    async def list(self, resource: Resource, scope: Scope | None = None) -> list[Object]:
        """All objects at once."""
        return [item async for page in self.pages(resource, scope) for item in page.items]

    # Writing

    async def create(self, resource: Resource, thing: Object, *, dry_run: bool = False) -> Object:
        """Create an object that must not be there; not sent again where the answer got lost.

        A dry run has it checked by every rule of the cluster, and leaves nothing.
        """
        path = resource.path(self._namespace_of(resource, thing))
        query = {"dryRun": "All"} if dry_run else {}
        body = _named(thing, resource)
        return await self._transport.send(Request("POST", path, query, body, repeatable=dry_run))

    async def replace(self, resource: Resource, thing: Object) -> Object:
        """Put an object in the place of the one whose resourceVersion it states."""
        path = self._path_of(resource, thing)
        body = _named(thing, resource)
        return await self._transport.send(Request("PUT", path, body=body, repeatable=False))

    async def apply(
        self,
        resource: Resource,
        thing: Object,
        *,
        manager: str,
        force: bool = False,
        subresource: str = "",
    ) -> Object:
        """Make the fields named so, and this manager their owner; others' fields stay as they are.

        A field that another manager owns with another value is a conflict unless forced.
        """
        path = self._path_of(resource, thing, subresource)
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        body = _named(thing, resource)
        return await self._transport.send(Request("PATCH", path, query, body, APPLY))

    async def patch(
        self,
        resource: Resource,
        name: str,
        changes: Object,
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> Object:
        """Change some fields (null removes one), or with the subresource `status` those of it.

        Where `changes` state `metadata.resourceVersion`, only if nobody changed it meanwhile.
        """
        path = self._path(resource, name, namespace, subresource)
        # A stated version makes the second of two equal requests fail though the first was done.
        once = "resourceVersion" in changes.get("metadata", {})
        request = Request("PATCH", path, {}, changes, MERGE, repeatable=not once)
        return await self._transport.send(request)

    async def account_token(self, namespace: str, account: str, for_s: int) -> str:
        """A token with which somebody is a service account for a while."""
        path = SERVICE_ACCOUNTS.path(namespace, account, "token")
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": for_s},
        }
        made = await self._transport.send(Request("POST", path, body=body, repeatable=False))
        return str(made["status"]["token"])

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        only: Preconditions | None = None,
        grace_s: int | None = None,
    ) -> Object:
        """Ask for an object's end, and in the background for that of what it owns.

        It is gone only once it is found no more. Sent again only where `only` makes sure that it
        does not hit another object of that name.
        """
        body: Object = {"kind": "DeleteOptions", "apiVersion": "v1"}
        body |= {"propagationPolicy": "Background"} | (only or Preconditions()).body()
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        path = self._path(resource, name, namespace)
        request = Request("DELETE", path, body=body, repeatable=bool(only and only.uid))
        return await self._transport.send(request)

    # Following

    @asynccontextmanager
    async def watch(
        self, resource: Resource, scope: Scope, resource_version: str, timeout_s: int
    ) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        """What happens from a version on, until the server ends it after so many seconds.

        Entering asks the server, so that a refusal shows at once.
        """
        query = scope.query() | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_s),
        }
        path = resource.path(scope.namespace)
        # Nothing need happen until the server ends it; keep-alive probes find a link that is cut.
        silence_s = timeout_s + self._transport.patience.answer_s
        accept = METADATA if scope.names_only else JSON
        async with (
            self._transport.stream(path, query, silence_s, accept) as response,
            aclosing(_watch_events(response, f"watch of {path}", resource)) as events,
        ):
            yield events

    async def log_lines(
        self, pod: str, namespace: str = "", options: LogOptions | None = None
    ) -> AsyncGenerator[str]:
        """What a container printed, line by line; to its end where it is to be followed."""
        chosen = options or LogOptions()
        path = self._path(PODS, pod, namespace, "log")
        silence_s = None if chosen.follow else self._transport.patience.answer_s
        async with (
            self._transport.stream(path, chosen.query(), silence_s) as response,
            aclosing(lines_of(response.aiter_bytes())) as lines,
        ):
            async for line in lines:
                yield line.decode("utf-8", "replace")

    # Names

    def _path(self, resource: Resource, name: str, namespace: str, subresource: str = "") -> str:
        space = (namespace or self.access.namespace) if resource.namespaced else ""
        return resource.path(space, name, subresource)

    def _path_of(self, resource: Resource, thing: Object, subresource: str = "") -> str:
        space = self._namespace_of(resource, thing)
        return resource.path(space, thing["metadata"]["name"], subresource)

    def _namespace_of(self, resource: Resource, thing: Object) -> str:
        stated = str(thing["metadata"].get("namespace", ""))
        return (stated or self.access.namespace) if resource.namespaced else ""


def _named(thing: Object, resource: Resource) -> Object:
    """Objects in lists do not say what they are, and whoever makes one need not."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, **thing}


async def _watch_events(
    response: httpx.Response, subject: str, resource: Resource
) -> AsyncGenerator[WatchEvent]:
    async with aclosing(lines_of(response.aiter_bytes())) as lines:
        async for line in lines:
            try:
                event = json.loads(line)
            except ValueError as error:  # cut in two by the server's end
                raise KubeUnreachableError(f"{subject} broke off within a line") from error
            if event["type"] == "ERROR":
                raise refused_status(event["object"], subject)
            yield WatchEvent(event["type"], _named(event["object"], resource))
