"""Docker through its SDK: containers, events, pause and unpause, each with a bounded wait."""

import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

import docker

from dure.domain.containers import Container, PauseWay
from dure.domain.errors import DureError
from dure.domain.ids import ContainerId
from dure.runtimes.cgroups import Freezer, freezer_of, started_ticks
from dure.runtimes.docker_errors import (
    ContainerGoneError,
    DaemonGoneError,
    FlagLostError,
    NotPausedError,
    PauseUnsupportedError,
    RuntimeUnreachableError,
    translated,
)
from dure.runtimes.errors import StillHeldError
from dure.runtimes.events import RuntimeEvent, RuntimeEventKind
from dure.runtimes.inspection import GpuNames, container_from

_UNIX = "unix://"
DEFAULT_URL = f"{_UNIX}/var/run/docker.sock"
HOST_VARIABLE = "DOCKER_HOST"

ANSWER_S = 5.0
"""A pause takes Docker some 35 ms; on a machine that starts many containers at once, a second."""
_CONNECTIONS = 32
_LOOK_AGAIN_S = 0.2
_KEEPER_S = 2.0
"""How long a pause that Docker handed on to its keeper (containerd, runc) may take at the most."""
_MENDING_NS = 5_000_000_000

_KINDS = {
    "start": RuntimeEventKind.STARTED,
    "die": RuntimeEventKind.ENDED,
    "destroy": RuntimeEventKind.ENDED,
    "pause": RuntimeEventKind.PAUSED,
    "unpause": RuntimeEventKind.RESUMED,
    "rename": RuntimeEventKind.CHANGED,
    "update": RuntimeEventKind.CHANGED,
}
_ENDING_SIGNALS = frozenset({"2", "3", "9", "15", "SIGINT", "SIGQUIT", "SIGKILL", "SIGTERM"})
"""A `kill` with another signal, such as SIGHUP, does not ask for the end."""


def docker_url(environment: Mapping[str, str] = os.environ) -> str:
    """Where this user's Docker is."""
    return environment.get(HOST_VARIABLE) or DEFAULT_URL


@dataclass(frozen=True, slots=True)
class Place:
    """Where a container's processes are, for a thaw that needs no Docker."""

    runtime: str
    """Address of the runtime that has it."""
    pid: int
    started_ticks: int
    """Of its first process; with the pid it names this life of the container."""
    freezer: Freezer | None


class Mending(Protocol):
    """The part of a journal that putting a flag right needs."""

    def mend(self, container: Container, resume_by_ns: int, act: Callable[[], None]) -> bool:
        """Do what freezes it for a moment, written down; False: a pause of it is under way."""


