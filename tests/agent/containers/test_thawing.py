"""What is let go, and what is not, told apart without a daemon: by cgroup and by process."""

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dure.agent.containers.thawing import (
    Outcome,
    Thawed,
    Thawer,
    settle,
    thaw_at_start,
    thaw_folder,
)
from dure.agent.containers.watchdog import Watchdog
from dure.domain.containers import Container, PauseWay
from dure.domain.ids import ContainerId
from dure.runtimes.cgroups import Freezer, started_ticks
from dure.runtimes.docker import Place
from dure.runtimes.journal import Journal
from dure.runtimes.journal_records import Owed, read

A = Container(ContainerId("a" * 64), "a", "image", 1, ())
B = Container(ContainerId("b" * 64), "b", "image", 1, ())
FAR_NS = 1 << 62


class Group:
    """A folder in place of a cgroup, of a Docker that does not run, with one real process."""

    def __init__(self, folder: Path) -> None:
        self.freezer = Freezer(folder, 2)
        folder.mkdir()
        self.freezer.file.write_text("0\n", encoding="ascii")
        self.process = subprocess.Popen(["sleep", "1000"])

    def place(self, _: Container) -> Place:
        ticks = started_ticks(self.process.pid)
        assert ticks is not None
        return Place(f"unix://{self.freezer.folder}/no.sock", self.process.pid, ticks, self.freezer)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    made = Group(tmp_path / "group")
    yield made
    made.end()


@pytest.fixture
def thawer() -> Iterator[Thawer]:
    made = Thawer()
    yield made
    made.close()


def test_without_docker_the_cgroup_is_thawed_and_docker_told_later(
    tmp_path: Path, group: Group, thawer: Thawer
) -> None:
    journal = Journal(tmp_path, group.place)
    journal.intend(A, PauseWay.DOCKER, FAR_NS)
    group.freezer.freeze()
    journal.done(A.id, PauseWay.DOCKER)
    (thawed,) = thawer.thaw(journal.owed())
    assert (thawed.outcome, thawed.how) == (Outcome.UNTOLD, "cgroup")
    assert "no Docker" in (thawed.error or "")
    assert group.freezer.frozen() is False
    assert journal.owed(), "forgotten before Docker was told"
    journal.close()


def test_what_somebody_else_had_frozen_before_is_left_alone(
    tmp_path: Path, group: Group, thawer: Thawer
) -> None:
    group.freezer.freeze()
    journal = Journal(tmp_path, group.place)
    journal.intend(A, PauseWay.DOCKER, FAR_NS)
    journal.close()
    (thawed,) = thawer.thaw(read(journal.file))
    assert thawed.outcome is Outcome.LEFT
    assert thawed.settled
    assert group.freezer.frozen() is True


def test_another_life_of_a_container_is_not_touched(
    tmp_path: Path, group: Group, thawer: Thawer
) -> None:
    journal = Journal(tmp_path, group.place)
    journal.intend(A, PauseWay.DOCKER, FAR_NS)
    journal.done(A.id, PauseWay.DOCKER)
    group.end()
    group.freezer.freeze()
    (thawed,) = thawer.thaw(journal.owed())
    assert thawed.outcome is Outcome.GONE
    assert group.freezer.frozen() is True
    journal.close()


def test_a_pause_that_was_under_way_is_undone_when_it_takes_effect_later(
    tmp_path: Path, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path, group.place)
    journal.intend(A, PauseWay.DOCKER, FAR_NS)
    stop = threading.Event()
    thaw_at_start(journal, Thawer(), stop)
    time.sleep(0.2)
    group.freezer.freeze()
    until = time.monotonic() + 20
    while group.freezer.frozen():
        assert time.monotonic() < until
        time.sleep(0.01)
    stop.set()
    journal.close()


def test_the_background_thaw_leaves_what_the_running_agent_paused_anew(
    tmp_path: Path, group: Group
) -> None:
    journal = Journal(tmp_path, group.place)
    journal.intend(A, PauseWay.DOCKER, FAR_NS)
    stop = threading.Event()
    thaw_at_start(journal, Thawer(), stop)
    journal.intend(A, PauseWay.DOCKER, FAR_NS - 1)
    group.freezer.freeze()
    journal.done(A.id, PauseWay.DOCKER)
    time.sleep(0.5)
    assert group.freezer.frozen() is True
    stop.set()
    journal.close()


