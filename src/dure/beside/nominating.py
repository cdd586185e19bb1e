"""Writes nominations into Workloads by Kueue's rule of ownership, and says in Events what hinders.

`status.nominatedClusterNames` belongs to the field manager `kueue-admission`: only so can Kueue
take it away again when a cluster has admitted. Kueue applies all it owns as that manager, so
whoever applies as it names all of that, too, on the very version that was read.
"""

import hashlib
import logging
from collections.abc import Callable, Sequence

from dure.beside import kinds
from dure.beside.owned import owned_by
from dure.beside.workloads import Standing, read_sight
from dure.kube.client import KubeClient
from dure.kube.errors import KubeConflictError, KubeError, KubeExistsError, KubeNotFoundError
from dure.kube.resources import EVENTS, Object, ObjectKey, Resource

_log = logging.getLogger(__name__)

_TRIES = 5
_COMPONENT = "dure-kueue"
_MOST_MESSAGE = 1024
"""Characters of an Event."""


class Nominator:
    """Writes to the manager cluster: one field of Workloads that are ours, and Events."""

    def __init__(
        self, client: KubeClient, workloads: Resource, now_text: Callable[[], str]
    ) -> None:
        self._client = client
        self._workloads = workloads
        self._now_text = now_text
        self._told: dict[tuple[str, str], str] = {}

    async def nominate(self, key: ObjectKey, nominees: Sequence[str], ours: frozenset[str]) -> bool:
        """Nominate clusters if the Workload is still ours to nominate; tells whether it was."""
        for _ in range(_TRIES):
            try:
                live = await self._client.get(self._workloads, key.name, key.namespace)
            except KubeNotFoundError:
                return False
            sight = read_sight(live, ours)
            if sight.standing is not Standing.OPEN:
                return False
            if sight.nominated == tuple(nominees):
                return True
            try:
                await self._write(live, nominees)
            except KubeConflictError:
                continue  # Kueue was quicker: look at what it made of it
            _log.info("nominated %s for %s/%s", ", ".join(nominees), key.namespace, key.name)
            return True
        return False

    async def _write(self, live: Object, nominees: Sequence[str]) -> None:
        metadata = live["metadata"]
        own = owned_by(live, kinds.ADMISSION_MANAGER, "status")
        version = {"resourceVersion": metadata["resourceVersion"]}
        if own is None:
            # A Kueue that merges instead of applying: nobody owns anything by applying.
            await self._client.patch(
                self._workloads,
                metadata["name"],
                {"metadata": version, "status": {"nominatedClusterNames": list(nominees)}},
                namespace=metadata["namespace"],
                subresource="status",
            )
            return
        named = {key: metadata[key] for key in ("name", "namespace", "uid")} | version
        status = own.get("status", {}) | {"nominatedClusterNames": list(nominees)}
        await self._client.apply(
            self._workloads,
            {"metadata": named, "status": status},
            manager=kinds.ADMISSION_MANAGER,
            force=True,
            subresource="status",
        )

    async def tell(self, workload: Object, reason: str, message: str) -> None:
        """Say something about a Workload as an Event; the same only once."""
        metadata = workload["metadata"]
        uid = metadata["uid"]
        if self._told.get((uid, reason)) == message:
            return
        self._told[uid, reason] = message
        digest = hashlib.sha256(f"{uid} {reason} {message}".encode()).hexdigest()[:16]
        now = self._now_text()
        event = {
            "metadata": {
                "name": f"{metadata['name'][:200]}.{digest}",
                "namespace": metadata["namespace"],
            },
            "involvedObject": {
                "apiVersion": self._workloads.api_version,
                "kind": self._workloads.kind,
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": uid,
            },
            "reason": reason,
            "message": message[:_MOST_MESSAGE],
            "type": "Warning",
            "source": {"component": _COMPONENT},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self._client.create(EVENTS, event)
        except KubeExistsError:
            pass
        except KubeError as error:
            _log.warning("an Event about %s could not be written: %s", metadata["name"], error)

    def forget(self, uid: str) -> None:
        """A Workload is no more."""
        for told in [each for each in self._told if each[0] == uid]:
            del self._told[told]
