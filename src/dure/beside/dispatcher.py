"""The dispatcher of MultiKueue: follows Workloads, has clusters ranked, nominates them in turn."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime

from dure.api.evaluations import GuestCluster, JobEvaluation
from dure.api.jobs import JobSpec
from dure.beside import kinds
from dure.beside.asking import Answers, Batch, Ranker, ask
from dure.beside.desk import Desk, Ranked
from dure.beside.nominating import Nominator
from dure.beside.settings import KueueSettings, tenant_of
from dure.beside.translating import Origin, UntranslatableError, job_of
from dure.beside.workloads import Sight, clusters_by_check, read_sight
from dure.domain.errors import DureError
from dure.kube import labels
from dure.kube.client import KubeClient
from dure.kube.errors import KubeNotFoundError
from dure.kube.informer import Broken, Change, ChangeKind, Informer, Synced
from dure.kube.resources import NAMESPACES, Object, ObjectKey, key_of, uid_of

_log = logging.getLogger(__name__)

TENANT = f"{labels.PREFIX}tenant"
"""Label of a namespace: whose its queues are, where the settings do not say."""
_GATHER_S = 0.2
"""Workloads that come together are weighed together."""
_CLUSTERS_S = 15.0
"""How often the centre is asked which clusters have joined."""
_LOOK_S = 5.0
"""The longest sleep."""
NOT_RANKED = "DureNotRanked"
NO_ROOM = "DureNoRoom"
FALLBACK = "DureFallback"


async def api_version(client: KubeClient) -> str:
    """The newest version of Kueue's API that a cluster has; raises where it has none."""
    for version in kinds.VERSIONS:
        try:
            await client.list(kinds.multikueue_configs(version))
        except KubeNotFoundError:
            continue
        return version
    raise DureError(
        "this cluster has no MultiKueue", "give the kubeconfig of the manager cluster of MultiKueue"
    )


