"""Docker through its SDK, on a real daemon; and what is said where there is none."""

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dure.domain.containers import Container
from dure.domain.errors import DureError
from dure.domain.ids import ContainerId, GpuUuid
from dure.runtimes.cgroups import Freezer, started_ticks
from dure.runtimes.docker import DockerPauser, DockerRuntime, Place, docker_url
from dure.runtimes.docker_errors import (
    AlreadyPausedError,
    ContainerGoneError,
    DaemonGoneError,
    PauseUnsupportedError,
    RuntimeUnreachableError,
)
from dure.runtimes.errors import StillHeldError
from dure.runtimes.events import RuntimeEvent, RuntimeEventKind
from dure.runtimes.inspection import GpuNames, HostGpu
from dure.runtimes.journal import Journal
from tests.docker_bed import UNABLE_RUNTIME, Bed, Ticker, docker_bed  # noqa: F401

GPU = GpuUuid("GPU-00000000-aaaa")
NAMES = GpuNames((HostGpu(0, GPU),), environment_counts=True)
LIMIT_S = 30.0
needs_docker = pytest.mark.docker


@pytest.fixture
def bed(docker_bed: Bed) -> Bed:  # noqa: F811
    return docker_bed


@pytest.fixture
def runtime(bed: Bed) -> Iterator[DockerRuntime]:
    made = DockerRuntime(bed.url, NAMES)
    yield made
    made.close()


def _seen(runtime: DockerRuntime, ticker: Ticker) -> Container:
    found = runtime.inspect(ContainerId(ticker.id))
    assert found is not None
    return found


class Listener:
    """Reads events in a thread, as the agent does."""

    def __init__(self, runtime: DockerRuntime) -> None:
        self.heard: queue.SimpleQueue[RuntimeEvent | DureError | None] = queue.SimpleQueue()
        self._events = runtime.events()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            for event in self._events:
                self.heard.put(event)
            self.heard.put(None)
        except DureError as error:
            self.heard.put(error)

    def next(self) -> RuntimeEvent | DureError | None:
        return self.heard.get(timeout=LIMIT_S)

    def kinds(self, count: int) -> list[tuple[RuntimeEventKind, bool]]:
        heard = [self.next() for _ in range(count)]
        return [(each.kind, each.own) for each in heard if isinstance(each, RuntimeEvent)]


@needs_docker
def test_running_containers_are_told_with_their_facts(bed: Bed, runtime: DockerRuntime) -> None:
    with_gpu = bed.ticker(name="with-gpu", labels={"dure.priority": "high"})
    without = bed.ticker(name="without", gpu=False)
    ended = bed.run("true", name="ended")
    ended.wait()
    found = {each.name: each for each in runtime.containers()}
    assert set(found) == {"with-gpu", "without"}
    assert found["with-gpu"].gpus == (GPU,)
    assert found["without"].gpus == ()
    assert dict(found["with-gpu"].labels)["dure.priority"] == "high"
    assert found["with-gpu"].id == with_gpu.id
    assert runtime.inspect(ContainerId(ended.id)) is None
    assert runtime.inspect(ContainerId("f" * 64)) is None
    without.container.restart(timeout=0)
    again = runtime.inspect(ContainerId(without.id))
    assert again is not None
    assert again.started_ns > found["without"].started_ns


@needs_docker
def test_events_tell_what_happens_and_which_pauses_were_our_own(
    bed: Bed, runtime: DockerRuntime
) -> None:
    listener = Listener(runtime)
    ticker = bed.ticker(name="watched")
    container = _seen(runtime, ticker)
    pauser = DockerPauser(runtime)
    kind = RuntimeEventKind
    assert listener.kinds(1) == [(kind.STARTED, False)]
    pauser.pause(container)
    pauser.resume(container)
    assert listener.kinds(2) == [(kind.PAUSED, True), (kind.RESUMED, True)]
    ticker.container.pause()
    assert listener.kinds(1) == [(kind.PAUSED, False)]
    ticker.container.unpause()
    assert listener.kinds(1) == [(kind.RESUMED, False)]
    pauser.pause(container)
    assert listener.kinds(1) == [(kind.PAUSED, True)]
    ticker.container.unpause()
    assert listener.kinds(1) == [(kind.RESUMED, False)]
    ticker.container.rename("another")
    assert listener.kinds(1) == [(kind.CHANGED, False)]
    ticker.container.kill("SIGHUP")
    ticker.container.kill("SIGCONT")
    ticker.container.kill()
    assert listener.kinds(2) == [(kind.STOPPING, False), (kind.ENDED, False)]
    runtime.close()
    assert listener.next() is None
    listener.thread.join(LIMIT_S)
    assert not listener.thread.is_alive()


