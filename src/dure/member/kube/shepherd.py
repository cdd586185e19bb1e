"""Brings Pods to their nodes within a time, gangs whole or not at all, and takes the rest back.

Everything is read from the objects themselves, so another member goes on where one died.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dure.kube.errors import KubeError, KubeExistsError
from dure.kube.resources import (
    CONFIG_MAPS,
    JOBS,
    PODS,
    RESOURCE_CLAIMS,
    Object,
    ObjectKey,
    Resource,
    key_of,
    uid_of,
)
from dure.member.kube import gangs, names
from dure.member.kube.board import Board
from dure.member.kube.claims import allocated
from dure.member.kube.hands import Hands
from dure.member.kube.instances import Carried, TakenBack, note_of
from dure.member.kube.lives import is_bound, stuck_why, unbound_why
from dure.member.ports import Life

log = logging.getLogger(__name__)

LOOK_S = 0.25
"""How often it looks."""
EPSILON_S = 5.0
"""After the time to bind is over, partly bound gangs are gone from their nodes this much later:
one look, two requests for each object, and a second of grace on the node."""
_ORPHAN_S = 300.0
"""A claim whose Pod was never made is removed after this."""


@dataclass
class Shepherd:
    """Looks after what was made."""

    board: Board
    hands: Hands
    _since: dict[tuple[str, str], float] = field(default_factory=dict)
    """When a state of an object was first seen, on our own clock."""
    _busy: set[str] = field(default_factory=set)
    """Objects with a request under way."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        """Look again and again; ends when it is cancelled."""
        try:
            while True:
                self.look()
                await asyncio.sleep(LOOK_S)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def look(self) -> None:
        """Start whatever is due; none waits for another."""
        seen: set[tuple[str, str]] = set()
        for job in list(self.board.instances.jobs.values()):
            if not gangs.finished(job) and not _is_ending(job):
                self._gang(job, seen)
        for carried in list(self.board.instances.carried.values()):
            if carried.pod is not None and not _is_ending(carried.pod):
                self._single(carried, carried.pod, seen)
        for claim in list(self.board.claims.values()):
            self._orphan(claim, seen)
        for state in [state for state in self._since if state not in seen]:
            del self._since[state]

    # Gangs

    def _gang(self, job: Object, seen: set[tuple[str, str]]) -> None:
        annotations = job["metadata"]["annotations"]
        pods = self.board.instances.gang_pods(job)
        there = [pod for pod in pods if pod is not None]
        if names.BOUND in annotations:
            return
        whole = len(there) == len(pods) and not any(map(_is_ending, there))
        if whole and all(map(is_bound, there)):
            self._begin(uid_of(job), self._open_barrier(job))
            return
        ungated = annotations.get(names.UNGATED_AT)
        limit_s = self.board.settings.bind_within_s
        if self._lasts_s(uid_of(job), "binding", seen, ungated) > limit_s:
            why = _gang_why(pods, limit_s)
            things: list[tuple[Resource, Object]] = [(JOBS, job), *((PODS, pod) for pod in there)]
            self._begin(uid_of(job), self.hands.take_back(things, TakenBack(Life.UNBOUND, why)))
        elif whole and any(map(gangs.is_gated, there)):
            self._begin(uid_of(job), self._let_go(job, there))

    async def _let_go(self, job: Object, pods: Sequence[Object]) -> None:
        """Give every rank its node; the time runs from before the first."""
        note = note_of(job)
        if note is None:
            return
        if names.UNGATED_AT not in job["metadata"]["annotations"]:
            since = {"metadata": {"annotations": {names.UNGATED_AT: f"{time.time():.3f}"}}}
            if not await self.hands.change(JOBS, job, since):
                return
        gated = [pod for pod in pods if gangs.is_gated(pod)]
        ranks = [gangs.rank_of(pod) or 0 for pod in gated]
        changes = [
            gangs.placed_patch(pod, note.spots[rank].node)
            for pod, rank in zip(gated, ranks, strict=True)
        ]
        await self.hands.all_of(
            partial(self.hands.change, PODS, pod, change)
            for pod, change in zip(gated, changes, strict=True)
        )

    async def _open_barrier(self, job: Object) -> None:
        """All ranks are bound: let them start."""
        note = note_of(job)
        if note is None:
            return
        try:
            await self.hands.client.create(CONFIG_MAPS, gangs.barrier_of(job, note))
        except KubeExistsError:
            log.debug("the barrier of %s is open already", key_of(job))
        await self.hands.change(JOBS, job, {"metadata": {"annotations": {names.BOUND: "true"}}})

    # Pods

    def _single(self, carried: Carried, pod: Object, seen: set[tuple[str, str]]) -> None:
        settings, uid = self.board.settings, uid_of(pod)
        things: list[tuple[Resource, Object]] = [(PODS, pod)]
        if carried.job is not None:
            things.insert(0, (JOBS, carried.job))
        wrong = self._wrong_device(carried, pod)
        if wrong:
            self._begin(uid, self.hands.take_back(things, TakenBack(Life.FAILED, wrong)))
        elif not is_bound(pod) and carried.job is None:
            if self._lasts_s(uid, "unbound", seen) > settings.bind_within_s:
                end = TakenBack(Life.UNBOUND, unbound_why(pod))
                self._begin(uid, self.hands.take_back(things, end))
        else:
            why = stuck_why(pod)
            if why and self._lasts_s(uid, "stuck", seen) > settings.start_within_s:
                self._begin(uid, self.hands.take_back(things, TakenBack(Life.FAILED, why)))

    def _wrong_device(self, carried: Carried, pod: Object) -> str:
        """Why what a driver gave is not what was chosen; empty: it is, or nothing was given yet."""
        if not carried.devices:
            return ""
        wanted = set(carried.devices)
        if carried.job is not None:  # ranks of one node may swap among themselves
            wanted = self._gang_devices(carried)
        for claim in self._claims_of(pod):
            given = allocated(claim)
            if given and not (set(given) <= wanted and len(given) == len(carried.devices)):
                return f"the driver gave {', '.join(given)}, not {', '.join(carried.devices)}"
        return ""

    def _gang_devices(self, carried: Carried) -> set[str]:
        note = note_of(carried.job) if carried.job else None
        if note is None:
            return set(carried.devices)
        return {
            name
            for spot, devices in zip(note.spots, note.devices, strict=True)
            if spot.node == carried.spot.node
            for name in devices
        }

    def _claims_of(self, pod: Object) -> Iterator[Object]:
        namespace = pod["metadata"]["namespace"]
        made = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
        given = {one["name"]: one.get("resourceClaimName") for one in made}
        for use in pod["spec"].get("resourceClaims") or ():
            name = use.get("resourceClaimName") or given.get(use["name"])
            claim = self.board.claims.get(ObjectKey(namespace, name)) if name else None
            if claim is not None:
                yield claim

    def _orphan(self, claim: Object, seen: set[tuple[str, str]]) -> None:
        if claim["metadata"].get("ownerReferences") or _is_ending(claim):
            return
        if (claim.get("status") or {}).get("reservedFor"):
            return
        if self._lasts_s(uid_of(claim), "orphan", seen) > _ORPHAN_S:
            self._begin(uid_of(claim), self.hands.remove(RESOURCE_CLAIMS, claim))

    # Time and tasks

    def _lasts_s(
        self, uid: str, state: str, seen: set[tuple[str, str]], noted: str | None = None
    ) -> float:
        """How long a state has lasted by our clock; from earlier where an object notes that."""
        seen.add((uid, state))
        now_s = time.monotonic()
        began_s = self._since.setdefault((uid, state), now_s)
        if noted is None:
            return now_s - began_s
        limit_s = self.board.settings.bind_within_s
        before_s = max(0.0, min(limit_s, time.time() - float(noted)))
        marked = (uid, f"{state} since {noted}")
        seen.add(marked)
        return now_s - self._since.setdefault(marked, now_s - before_s)

    def _begin(self, uid: str, work: Coroutine[Any, Any, None]) -> None:
        """Do something for an object, once at a time; what fails is done again at the next look."""
        if uid in self._busy:
            work.close()
            return
        self._busy.add(uid)
        task = asyncio.create_task(self._do(uid, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _do(self, uid: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except KubeError as error:
            log.warning("%s, trying again", error)
        finally:
            self._busy.discard(uid)


def _is_ending(thing: Object) -> bool:
    return bool(thing["metadata"].get("deletionTimestamp"))


def _gang_why(pods: Sequence[Object | None], limit_s: float) -> str:
    """Which of a gang's Pods could not be bound, in the scheduler's words."""
    missing = sum(pod is None for pod in pods)
    unbound = [pod for pod in pods if pod is not None and not is_bound(pod)]
    if missing:
        what = f"{missing} of {len(pods)} Pods were not made"
    else:
        said = unbound_why(unbound[0]) if unbound else "a Pod was ended"
        what = f"{len(unbound)} of {len(pods)} Pods were not bound ({said})"
    return f"{what} within {limit_s:g} s"
