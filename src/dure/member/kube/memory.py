"""A member's memory in Secrets of its own namespace: shards of gzipped JSON, written with care.

Secrets and not config maps: desired sets hold programs' variables. An entry belongs to the shard
its key hashes to, so that a change rewrites a small part. One member writes at a time; a shard that
changed behind its back is a second writer, which must not be papered over.
"""

import asyncio
import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from dure.domain.errors import DureError
from dure.kube.client import KubeClient
from dure.kube.errors import (
    KubeConflictError,
    KubeExistsError,
    KubeServerError,
    KubeUnreachableError,
)
from dure.kube.labels import PREFIX
from dure.kube.requests import Scope
from dure.kube.resources import SECRETS, Object
from dure.member.kube import names

SHARDS = 32
"""Twenty thousand entries of 2 KB make some 100 KiB a shard, a tenth of what a Secret may hold."""
MOST_BYTES = 1000 * 1024
"""Of a shard; the API takes 1 MiB with everything around it."""
_SHARD = f"{PREFIX}memory-shard"
_MEMORY = f"{PREFIX}memory"
_FIELD = "entries"
_TRIES = 5


class SecretMemory:
    """A mapping of plain data that outlives its member."""

    def __init__(self, client: KubeClient, name: str) -> None:
        self._client = client
        self._name = name
        self._label = names.label_value(name)
        self._entries: list[dict[str, Any]] = [{} for _ in range(SHARDS)]
        self._versions: dict[int, str] = {}
        self._writing = asyncio.Lock()

    async def load(self) -> Mapping[str, Any]:
        """All entries."""
        scope = Scope(self._client.access.namespace, labels=f"{_MEMORY}={self._label}")
        async with self._writing:
            self._entries = [{} for _ in range(SHARDS)]
            self._versions.clear()
            for secret in await self._client.list(SECRETS, scope):
                self._take(secret)
        return {key: value for shard in self._entries for key, value in shard.items()}

    async def save(self, changed: Mapping[str, Any], removed: Sequence[str] = ()) -> None:
        """Store entries; durable when it returns. Raises `KubeConflictError` for a second writer.

        All or nothing for each shard; after an error, save the same again.
        """
        by_shard: dict[int, dict[str, Any]] = {}
        for key in (*changed, *removed):
            by_shard.setdefault(_shard_of(key), {})[key] = changed.get(key, _REMOVED)
        # Who stops waiting does not stop it: a shard that was written but whose version nobody
        # noted would look like that of a second writer for ever.
        await asyncio.shield(asyncio.create_task(self._write_all(by_shard)))

    async def _write_all(self, by_shard: Mapping[int, Mapping[str, Any]]) -> None:
        async with self._writing:
            await asyncio.gather(*(self._write(*shard) for shard in by_shard.items()))

    async def _write(self, shard: int, changes: Mapping[str, Any]) -> None:
        entries = dict(self._entries[shard])
        for key, value in changes.items():
            if value is _REMOVED:
                entries.pop(key, None)
            else:
                entries[key] = value
        if entries == self._entries[shard]:
            return
        secret = self._secret(shard, await asyncio.to_thread(_packed, entries))
        self._versions[shard] = await self._put(shard, secret)
        self._entries[shard] = entries

    async def _put(self, shard: int, secret: Object) -> str:
        """Write a shard over the version that is known; an answer that got lost is looked for."""
        for left in reversed(range(_TRIES)):
            try:
                stored = await self._put_once(shard, secret)
                return str(stored["metadata"]["resourceVersion"])
            except (KubeConflictError, KubeExistsError):
                there = await self._client.get(SECRETS, secret["metadata"]["name"])
                if there.get("data") == secret["data"]:
                    return str(there["metadata"]["resourceVersion"])
                raise
            except (KubeUnreachableError, KubeServerError):
                if not left:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _put_once(self, shard: int, secret: Object) -> Object:
        version = self._versions.get(shard)
        if version is None:
            return await self._client.create(SECRETS, secret)
        secret["metadata"]["resourceVersion"] = version
        return await self._client.replace(SECRETS, secret)

    def _secret(self, shard: int, packed: str) -> Object:
        if len(packed) > MOST_BYTES:
            raise DureError(
                f"a shard of the member's memory has {len(packed)} bytes, more than fit",
                "let fewer jobs be placed in this cluster at once",
            )
        labels = {names.MANAGED_BY: names.MANAGER, _MEMORY: self._label, _SHARD: str(shard)}
        return {
            "metadata": {"name": f"{self._name}-{shard}", "labels": labels},
            "type": "Opaque",
            "data": {_FIELD: packed},
        }

    def _take(self, secret: Object) -> None:
        metadata = secret["metadata"]
        shard = int(metadata["labels"][_SHARD])
        self._versions[shard] = str(metadata["resourceVersion"])
        self._entries[shard] = _unpacked(str((secret.get("data") or {}).get(_FIELD, "")))


_REMOVED = object()


def _shard_of(key: str) -> int:
    return hashlib.sha256(key.encode()).digest()[0] % SHARDS


def _packed(entries: Mapping[str, Any]) -> str:
    """As a Secret's data: base64 of gzip, which a Secret holds as the gzip alone."""
    plain = json.dumps(entries, separators=(",", ":"), sort_keys=True).encode()
    return base64.b64encode(gzip.compress(plain, compresslevel=1, mtime=0)).decode("ascii")


def _unpacked(packed: str) -> dict[str, Any]:
    if not packed:
        return {}
    try:
        entries = json.loads(gzip.decompress(base64.b64decode(packed, validate=True)))
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise DureError(
            f"the member's memory cannot be read ({error})",
            "remove its Secrets: the member learns all but its lead over the centre anew",
        ) from error
    return {**entries}