class DockerRuntime:
    """One Docker daemon; used by several threads at once, and again after it was restarted."""

    def __init__(self, url: str, names: GpuNames, answer_s: float = ANSWER_S) -> None:
        self.url = url
        self.names = names
        self._answer_s = answer_s
        self._client: Any = None
        self._default_runtime = ""
        self._lock = threading.Lock()
        self._streams: set[Any] = set()
        self._closed = False
        self._first_pids: dict[ContainerId, tuple[int, int]] = {}
        """First process by container, with the start of the life it belongs to."""
        self._unable: dict[ContainerId, str] = {}
        self._held: set[ContainerId] = set()
        """Paused from here, and not let go since: nobody else can pause these."""
        self._echoes: set[ContainerId] = set()
        """Whose reported pause was an echo, so that its end will be one, too."""
        self.journal: Mending | None = None
        """Where flags that are put right are written down; None: they are not put right."""
        self.asked: Counter[tuple[ContainerId, RuntimeEventKind]] = Counter()
        """Pauses and their ends that were asked for here and not yet reported."""

    # Looking

    def containers(self) -> tuple[Container, ...]:
        """Everything that runs now, paused or not."""
        with translated(self.url):
            listed = self.client().containers(filters={"status": ["running", "paused"]})
        found = [self.inspect(ContainerId(each["Id"])) for each in listed]
        running = [container for container in found if container is not None]
        return tuple(self._mended(container) for container in running)

    def inspect(self, container: ContainerId) -> Container | None:
        """One of them; None where it does not run any more."""
        try:
            with translated(self.url):
                attributes = self.client().inspect_container(container)
        except ContainerGoneError:
            attributes = {}
        state = attributes.get("State") or {}
        if not state.get("Running"):
            self._forget(container)
            return None
        found = container_from(
            attributes,
            self.names,
            default_runtime=self._default_runtime,
            unmanaged=self._unable.get(container),
        )
        self._first_pids[container] = (int(state.get("Pid") or 0), found.started_ns)
        return found

    def place(self, container: Container) -> Place | None:
        """Where its processes are; None where it does not run any more."""
        if container.id not in self._first_pids:
            self.inspect(container.id)
        return self.known_place(container)

    def known_place(self, container: Container) -> Place | None:
        """The same without asking Docker: None also where it was never seen here."""
        pid, started_ns = self._first_pids.get(container.id, (0, 0))
        ticks = started_ticks(pid) if pid else None
        if ticks is None:
            self._first_pids.pop(container.id, None)
            return None
        if started_ns != container.started_ns:
            return None
        return Place(self.url, pid, ticks, freezer_of(pid, container.id))

    def events(self) -> Iterator[RuntimeEvent]:
        """What happens from the call on; raises where Docker goes, ends after `close`."""
        with translated(self.url):
            stream = self.client().events(decode=True, filters={"type": "container"})
        with self._lock:
            self._streams.add(stream)
            self.asked.clear()
        return self._read(stream)

    def _read(self, stream: Any) -> Iterator[RuntimeEvent]:
        try:
            with translated(self.url):
                for said in stream:
                    event = self._event(said)
                    if event is not None:
                        yield event
            if not self._closed:
                raise RuntimeUnreachableError(f"Docker went away at {self.url}", "start it again")
        finally:
            with self._lock:
                self._streams.discard(stream)
            with suppress(Exception):
                stream.close()

    def _event(self, said: Mapping[str, Any]) -> RuntimeEvent | None:
        action = str(said.get("Action") or "").partition(":")[0]
        actor = said.get("Actor") or {}
        container = ContainerId(str(actor.get("ID") or said.get("id") or ""))
        if not container:
            return None
        if action == "kill":
            attributes = actor.get("Attributes") or {}
            ending = str(attributes.get("signal") or "15") in _ENDING_SIGNALS
            return RuntimeEvent(RuntimeEventKind.STOPPING, container) if ending else None
        kind = _KINDS.get(action)
        if kind is None:
            return None
        if kind is RuntimeEventKind.ENDED:
            self._forget(container)
        with self._lock:
            own = self.asked[container, kind] > 0
            if own:
                self.asked[container, kind] -= 1
        if not own and self._echo(container, kind):
            return None
        return RuntimeEvent(kind, container, own)

    def _echo(self, container: ContainerId, kind: RuntimeEventKind) -> bool:
        """Whether a report of a pause, or of its end, is only a late echo of an earlier one.

        On a busy host Docker hears of a pause from its keeper after it was ended already, and
        reports both once more. What the kernel says now tells an echo from a person.
        """
        pid, _ = self._first_pids.get(container, (0, 0))
        freezer = freezer_of(pid, container) if pid else None
        frozen = freezer.frozen() if freezer is not None else None
        if frozen is None:
            return False
        if kind is RuntimeEventKind.PAUSED:
            if frozen and container not in self._held:
                return False
            self._echoes.add(container)
            return True
        if kind is RuntimeEventKind.RESUMED:
            echoed = container in self._echoes
            self._echoes.discard(container)
            if not frozen and container in self._held:
                self._held.discard(container)  # a person let go what was paused here
                return False
            return frozen or echoed
        return False

    def close(self) -> None:
        """Give the connection back; from any thread."""
        with self._lock:
            self._closed = True
            streams, client = list(self._streams), self._client
        for stream in streams:
            with suppress(Exception):
                stream.close()
        if client is not None:
            client.close()

    @property
    def closed(self) -> bool:
        """Whether the connection was given back."""
        return self._closed

    # Asking

    def unsupported(self) -> str | None:
        """Why this daemon can pause nothing; None: it can, or nobody answers."""
        with translated(self.url):
            told = self.client().info()
        if told.get("OSType", "linux") != "linux":
            return f"Docker at {self.url} runs {told['OSType']} containers"
        if told.get("CgroupDriver") == "none":
            return (
                f"Docker at {self.url} has no cgroups, so it cannot pause;"
                " delegate them to it or run it as root"
            )
        return None

    def pause(self, container: ContainerId) -> None:
        """Freeze it; where nobody answered, it may be frozen all the same."""
        self._asked(container, RuntimeEventKind.PAUSED, 1)
        try:
            with translated(self.url):
                self.client().pause(container)
        except DureError as error:
            if not isinstance(error, RuntimeUnreachableError):  # that one may have been heard
                self._asked(container, RuntimeEventKind.PAUSED, -1)
            if isinstance(error, PauseUnsupportedError):
                self._unable[container] = str(error)
            raise
        self._held.add(container)

    def unpause(self, container: ContainerId) -> None:
        """Let it run, also where it ran already or is gone."""
        self._held.discard(container)
        self._asked(container, RuntimeEventKind.RESUMED, 1)
        try:
            with translated(self.url):
                self.client().unpause(container)
        except (ContainerGoneError, NotPausedError):
            self._asked(container, RuntimeEventKind.RESUMED, -1)
        except FlagLostError:
            self._asked(container, RuntimeEventKind.RESUMED, -1)
            found = self.inspect(container)
            if found is not None:
                self._mend_flag(found)
        except DureError:
            self._asked(container, RuntimeEventKind.RESUMED, -1)
            raise

    def _mended(self, container: Container) -> Container:
        """A container with Docker's flag put right, where it says paused of one that runs.

        Whoever thawed it behind Docker's back may be gone since. Written down first, since it is
        frozen for a moment; who has no journal leaves it to others.
        """
        place = self.known_place(container)
        freezer = place.freezer if place is not None else None
        if not container.paused or self.journal is None or freezer is None or freezer.frozen():
            return container
        until_ns = time.monotonic_ns() + _MENDING_NS
        mended = self.journal.mend(container, until_ns, lambda: self._mend_flag(container))
        return replace(container, paused=False) if mended else container

    def _mend_flag(self, container: Container) -> None:
        """Bring Docker's word in line where a container was thawed behind its back.

        Docker refuses to unpause what its runtime sees running, so that is frozen again for the
        moment it takes.
        """
        place = self.place(container)
        if place is None or place.freezer is None or place.freezer.frozen() is not False:
            return
        self._asked(container.id, RuntimeEventKind.RESUMED, 1)
        try:
            place.freezer.freeze()
            with translated(self.url):
                self.client().unpause(container.id)
        except (ContainerGoneError, NotPausedError):
            self._asked(container.id, RuntimeEventKind.RESUMED, -1)
        except DureError:
            self._asked(container.id, RuntimeEventKind.RESUMED, -1)
            raise
        finally:
            place.freezer.thaw()

    def _asked(self, container: ContainerId, kind: RuntimeEventKind, by: int) -> None:
        with self._lock:
            self.asked[container, kind] = max(0, self.asked[container, kind] + by)

    def _forget(self, container: ContainerId) -> None:
        self._first_pids.pop(container, None)
        self._unable.pop(container, None)
        self._held.discard(container)
        self._echoes.discard(container)
        with self._lock:
            for kind in (RuntimeEventKind.PAUSED, RuntimeEventKind.RESUMED):
                self.asked.pop((container, kind), None)

    def client(self) -> Any:
        """The SDK's client; made when first needed, since Docker may come later than we do."""
        with self._lock:
            if self._closed:
                raise RuntimeUnreachableError("the connection to Docker was closed")
            client = self._client
        _knock(self.url, self._answer_s)
        if client is None:
            made = docker.APIClient(
                base_url=self.url,
                timeout=self._answer_s,
                version="auto",
                max_pool_size=_CONNECTIONS,
            )
            if self.url.startswith(_UNIX):
                # No proxy or password of the environment is for a socket file, and looking for them
                # takes a third of each request.
                made.trust_env = False
            if self.names.gpus:  # else nobody asks which GPUs a container was given
                self._default_runtime = str(made.info().get("DefaultRuntime") or "")
            with self._lock:
                client = self._client = self._client or made
        return client