@needs_docker
def test_late_echoes_of_pauses_are_not_taken_for_a_person(bed: Bed, runtime: DockerRuntime) -> None:
    ticker = bed.ticker()
    container = _seen(runtime, ticker)
    echo = [runtime._event({"Action": each, "id": container.id}) for each in ("pause", "unpause")]
    assert echo == [None, None], "it runs, so nobody paused it"
    runtime.pause(container.id)
    runtime.asked.clear()
    echo = [runtime._event({"Action": each, "id": container.id}) for each in ("pause", "unpause")]
    assert echo == [None, None], "it is paused from here, so nobody else did or undid it"
    ticker.container.unpause()
    real = runtime._event({"Action": "unpause", "id": container.id})
    assert real == RuntimeEvent(RuntimeEventKind.RESUMED, container.id)
    ticker.container.pause()
    real = runtime._event({"Action": "pause", "id": container.id})
    assert real == RuntimeEvent(RuntimeEventKind.PAUSED, container.id)


@needs_docker
def test_a_person_who_paused_first_is_left_alone(bed: Bed, runtime: DockerRuntime) -> None:
    ticker = bed.ticker()
    container = _seen(runtime, ticker)
    ticker.container.pause()
    with pytest.raises(AlreadyPausedError):
        DockerPauser(runtime).pause(container)
    assert _seen(runtime, ticker).paused


@needs_docker
def test_a_runtime_that_cannot_pause_makes_its_containers_unmanaged(
    bed: Bed, runtime: DockerRuntime
) -> None:
    ticker = bed.ticker(runtime=UNABLE_RUNTIME)
    container = _seen(runtime, ticker)
    assert container.unmanaged is None
    with pytest.raises(PauseUnsupportedError, match="cannot pause"):
        DockerPauser(runtime).pause(container)
    ticker.seconds_until_it_moves()
    assert "cannot pause" in (_seen(runtime, ticker).unmanaged or "")


@needs_docker
def test_a_flag_that_was_thawed_behind_dockers_back_is_mended_on_the_next_look(
    bed: Bed, runtime: DockerRuntime, tmp_path: Path
) -> None:
    ticker = bed.ticker()
    by_person = bed.ticker()
    by_person.container.pause()
    container = _seen(runtime, ticker)
    runtime.pause(container.id)
    place = runtime.place(container)
    assert place is not None
    assert place.freezer is not None
    place.freezer.thaw()
    assert {each.paused for each in runtime.containers()} == {True}, "mended without a journal"
    runtime.journal = journal = Journal(tmp_path, runtime.place)
    told = {each.id: each.paused for each in runtime.containers()}
    assert told == {container.id: False, by_person.id: True}
    assert journal.owed() == ()
    journal.close()
    assert not _seen(runtime, ticker).paused
    ticker.seconds_until_it_moves()
    assert _seen(runtime, by_person).paused
    assert by_person.stands_still()


@needs_docker
@pytest.mark.parametrize("live_restore", [True, False])
def test_a_daemon_that_is_killed_ends_the_stream_and_works_again_when_it_is_back(
    bed: Bed, runtime: DockerRuntime, tmp_path: Path, live_restore: bool
) -> None:
    bed.kill_daemon()
    bed.start_daemon(live_restore=live_restore)
    ticker = bed.ticker()
    container = _seen(runtime, ticker)
    listener = Listener(runtime)
    pauser = DockerPauser(runtime)
    pauser.pause(container)
    assert listener.kinds(1) == [(RuntimeEventKind.PAUSED, True)]
    bed.kill_daemon()
    assert isinstance(listener.next(), RuntimeUnreachableError)
    with pytest.raises(DaemonGoneError):
        runtime.containers()
    with pytest.raises(DaemonGoneError):
        pauser.pause(container)
    pauser.resume(container)
    ticker.seconds_until_it_moves()
    bed.start_daemon(live_restore=live_restore)
    runtime.journal = journal = Journal(tmp_path, runtime.place)
    running = {each.id for each in runtime.containers()}
    journal.close()
    assert (container.id in running) == live_restore
    if live_restore:
        assert not _seen(runtime, ticker).paused
        ticker.seconds_until_it_moves()
        again = Listener(runtime)
        pauser.pause(container)
        pauser.resume(container)
        assert [own for _, own in again.kinds(2)] == [True, True]
    bed.kill_daemon()
    bed.start_daemon(live_restore=True)


