"""Follows Pods and nodes of clusters and keeps what is decided there. Reads; never writes there."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from dure.beside import kinds
from dure.beside.shadow.log import ShadowLog
from dure.beside.shadow.reading import expected_pods, node_record, pod_record, slim, workload_record
from dure.beside.shadow.records import NodeRecord, PodRecord, WorkloadRecord
from dure.domain.errors import DureError
from dure.kube.client import KubeClient
from dure.kube.errors import KubeError, KubeForbiddenError, KubeNotFoundError
from dure.kube.informer import Broken, Change, ChangeKind, Informer, without_managed_fields
from dure.kube.requests import Scope
from dure.kube.resources import NODES, PODS, Object, Resource, uid_of

_log = logging.getLogger(__name__)

WRITE_S = 1.0
"""How often what happened is written to the log."""


@dataclass
class _News:
    """What happened since it was last written."""

    nodes: dict[tuple[str, str], NodeRecord] = field(default_factory=dict)
    pods: dict[str, PodRecord] = field(default_factory=dict)
    workloads: dict[tuple[str, str, str], WorkloadRecord] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)


class Watcher:
    """Watches some clusters into one log."""

    def __init__(self, log: ShadowLog, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._log = log
        self._now_ns = now_ns
        self._news = _News()
        self._seen: dict[str, PodRecord] = {}
        """Pods with accelerators that are there, as last understood."""
        self._keeping = threading.Lock()

    async def run(self, clusters: dict[str, KubeClient]) -> None:
        """Watch until cancelled; what happened till then is in the log."""
        self._log.begin(self._now_ns())
        try:
            async with asyncio.TaskGroup() as group:
                for name, client in clusters.items():
                    for resource in (NODES, PODS):
                        group.create_task(self._follow(name, client, resource))
                    group.create_task(self._follow_kueue(name, client))
                group.create_task(self._write())
        finally:
            self._flush()

    async def _follow(self, cluster: str, client: KubeClient, resource: Resource) -> None:
        take = self._node if resource is NODES else self._pod
        trim = without_managed_fields if resource is NODES else slim
        informer = Informer(client, resource, trim=trim)
        async with aclosing(informer.happenings()) as happenings:
            async for happening in happenings:
                match happening:
                    case Change(kind=kind, object=thing):
                        take(cluster, thing, gone=kind is ChangeKind.DELETED)
                    case Broken(error=error):
                        _log.warning("%s of %s: %s", resource.plural, cluster, error)

    async def _follow_kueue(self, cluster: str, client: KubeClient) -> None:
        """Where there is a Kueue, and it may be read."""
        for version in kinds.VERSIONS:
            resource = kinds.workloads(version)
            try:
                async for _ in client.pages(resource, Scope(names_only=True), page_size=1):
                    break
            except (KubeNotFoundError, KubeForbiddenError):
                continue
            except KubeError as error:
                _log.warning("Workloads of %s: %s", cluster, error)
                continue
            _log.info("watches Workloads of Kueue in %s", cluster)
            informer = Informer(client, resource)
            async with aclosing(informer.happenings()) as happenings:
                async for happening in happenings:
                    if isinstance(happening, Change):
                        gone = happening.kind is ChangeKind.DELETED
                        self._workload(cluster, happening.object, gone=gone)
            return

    def _workload(self, cluster: str, workload: Object, *, gone: bool) -> None:
        record = workload_record(cluster, workload)
        self._news.workloads[cluster, record.namespace, record.name] = record
        try:
            pods = expected_pods(cluster, workload, self._now_ns() if gone else None)
        except DureError as error:
            self._news.unread[uid_of(workload)] = str(error)
            return
        self._news.pods |= {pod.uid: pod for pod in pods}

    def _node(self, cluster: str, node: Object, *, gone: bool) -> None:
        try:
            record = node_record(cluster, node, self._now_ns())
        except (DureError, ValueError) as error:  # a label that says what there is not
            _log.warning("%s: %s", cluster, error)
            return
        if record is not None and not gone:
            self._news.nodes[cluster, record.name] = record

    def _pod(self, cluster: str, pod: Object, *, gone: bool) -> None:
        uid = uid_of(pod)
        try:
            record = pod_record(cluster, pod, self._now_ns() if gone else None)
        except DureError as error:
            self._news.unread[uid] = str(error)
            return
        if record is None:
            return
        before = self._seen.get(uid)
        if before is not None and before.ended_ns is not None:
            record = replace(record, ended_ns=before.ended_ns)
        elif record.ended_ns is None and (pod.get("status") or {}).get("phase") in (
            "Succeeded",
            "Failed",
        ):
            record = replace(record, ended_ns=self._now_ns())
        self._news.pods[uid] = record
        if gone:
            self._seen.pop(uid, None)
        else:
            self._seen[uid] = record

    async def _write(self) -> None:
        while True:
            await asyncio.sleep(WRITE_S)
            news, self._news = self._news, _News()
            await asyncio.to_thread(self._keep, news)

    def _flush(self) -> None:
        news, self._news = self._news, _News()
        self._keep(news)

    def _keep(self, news: _News) -> None:
        with self._keeping:  # a write that was under way when watching ended comes first
            self._log.put_nodes(news.nodes.values())
            self._log.put_pods(news.pods.values())
            self._log.put_workloads(news.workloads.values())
            for uid, why in news.unread.items():
                self._log.put_unread(uid, why)
            self._log.tick(self._now_ns())