def _knock(url: str, wait_s: float) -> None:
    """See whether anybody listens: the SDK leaves a socket open where nobody does."""
    if url.startswith(_UNIX):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knocking:
            knocking.settimeout(wait_s)
            knocking.connect(url.removeprefix(_UNIX))


@dataclass(frozen=True, slots=True)
class DockerPauser:
    """The paper's way: every process of the container is frozen."""

    runtime: DockerRuntime
    way: PauseWay = PauseWay.DOCKER

    def unsupported(self) -> str | None:
        """Why this way does not work on this host at all."""
        return self.runtime.unsupported()

    def pause(self, container: Container) -> None:
        """Returns when it is frozen."""
        before = self.runtime.place(container)
        if before is None:
            raise ContainerGoneError("it does not run any more, or was started anew")
        try:
            self.runtime.pause(container.id)
        except RuntimeUnreachableError:
            self._make_sure(container)
            raise
        if started_ticks(before.pid) != before.started_ticks:
            try:
                self.runtime.unpause(container.id)
            except DureError as error:
                what = f"{container.name} was started anew while it was paused"
                raise StillHeldError(f"{what}, and is paused ({error})") from error
            raise ContainerGoneError("it was started anew while it was paused")

    def resume(self, container: Container) -> None:
        """Returns when it runs: by Docker, else by its cgroup."""
        try:
            self.runtime.unpause(container.id)
        except DureError:
            place = self.runtime.known_place(container)
            if place is None:
                return
            if place.freezer is None:
                raise
            place.freezer.thaw()

    def _outlast(self, freezer: Freezer | None) -> None:
        """The daemon is gone, but what it had already asked of its keeper may still be done."""
        until_s = time.monotonic() + _KEEPER_S
        while freezer is not None and time.monotonic() < until_s:
            if freezer.frozen():
                try:
                    freezer.thaw()
                except DureError as error:
                    raise StillHeldError(error.what, error.remedy) from error
            time.sleep(_LOOK_AGAIN_S / 4)

    def _make_sure(self, container: Container) -> None:
        """After a pause nobody answered: wait until it is certain that the container runs.

        A daemon that hangs may still carry the pause out when it goes on; one that is gone will
        not. Until then this container's turn does not end, and the journal owns it: also where
        the connection is given back before, so that somebody else makes sure.
        """
        while not self.runtime.closed:
            place = self.runtime.known_place(container)
            if place is None:
                return
            if place.freezer is not None:
                with suppress(DureError):  # then it is Docker's alone to do
                    place.freezer.thaw()
            time.sleep(_LOOK_AGAIN_S)
            try:
                self.runtime.unpause(container.id)
            except DaemonGoneError:
                self._outlast(place.freezer)
                return
            except DureError:
                continue
            return
        raise StillHeldError(
            f"{container.name} may still be paused by a Docker that does not answer",
            "look into its log",
        )