class Dispatcher:
    """Nominates clusters for the Workloads of one manager cluster."""

    def __init__(
        self, client: KubeClient, ranker: Ranker, settings: KueueSettings, version: str
    ) -> None:
        self._ranker = ranker
        self._settings = settings
        self._desk = Desk(settings)
        self._workloads = Informer(client, kinds.workloads(version))
        self._checks = Informer(client, kinds.admission_checks(version))
        self._configs = Informer(client, kinds.multikueue_configs(version))
        self._namespaces = Informer(client, NAMESPACES)
        self._nominator = Nominator(client, kinds.workloads(version), _now_text)
        self._woken = asyncio.Event()
        self._synced: set[str] = set()
        self._joined: frozenset[str] = frozenset()
        self._joined_s: float | None = None
        self.guests: Callable[[], Sequence[GuestCluster]] = tuple
        """Clusters without a member that may be ranked, too."""

    async def run(self) -> None:
        """Dispatch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in (self._workloads, self._checks, self._configs, self._namespaces):
                group.create_task(self._follow(informer))
            group.create_task(self._dispatch())

    # --- what happens in the cluster -------------------------------------------------------

    async def _follow(self, informer: Informer) -> None:
        async with aclosing(informer.happenings()) as happenings:
            async for happening in happenings:
                match happening:
                    case Synced():
                        self._synced.add(informer.resource.kind)
                    case Broken(error=error):
                        _log.warning("%s cannot be followed: %s", informer.resource.plural, error)
                        continue
                    case Change(kind=ChangeKind.DELETED, object=gone):
                        if informer is self._workloads:
                            self._desk.gone(key_of(gone))
                            self._nominator.forget(uid_of(gone))
                self._woken.set()

    def _clusters(self) -> dict[str, tuple[str, ...]]:
        only = self._settings.admission_checks
        return clusters_by_check(
            self._checks.objects,
            self._configs.objects,
            None if only is None else frozenset(only),
        )

    # --- the loop --------------------------------------------------------------------------

    async def _dispatch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if len(self._synced) == 4:
                await self.once(loop.time())
            due_s = self._desk.next_s()
            wait_s = _LOOK_S if due_s is None else max(0.05, min(_LOOK_S, due_s - loop.time()))
            try:
                async with asyncio.timeout(wait_s):
                    await self._woken.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(_GATHER_S)
            self._woken.clear()

    async def once(self, now_s: float) -> None:
        """Look at everybody, and nominate for those who are due."""
        clusters = self._clusters()
        ours = frozenset(clusters)
        for workload in list(self._workloads.objects.values()):
            self._desk.see(read_sight(workload, ours), now_s)
        due = self._desk.due(now_s)
        if not due:
            return
        try:
            await self._know_clusters(now_s)
            jobs = await self._translated(due, clusters, now_s)
            answers = await ask(self._ranker, self._batch(jobs, now_s))
        except DureError as error:
            _log.warning("clusters cannot be ranked: %s", error)
            await self._fall_back(due, clusters, now_s, error)
            return
        for key in jobs:
            await self._take(key, answers, clusters, now_s)

    async def _know_clusters(self, now_s: float) -> None:
        if self._joined_s is None or now_s >= self._joined_s + _CLUSTERS_S:
            found = await self._ranker.clusters()
            self._joined = frozenset(each.name for each in found)
            self._joined_s = now_s

    # --- jobs ------------------------------------------------------------------------------

    async def _translated(
        self, due: Sequence[Sight], clusters: Mapping[str, Sequence[str]], now_s: float
    ) -> dict[ObjectKey, JobSpec]:
        """Jobs of those who can be ranked; the others are told why not."""
        jobs = {}
        for sight in due:
            workload = self._workloads.objects.get(sight.key)
            if workload is None:
                continue
            try:
                jobs[sight.key] = self._job(workload, clusters.get(sight.check, ()))
            except DureError as error:
                self._desk.unasked(sight.key, now_s)
                await self._nominator.tell(workload, NOT_RANKED, str(error))
        return jobs

    def _job(self, workload: Object, names: Sequence[str]) -> JobSpec:
        spec, key = workload["spec"], key_of(workload)
        queue = str(spec.get("queueName", ""))
        space = self._namespaces.objects.get(ObjectKey("", key.namespace), {"metadata": {}})
        labelled = (space["metadata"].get("labels") or {}).get(TENANT, "")
        tenant = tenant_of(self._settings, key.namespace, queue, labelled)
        if not tenant:
            raise UntranslatableError(
                f"nobody says whose queue {key.namespace}/{queue} is",
                f"name it in the settings, or label namespace {key.namespace} with {TENANT}",
            )
        known = self._joined | {guest.name for guest in self.guests()}
        usable = [self._ours(name) for name in names if self._ours(name) in known]
        if not usable:
            raise UntranslatableError(
                "none of the clusters of its MultiKueueConfig is known to the centre",
                "join them, or name them in the settings' clusters",
            )
        longest = spec.get("maximumExecutionTimeSeconds")
        origin = Origin(
            name=key.name,
            tenant=tenant,
            priority=self._priority(spec),
            clusters=tuple(sorted(set(usable))),
            longest_s=None if longest is None else int(longest),
        )
        return job_of([(int(each["count"]), each["template"]) for each in spec["podSets"]], origin)

    def _priority(self, spec: Object) -> int:
        named = (spec.get("priorityClassRef") or {}).get("name") or spec.get("priorityClassName")
        stated = self._settings.priorities.get(named or "")
        return int(spec.get("priority") or 0) if stated is None else stated

    def _ours(self, name: str) -> str:
        """Dure's name of a cluster of MultiKueue's."""
        return self._settings.clusters.get(name, name)

    def _batch(self, jobs: Mapping[ObjectKey, JobSpec], now_s: float) -> Batch:
        assuming = []
        for key, cluster in self._desk.assumed(jobs, now_s):
            workload = self._workloads.objects.get(key)
            if workload is None:
                continue
            try:
                assuming.append((self._job(workload, (cluster,)), self._ours(cluster)))
            except DureError:
                continue  # told when it was to be ranked
        return Batch(jobs, assuming, self.guests())

    # --- nominations -----------------------------------------------------------------------

    async def _take(
        self,
        key: ObjectKey,
        answers: Answers,
        clusters: Mapping[str, Sequence[str]],
        now_s: float,
    ) -> None:
        workload = self._workloads.objects.get(key)
        if workload is None:
            return
        if key in answers.refused:
            self._desk.unasked(key, now_s)
            await self._nominator.tell(workload, NOT_RANKED, answers.refused[key])
            return
        said = answers.found.get(key)
        if said is None:
            return  # more than are asked about at once: the rest is due in the next round
        sight = read_sight(workload, frozenset(clusters))
        ranking = self._ranking(said, clusters.get(sight.check, ()))
        nominees = self._desk.rank(key, ranking, now_s)
        if nominees:
            await self._nominate(key, nominees, frozenset(clusters), now_s)
        elif not sight.nominated:
            why = said.reason or "; ".join(f"{no.cluster}: {no.why}" for no in said.refusals)
            await self._nominator.tell(workload, NO_ROOM, why or "no cluster could take it")

    def _ranking(self, said: JobEvaluation, names: Sequence[str]) -> list[Ranked]:
        """The centre's ranking by MultiKueue's names."""
        theirs = {self._ours(name): name for name in names}
        return [
            Ranked(theirs[option.cluster], option.has_room)
            for option in said.options
            if option.cluster in theirs
        ]

    async def _nominate(
        self, key: ObjectKey, nominees: tuple[str, ...], ours: frozenset[str], now_s: float
    ) -> None:
        try:
            done = await self._nominator.nominate(key, nominees, ours)
        except DureError as error:
            _log.warning("%s/%s cannot be nominated: %s", key.namespace, key.name, error)
            return
        if done:
            self._desk.nominated(key, nominees, now_s)

    async def _fall_back(
        self,
        due: Sequence[Sight],
        clusters: Mapping[str, Sequence[str]],
        now_s: float,
        error: DureError,
    ) -> None:
        """Nobody waits because the centre is away: after a while, as the administrator listed."""
        for sight in due:
            workload = self._workloads.objects.get(sight.key)
            self._desk.unasked(sight.key, now_s)
            waited_s = self._desk.waited_s(sight.key, now_s)
            names = tuple(clusters.get(sight.check, ()))[: self._settings.nominees]
            if workload is None or sight.nominated or not names:
                continue
            if waited_s >= self._desk.times.fallback_s:
                await self._nominator.tell(workload, FALLBACK, f"nominated unranked: {error}")
                await self._nominate(sight.key, names, frozenset(clusters), now_s)


def _now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