def test_many_containers_of_a_docker_that_hangs_do_not_wait_for_it_one_by_one(
    tmp_path: Path, thawer: Thawer
) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "s"))
        silent.listen(64)  # accepts, and never answers
        groups = [Group(tmp_path / f"group-{number}") for number in range(40)]
        places: dict[ContainerId, Place] = {}
        journal = Journal(tmp_path, lambda each: places[each.id])
        for number, group in enumerate(groups):
            container = Container(ContainerId(f"{number:064x}"), str(number), "image", 1, ())
            place = group.place(container)
            places[container.id] = Place(
                f"unix://{tmp_path}/s", place.pid, place.started_ticks, place.freezer
            )
            journal.intend(container, PauseWay.DOCKER, FAR_NS)
            journal.done(container.id, PauseWay.DOCKER)
            group.freezer.freeze()
        began = time.monotonic()
        results = thawer.thaw(journal.owed())
        took = time.monotonic() - began
        journal.close()
        for group in groups:
            group.end()
    assert {thawed.outcome for thawed in results} == {Outcome.UNTOLD}
    assert not any(group.freezer.frozen() for group in groups)
    assert took < 3.0, "40 containers, 8 at once, 0.7 s each would be 3.5 s"


def test_an_empty_or_missing_folder_owes_nothing(tmp_path: Path) -> None:
    assert thaw_folder(tmp_path) == ()
    assert thaw_folder(tmp_path / "none") == ()


def test_thawing_by_hand_beside_a_running_agent_writes_nothing(
    tmp_path: Path, group: Group
) -> None:
    journal = Journal(tmp_path, group.place)
    journal.intend(A, PauseWay.DOCKER, FAR_NS)
    journal.done(A.id, PauseWay.DOCKER)
    group.freezer.freeze()
    size = journal.file.stat().st_size
    (thawed,) = thaw_folder(tmp_path)
    assert thawed.how == "cgroup"
    assert group.freezer.frozen() is False
    assert journal.file.stat().st_size == size
    journal.close()


def test_one_that_cannot_be_let_go_keeps_no_other_waiting(
    tmp_path: Path, group: Group, thawer: Thawer, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path, group.place)
    for container in (A, B):
        journal.intend(container, PauseWay.DOCKER, FAR_NS)
        journal.done(container.id, PauseWay.DOCKER)
    real = thawer._unfreeze

    def fails_for_one(owed: Owed) -> Thawed:
        if owed.name == "a":
            raise RuntimeError("unexpected")
        return real(owed)

    monkeypatch.setattr(thawer, "_unfreeze", fails_for_one)
    outcomes = sorted(thawed.outcome.name for thawed in thawer.thaw(journal.owed()))
    assert outcomes == ["STUCK", "UNTOLD"]
    journal.close()


def test_locks_that_hang_keep_no_other_container_frozen_and_the_watchdog_going(
    tmp_path: Path, group: Group, thawer: Thawer, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path, group.place)
    for number in range(12):  # more than are tried at once
        each = Container(ContainerId(f"{number:064x}"), f"hangs-{number}", "image", 1, ())
        journal.intend(each, PauseWay.CUDA_LOCK, FAR_NS)
        journal.done(each.id, PauseWay.CUDA_LOCK)
    journal.intend(B, PauseWay.DOCKER, FAR_NS)
    journal.done(B.id, PauseWay.DOCKER)
    group.freezer.freeze()
    go_on = threading.Event()
    hanging: list[str] = []

    def hang(owed: Owed) -> Thawed:
        hanging.append(owed.name)
        go_on.wait()
        return Thawed(owed, Outcome.RUNS, "unlock")

    monkeypatch.setattr(thawer, "_unlock", hang)
    came: list[tuple[Thawed, ...]] = []
    once = threading.Thread(target=lambda: came.append(thawer.thaw(journal.owed())), daemon=True)
    once.start()
    try:
        once.join(20.0)
        assert came, "it waits for what hangs"
        assert group.freezer.frozen() is False
        assert [thawed.outcome for thawed in came[0]] == [*[Outcome.STUCK] * 12, Outcome.UNTOLD]
        assert not any(thawer.due(thawed.owed) for thawed in came[0][:12])
        began = time.monotonic()
        again = thawer.thaw(journal.owed())
        assert again[0].outcome is Outcome.STUCK
        assert time.monotonic() - began < 1.9, "what hangs already is waited for again"
        assert len(hanging) == 12
    finally:
        go_on.set()
    until = time.monotonic() + 20
    while {thawed.outcome for thawed in thawer.thaw(journal.owed()[:12])} != {Outcome.RUNS}:
        assert time.monotonic() < until
        time.sleep(0.02)
    journal.close()