@needs_docker
def test_gone_containers_are_told_apart_from_other_refusals(
    bed: Bed, runtime: DockerRuntime
) -> None:
    ticker = bed.ticker()
    container = _seen(runtime, ticker)
    ticker.container.kill()
    ticker.container.wait()
    with pytest.raises(ContainerGoneError):
        runtime.pause(container.id)
    ticker.container.remove()
    with pytest.raises(ContainerGoneError):
        runtime.pause(container.id)
    runtime.unpause(container.id)


def test_no_docker_is_a_clear_sentence(tmp_path: Path) -> None:
    runtime = DockerRuntime(f"unix://{tmp_path}/none.sock", NAMES)
    with pytest.raises(DaemonGoneError, match=r"there is no Docker at unix://.*DOCKER_HOST"):
        runtime.containers()
    with pytest.raises(DaemonGoneError):
        runtime.events()
    runtime.close()


@needs_docker
@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user to be")
def test_a_user_without_permission_on_the_socket_is_told_so(bed: Bed) -> None:
    program = (
        "import os, sys\n"
        "from dure.runtimes.docker import DockerRuntime\n"
        "from dure.runtimes.inspection import GpuNames\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: DockerRuntime(sys.argv[1], GpuNames(())).containers()\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    bed.folder.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", program, bed.url], capture_output=True, text=True, check=True
    )
    assert "may not use Docker's socket" in done.stdout
    assert "group docker" in done.stdout


def test_the_address_is_the_users_own_where_one_is_stated() -> None:
    assert docker_url({}) == "unix:///var/run/docker.sock"
    assert docker_url({"DOCKER_HOST": "unix:///x.sock"}) == "unix:///x.sock"


def test_a_pause_nobody_answered_is_still_owed_where_nobody_can_be_asked_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = DockerRuntime(f"unix://{tmp_path}/none.sock", NAMES)
    container = Container(ContainerId("a" * 64), "web", "image", 1, (GPU,))
    place = Place(runtime.url, os.getpid(), started_ticks(os.getpid()) or 0, Freezer(tmp_path, 2))
    monkeypatch.setattr(runtime, "place", lambda _: place)
    monkeypatch.setattr(runtime, "known_place", lambda _: place)

    def silent(_: ContainerId) -> None:
        runtime.close()  # the agent ends meanwhile
        raise RuntimeUnreachableError("Docker does not answer")

    monkeypatch.setattr(runtime, "pause", silent)
    with pytest.raises(StillHeldError, match="web may still be paused"):
        DockerPauser(runtime).pause(container)


def test_a_container_started_anew_that_cannot_be_let_go_is_still_owed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = DockerRuntime(f"unix://{tmp_path}/none.sock", NAMES)
    container = Container(ContainerId("a" * 64), "web", "image", 1, (GPU,))
    place = Place(runtime.url, os.getpid(), 1, None)  # its first process is another one now
    monkeypatch.setattr(runtime, "place", lambda _: place)
    monkeypatch.setattr(runtime, "pause", lambda _: None)
    with pytest.raises(StillHeldError, match="started anew"):
        DockerPauser(runtime).pause(container)
    runtime.close()


def _info(**facts: Any) -> Any:
    class Client:
        def info(self) -> dict[str, Any]:
            return facts

        def close(self) -> None: ...

    return Client()


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"OSType": "linux", "CgroupDriver": "none"}, "no cgroups"),
        ({"OSType": "windows"}, "windows containers"),
    ],
)
def test_a_daemon_that_can_pause_nothing_says_why(
    facts: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = DockerRuntime("unix:///none", NAMES)
    monkeypatch.setattr(runtime, "client", lambda: _info(**facts))
    assert words in (DockerPauser(runtime).unsupported() or "")
