"""Why a cluster can never run something: what it names is not there, or a rule forbids it."""

import hashlib
import json
import time
from dataclasses import dataclass, field

from dure.domain.fleet.programs import Thing, ThingKind
from dure.domain.fleet.protocol.desired import Desired
from dure.kube.client import KubeClient
from dure.kube.errors import KubeForbiddenError, KubeInvalidError, KubeNotFoundError
from dure.kube.requests import Scope
from dure.kube.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    VOLUME_CLAIMS,
    Object,
    Resource,
)
from dure.member.kube import names
from dure.member.kube.board import Board
from dure.member.kube.pods import trial_pod

_KINDS: dict[str, tuple[Resource, str]] = {
    ThingKind.SECRET.value: (SECRETS, "secret"),
    ThingKind.CONFIG_MAP.value: (CONFIG_MAPS, "config map"),
    ThingKind.VOLUME.value: (VOLUME_CLAIMS, "volume claim"),
}


_FRESH_S = 30.0
"""How long a cluster's approval counts for others that ask for the same."""
_MOST_KEPT = 4096


@dataclass
class Judge:
    """Asks a cluster whether something could run in it."""

    client: KubeClient
    _approved: dict[str, float] = field(default_factory=dict)
    """Specs that the cluster's rules let through, and when."""

    async def refusal(self, board: Board, desired: Desired) -> str:
        """Why an attempt cannot run here; empty: it can, as far as its cluster says."""
        program, namespace = desired.program, desired.namespace
        if not program.image:
            return "it names no image; only clusters of kind 'process' run commands of the host"
        if namespace not in board.namespaces and await self._no_namespace(namespace):
            return f"there is no namespace {namespace}"
        for thing in sorted(program.things):
            if await self._is_missing(board, desired, thing):
                called = _KINDS[thing.kind][1] if thing.kind in _KINDS else thing.kind
                return f"there is no {called} {thing.name} in {namespace}"
        account = program.service_account
        if account and await self._is_absent(SERVICE_ACCOUNTS, account, namespace):
            return f"there is no service account {account} in {namespace}"
        return await self._tried(board, desired)

    async def _no_namespace(self, namespace: str) -> bool:
        try:
            await self.client.get(NAMESPACES, namespace)
        except KubeNotFoundError:
            return True
        return False

    async def _is_missing(self, board: Board, desired: Desired, thing: Thing) -> bool:
        """Whether a thing is not there: by what is watched, asked again where that says so."""
        tenant = desired.order.workload.tenant
        if thing.kind not in _KINDS:
            return True
        if thing.name in board.things.get((tenant, thing.kind), frozenset()):
            return False
        return await self._is_absent(_KINDS[thing.kind][0], thing.name, desired.namespace)

    async def _is_absent(self, resource: Resource, name: str, namespace: str) -> bool:
        """Whether there is no such object; where that may not be asked, its Pod will tell."""
        scope = Scope(namespace, fields=f"metadata.name={name}", names_only=True)
        try:
            return not await self.client.list(resource, scope)
        except KubeForbiddenError:
            return False

    async def _tried(self, board: Board, desired: Desired) -> str:
        """What the rules say to a Pod that is not really made: limits, quotas, security."""
        trial = trial_pod(desired, board.settings)
        digest = _digest(trial)
        now_s = time.monotonic()
        if now_s - self._approved.get(digest, -_FRESH_S) < _FRESH_S:
            return ""
        try:
            await self.client.create(PODS, trial, dry_run=True)
        except (KubeForbiddenError, KubeInvalidError, KubeNotFoundError) as error:
            return error.what.partition(": ")[2] or error.what
        if len(self._approved) >= _MOST_KEPT:
            self._approved.clear()
        self._approved[digest] = now_s
        return ""


def _digest(trial: Object) -> str:
    """What the rules judge: all but whose it is."""
    metadata, spec = trial["metadata"], trial["spec"]
    labels = {key: value for key, value in metadata["labels"].items() if key not in _OWN_LABELS}
    containers = [
        {**one, "env": [each for each in one.get("env") or () if each["name"] not in _OWN_NAMES]}
        for one in spec["containers"]
    ]
    judged = (
        metadata["namespace"],
        labels,
        metadata["annotations"],
        spec | {"containers": containers},
    )
    return hashlib.sha256(json.dumps(judged, sort_keys=True).encode()).hexdigest()


_OWN_LABELS = (names.JOB, names.ATTEMPT)
_OWN_NAMES = ("DURE_JOB", "DURE_ATTEMPT")