def test_what_the_agent_wrote_anew_while_it_was_let_go_stays_owed(
    tmp_path: Path, group: Group
) -> None:
    journal = Journal(tmp_path, group.place)
    journal.intend(A, PauseWay.DOCKER, FAR_NS)
    (old,) = journal.owed()
    journal.intend(A, PauseWay.DOCKER, FAR_NS - 1)
    assert settle(journal, [Thawed(old, Outcome.RUNS, "docker")]) == ()
    assert [each.resume_by_ns for each in read(journal.file)] == [FAR_NS - 1]
    (new,) = journal.owed()
    assert settle(journal, [Thawed(new, Outcome.RUNS)]) == ()
    assert read(journal.file) == ()
    journal.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to make a cgroup")
def test_a_real_group_of_version_2_is_frozen_and_thawed() -> None:
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    places = [line.split()[1] for line in mounts if line.split()[2] == "cgroup2"]
    if not places:
        pytest.skip("there is no cgroup of version 2")
    folder = Path(places[0]) / f"dure-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("cgroups cannot be made here")
    process = subprocess.Popen(["sleep", "1000"])
    freezer = Freezer(folder, 2)
    try:
        (folder / "cgroup.procs").write_text(str(process.pid), encoding="ascii")
        assert freezer.frozen() is False
        freezer.freeze()
        _until_frozen(folder, "1")
        assert freezer.frozen() is True
        assert list(freezer.pids()) == [process.pid]
        freezer.thaw()
        _until_frozen(folder, "0")
        assert freezer.frozen() is False
    finally:
        freezer.thaw()
        process.kill()
        process.wait()
        time.sleep(0.1)
        folder.rmdir()


def _until_frozen(folder: Path, word: str) -> None:
    """Until the kernel says that it has come to pass."""
    until = time.monotonic() + 20
    while f"frozen {word}" not in (folder / "cgroup.events").read_text(encoding="ascii"):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_journal_that_cannot_be_written_is_no_reason_to_stay_frozen(
    tmp_path: Path, group: Group
) -> None:
    journal = Journal(tmp_path, group.place)
    journal.intend(A, PauseWay.DOCKER, FAR_NS)
    journal.done(A.id, PauseWay.DOCKER)
    journal.close()
    group.freezer.freeze()
    (tmp_path / "journal.new").mkdir()  # in the way of every new journal
    watchdog = Watchdog(tmp_path)
    watchdog.look(time.monotonic_ns())
    assert group.freezer.frozen() is False
    group.freezer.freeze()
    (thawed,) = thaw_folder(tmp_path)
    assert thawed.how == "cgroup"
    assert group.freezer.frozen() is False
    watchdog.close()


def test_a_watchdog_whose_folder_is_removed_lets_go_what_it_knows_of_and_ends(
    tmp_path: Path, group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "run"
    journal = Journal(folder, group.place)
    journal.intend(A, PauseWay.DOCKER, FAR_NS)
    group.freezer.freeze()
    journal.done(A.id, PauseWay.DOCKER)
    watchdog = Watchdog(folder)
    watchdog.look(time.monotonic_ns())  # the agent has the journal, so it may go on
    assert group.freezer.frozen() is True
    shutil.rmtree(folder)
    watchdog.run()
    assert group.freezer.frozen() is False
    folder.mkdir()
    (folder / "watchdog.sock").touch()  # of the next one
    watchdog.close()
    assert (folder / "watchdog.sock").exists()
    journal.close()
    removed = [each for each in caplog.messages if "was removed" in each]
    assert len(removed) == 1
    assert "Traceback" not in caplog.text
