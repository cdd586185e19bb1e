"""Makes and removes the objects of instances. Names are fixed, so everything may be asked twice."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from dure.domain.errors import DureError
from dure.domain.fleet.decisions import InstanceId
from dure.kit.backoff import Backoff
from dure.kube.client import KubeClient
from dure.kube.errors import (
    KubeConflictError,
    KubeExistsError,
    KubeForbiddenError,
    KubeNotFoundError,
    KubeServerError,
    KubeUnreachableError,
)
from dure.kube.requests import Preconditions, Scope
from dure.kube.resources import (
    JOBS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    SERVICES,
    Object,
    Resource,
    uid_of,
)
from dure.member.kube import gangs, names
from dure.member.kube.claims import claim_spec, gang_claim_spec
from dure.member.kube.instances import Carried, TakenBack, note_of
from dure.member.kube.lives import pod_life
from dure.member.kube.pods import Unit, pod_of, trial_pod, whole_seconds
from dure.member.kube.settings import KubeSettings
from dure.member.ports import Life

log = logging.getLogger(__name__)

_CREATE_TRIES = 4
"""How often an object is created again where the answer got lost."""


class BusyError(DureError):
    """An old object of that name has yet to go."""


@dataclass(frozen=True)
class Hands:
    """Writes to one cluster."""

    client: KubeClient
    settings: KubeSettings

    # Making

    async def make_pod(self, unit: Unit) -> None:
        """The Pod of an instance, and its claim; raises `BusyError` while an old one is there."""
        wanted = pod_of(unit, self.settings)
        if unit.offers:
            await self._make_claim(unit)
        made = await self._make(PODS, wanted)
        if made is None:
            await self._settle_pod(wanted)
        elif unit.offers:
            await self._hand_over(unit, made)

    async def make_gang(self, units: Sequence[Unit]) -> None:
        """The Job of a gang and what it needs; its Pods are let go by the shepherd."""
        first = units[0]
        if len({(unit.resource, len(unit.spot.devices)) for unit in units}) > 1:
            raise DureError(
                f"the ranks of {first.instance.workload} differ in their devices",
                "place all workers of a gang on equal slices",
            )
        wanted = gangs.job_of(units, self.settings)
        if not await self._is_there(JOBS, wanted):
            await self._try_pod(wanted["spec"]["template"], first)
        job = await self._make(JOBS, wanted) or await self._settle_job(wanted)
        if job is None:
            return
        await self._make(SERVICES, gangs.service_of(job))
        if first.offers:
            spec = gang_claim_spec([unit.offers for unit in units], self.settings.device_class)
            await self._make(RESOURCE_CLAIM_TEMPLATES, gangs.claim_template_of(job, spec))
        await self.change(JOBS, job, {"spec": {"suspend": False}})

    async def _try_pod(self, template: Object, unit: Unit) -> None:
        """Have the cluster's rules judge a Pod: quotas, limits, security, service account."""
        trial = trial_pod(unit.desired, self.settings)
        trial["spec"] = template["spec"]
        await self.client.create(PODS, trial, dry_run=True)

    async def _make(self, resource: Resource, wanted: Object) -> Object | None:
        """Create an object; None where one of that name is there."""
        waits = Backoff(limit_s=2.0, chance=self.client.chance)
        for left in reversed(range(_CREATE_TRIES)):
            try:
                return await self.client.create(resource, wanted)
            except KubeExistsError:
                return None
            except KubeForbiddenError:
                # Quotas are looked at before names: what is there already may seem too much.
                if not await self._is_there(resource, wanted):
                    raise
                return None
            except (KubeUnreachableError, KubeServerError):
                if not left:
                    raise
            await asyncio.sleep(waits.next_s())
        raise AssertionError("the last attempt returns or raises")

    async def _is_there(self, resource: Resource, wanted: Object) -> bool:
        metadata = wanted["metadata"]
        try:
            await self.client.get(resource, metadata["name"], metadata["namespace"])
        except (KubeNotFoundError, KubeForbiddenError):
            return False
        return True

    async def _settle_pod(self, wanted: Object) -> None:
        """Decide what a Pod that is there already means for the one that is wanted."""
        old = await self._existing(PODS, wanted)
        note = note_of(wanted)
        assert note is not None
        life = pod_life(old, note.desired.order.workload.kind).life
        if _is_ending(old):
            raise BusyError(f"the old Pod {old['metadata']['name']} still ends")
        if life is Life.SUCCEEDED or (not life.over and note_of(old) == note):
            return
        if not life.over:
            raise DureError(
                f"{old['metadata']['name']} runs already, at {old['spec'].get('nodeName')}",
                "stop it first",
            )
        await self.remove(PODS, old)
        raise BusyError(f"the old Pod {old['metadata']['name']} has yet to go")

    async def _settle_job(self, wanted: Object) -> Object | None:
        old = await self._existing(JOBS, wanted)
        over = gangs.finished(old)
        if _is_ending(old):
            raise BusyError(f"the old Job {old['metadata']['name']} still ends")
        if over == "Complete":
            return None
        if not over and note_of(old) == note_of(wanted):
            return old
        if not over:
            raise DureError(f"{old['metadata']['name']} runs already elsewhere", "stop it first")
        await self.remove(JOBS, old)
        raise BusyError(f"the old Job {old['metadata']['name']} has yet to go")

    async def _existing(self, resource: Resource, wanted: Object) -> Object:
        metadata = wanted["metadata"]
        try:
            old = await self.client.get(resource, metadata["name"], metadata["namespace"])
        except KubeNotFoundError as error:
            raise BusyError(f"{metadata['name']} has just gone") from error
        if not names.is_ours(old["metadata"].get("labels") or {}):
            raise DureError(
                f"{metadata['namespace']}/{metadata['name']} is not Dure's", "rename or remove it"
            )
        return old

    async def _make_claim(self, unit: Unit) -> None:
        key = unit.desired.key
        labels = names.attempt_labels(key.job, key.attempt)
        labels[names.INDEX] = str(unit.instance.index)
        wanted = {
            "metadata": {
                "name": unit.claim_name,
                "namespace": unit.desired.namespace,
                "labels": labels,
            },
            "spec": claim_spec(unit.offers, self.settings.device_class),
        }
        if await self._make(RESOURCE_CLAIMS, wanted) is None:
            old = await self._existing(RESOURCE_CLAIMS, wanted)
            if _is_ending(old):
                raise BusyError(f"the old claim {old['metadata']['name']} still ends")

    async def _hand_over(self, unit: Unit, pod: Object) -> None:
        """Let the claim go with its Pod, also where nobody of ours is there to remove it."""
        owner = {"apiVersion": "v1", "kind": "Pod", "name": unit.name, "uid": uid_of(pod)}
        change = {"metadata": {"ownerReferences": [owner]}}
        await self.client.patch(
            RESOURCE_CLAIMS, unit.claim_name, change, namespace=unit.desired.namespace
        )

    # Changing and removing

    async def change(self, resource: Resource, thing: Object, changes: Object) -> bool:
        """Patch an object; false where it is gone or no longer what was seen."""
        metadata = thing["metadata"]
        try:
            await self.client.patch(
                resource, metadata["name"], changes, namespace=metadata["namespace"]
            )
        except (KubeNotFoundError, KubeConflictError):
            return False
        return True

    async def remove(self, resource: Resource, thing: Object, grace_s: float | None = None) -> None:
        """Ask for the end of exactly this object; nothing where it is gone."""
        metadata = thing["metadata"]
        try:
            await self.client.delete(
                resource,
                metadata["name"],
                namespace=metadata["namespace"],
                only=Preconditions(uid=uid_of(thing)),
                grace_s=None if grace_s is None else whole_seconds(grace_s),
            )
        except (KubeNotFoundError, KubeConflictError):
            log.debug("%s %s is gone already", resource.kind, metadata["name"])

    async def take_back(self, things: Sequence[tuple[Resource, Object]], end: TakenBack) -> None:
        """Note on the first object how it is to be told, then remove all of them at once."""
        resource, first = things[0]
        note = {"metadata": {"annotations": {names.TAKEN_BACK: str(end)}}}
        await self.change(resource, first, note)
        await self.all_of(partial(self.remove, kind, thing, 1.0) for kind, thing in things)

    async def find(self, instance: InstanceId) -> list[tuple[Resource, Object]]:
        """Objects of an instance, asked of the cluster; a gang's Job before its Pods."""
        scope = Scope(labels=names.selector(instance))
        found: list[tuple[Resource, Object]] = []
        for resource in (JOBS, PODS):
            for thing in await self.client.list(resource, scope):
                note = note_of(thing)
                if note is not None and instance in note.instances:
                    rank = gangs.rank_of(thing) if resource is PODS else None
                    if rank is None or note.instances[rank] == instance:
                        found.append((resource, thing))
        return found

    async def end(self, carried: Carried, grace_s: float) -> None:
        """Stop an instance; of a gang that cannot shrink by it, the whole gang."""
        job = carried.job
        if job is not None and not gangs.finished(job):
            if await self._shrink(carried, job):
                return
            await self.remove(JOBS, job)
        await self.all_of(partial(self.remove, PODS, pod, grace_s) for pod in carried.pods.values())

    async def _shrink(self, carried: Carried, job: Object) -> bool:
        """Give up the last rank of an elastic gang; false where that is not what is asked."""
        note = note_of(job)
        count = int(job["spec"]["completions"])
        if note is None:
            return False
        gang = note.desired.order.workload.gang
        if gang.most_workers is None or count <= gang.workers:
            return False
        if note.instances[count - 1] != carried.instance:
            return False
        less = {"completions": count - 1, "parallelism": count - 1}
        return await self.change(JOBS, job, {"spec": less})

    async def all_of(self, requests: Iterable[Callable[[], Awaitable[object]]]) -> None:
        """Make several requests, some at a time; the first error after all were tried."""
        places = asyncio.Semaphore(self.settings.concurrency)

        async def one(request: Callable[[], Awaitable[object]]) -> None:
            async with places:
                await request()

        done = await asyncio.gather(*map(one, requests), return_exceptions=True)
        for result in done:
            if isinstance(result, BaseException):
                raise result


def _is_ending(thing: Object) -> bool:
    return bool(thing["metadata"].get("deletionTimestamp"))
