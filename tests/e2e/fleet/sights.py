"""What is really there in clusters, watched all the time by nobody of Dure's own."""

import json
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import httpx

from tests.kube.cluster import KubeCluster

Key = tuple[str, int]
"""Job and attempt."""

LAG_S = 2.0
"""Two clusters are not seen at the same instant: a shorter overlap may be one of the looks."""
_LABELS = "dure.io/managed-by=dure"
_WATCH_S = 20
_POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class Sight:
    """One Pod or program that is there and has not ended."""

    key: Key
    index: str
    running: bool


class Scene:
    """All sights of one cluster, as far as it can be seen."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = Lock()
        self._sights: dict[str, Sight] = {}
        self.clear = False
        """Whether it is seen as it is now."""

    def show(self, sights: Mapping[str, Sight]) -> None:
        """All that is there now."""
        with self._lock:
            self._sights = dict(sights)
        self.clear = True

    def change(self, name: str, sight: Sight | None) -> None:
        """One thing changed, or went."""
        with self._lock:
            if sight is None:
                self._sights.pop(name, None)
            else:
                self._sights[name] = sight

    def sights(self) -> tuple[Sight, ...]:
        """What is there."""
        with self._lock:
            return tuple(self._sights.values())


class PodWatch:
    """Watches the Pods of a Kubernetes, with a new list whenever the watch breaks."""

    def __init__(self, name: str, cluster: KubeCluster) -> None:
        self.scene = Scene(name)
        self._cluster = cluster
        self._end = Event()
        trust = ssl.create_default_context(cafile=str(cluster.ca_file))
        headers = {"authorization": f"Bearer {cluster.token}"}
        timeout = httpx.Timeout(5.0, read=_WATCH_S + 5.0)
        self._http = httpx.Client(verify=trust, headers=headers, timeout=timeout)
        self._thread = Thread(target=self._run, name=f"watch {name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.is_set():
            try:
                sights, version = self._list()
                self.scene.show(sights)
                self._follow(version)
            except (httpx.HTTPError, ValueError):
                self.scene.clear = False
                self._end.wait(_POLL_S)

    def _list(self) -> tuple[dict[str, Sight], str]:
        params = {"labelSelector": _LABELS}
        response = self._http.get(f"{self._cluster.url}/api/v1/pods", params=params)
        response.raise_for_status()
        found = response.json()
        sights = {pod["metadata"]["uid"]: _sight(pod) for pod in found["items"]}
        there = {name: sight for name, sight in sights.items() if sight is not None}
        return there, str(found["metadata"]["resourceVersion"])

    def _follow(self, version: str) -> None:
        params = {
            "labelSelector": _LABELS,
            "watch": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(_WATCH_S),
        }
        url = f"{self._cluster.url}/api/v1/pods"
        with self._http.stream("GET", url, params=params) as stream:
            stream.raise_for_status()
            for line in stream.iter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR" or self._end.is_set():
                    return
                pod = event["object"]
                gone = event["type"] == "DELETED"
                self.scene.change(pod["metadata"]["uid"], None if gone else _sight(pod))

    def now(self) -> tuple[Sight, ...] | None:
        """What is there now, by a list of its own; None where nobody answers."""
        try:
            return tuple(self._list()[0].values())
        except (httpx.HTTPError, ValueError):
            return None

    def close(self) -> None:
        """Watch no more."""
        self._end.set()
        self._http.close()
        self._thread.join(_WATCH_S)


def _sight(pod: Mapping[str, Any]) -> Sight | None:
    phase = pod.get("status", {}).get("phase", "Pending")
    if phase in ("Succeeded", "Failed"):
        return None
    labels = pod["metadata"]["labels"]
    key = labels["dure.io/job"], int(labels["dure.io/attempt"])
    return Sight(key, pod["metadata"]["name"], phase == "Running")


class FolderWatch:
    """Looks at the programs of a cluster of processes."""

    def __init__(self, name: str, state: Path) -> None:
        self.scene = Scene(name)
        self._root = state / "instances"
        self._ended: set[str] = set()
        self._end = Event()
        self._thread = Thread(target=self._run, name=f"watch {name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(_POLL_S):
            self.now()

    def now(self) -> tuple[Sight, ...] | None:
        """What is there now."""
        folders = list(self._root.iterdir()) if self._root.exists() else []
        sights = {}
        for folder in folders:
            if folder.name.startswith(".") or folder.name in self._ended:
                continue
            if (folder / "exit.json").exists():
                self._ended.add(folder.name)
                continue
            job, attempt, index = folder.name.rsplit(".", 2)
            running = (folder / "running.json").exists()
            sights[folder.name] = Sight((job, int(attempt)), index, running)
        self.scene.show(sights)
        return tuple(sights.values())

    def close(self) -> None:
        """Look no more."""
        self._end.set()
        self._thread.join(5.0)


@dataclass
class Witness:
    """Sees whether two attempts of one job ever run at the same time."""

    scenes: tuple[Scene, ...]
    exclusive: set[str] = field(default_factory=set)
    """Jobs that must never run twice at once."""
    lag_s: float = LAG_S
    _since: dict[str, tuple[float, frozenset[Key]]] = field(default_factory=dict)
    doubled: dict[str, str] = field(default_factory=dict)
    """Jobs that did, and how."""
    longest_s: float = 0.0
    """Of overlaps that are within the lag of looking."""

    def look(self) -> None:
        """Compare all clusters that can be seen."""
        now_s = time.monotonic()
        running = _running(scene for scene in self.scenes if scene.clear)
        for job, keys in running.items():
            if len(keys) < 2 or job not in self.exclusive:
                self._since.pop(job, None)
                continue
            since_s, before = self._since.get(job, (now_s, keys))
            self._since[job] = (since_s if before == keys else now_s, keys)
            self.longest_s = max(self.longest_s, now_s - since_s)
            if now_s - since_s > self.lag_s:
                self.doubled[job] = (
                    f"attempts {sorted(key[1] for key in keys)} for over {self.lag_s} s"
                )
        for job in self._since.keys() - running.keys():
            del self._since[job]


def _running(scenes: Iterable[Scene]) -> dict[str, frozenset[Key]]:
    found: dict[str, set[Key]] = {}
    for scene in scenes:
        for sight in scene.sights():
            if sight.running:
                found.setdefault(sight.key[0], set()).add(sight.key)
    return {job: frozenset(keys) for job, keys in found.items()}
