import errno
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dure.domain.containers import Container, PauseWay
from dure.domain.errors import DureError, InputError
from dure.domain.ids import ContainerId
from dure.runtimes.cgroups import Freezer
from dure.runtimes.docker import Place
from dure.runtimes.journal import Journal, JournalBusyError, JournalLock
from dure.runtimes.journal_records import Follower, Owed, read

DOCKER, LOCK = PauseWay.DOCKER, PauseWay.CUDA_LOCK
PLACE = Place("unix:///run/docker.sock", 77, 1234, Freezer(Path("/cgroup/docker/a"), 2))


def _container(name: str) -> Container:
    return Container(ContainerId(name * 64), name, "image", 1_700_000_000_000_000_001, ())


A, B = _container("a"), _container("b")


def _open(folder: Path, compact_bytes: int = 1_000_000) -> Journal:
    return Journal(folder, lambda _: PLACE, compact_bytes=compact_bytes)


def _ways(owed: tuple[Owed, ...]) -> list[tuple[str, PauseWay, bool]]:
    return [(each.name, each.way, each.done) for each in owed]


def test_an_intention_is_owed_from_before_the_pause_until_it_is_forgotten(tmp_path: Path) -> None:
    journal = _open(tmp_path)
    journal.intend(A, DOCKER, 5)
    assert read(journal.file) == (Owed(A.id, "a", A.started_ns, DOCKER, 5, False, PLACE),)
    journal.done(A.id, DOCKER)
    assert _ways(read(journal.file)) == [("a", DOCKER, True)]
    journal.forget(A.id)
    assert read(journal.file) == ()
    journal.close()


def test_a_pause_written_down_while_a_flag_is_mended_stays_owed(tmp_path: Path) -> None:
    journal = _open(tmp_path)
    assert journal.mend(A, 5, lambda: None)
    assert journal.owed() == ()

    def pause_meanwhile() -> None:
        journal.intend(A, DOCKER, 9)
        journal.done(A.id, DOCKER)

    assert journal.mend(A, 5, pause_meanwhile)
    assert _ways(read(journal.file)) == [("a", DOCKER, True)]
    assert not journal.mend(A, 5, lambda: pytest.fail("it is paused"))
    journal.close()


def _freezer(folder: Path) -> Freezer:
    made = Freezer(folder / "group", 2)
    made.folder.mkdir()
    made.file.write_text("0\n", encoding="ascii")
    return made


def test_a_flag_whose_mending_fails_is_owed_no_longer_than_it_is_frozen(tmp_path: Path) -> None:
    freezer = _freezer(tmp_path)
    place = Place(PLACE.runtime, PLACE.pid, PLACE.started_ticks, freezer)
    journal = Journal(tmp_path, lambda _: place)

    def fail() -> None:
        raise DureError("Docker went away")

    def fail_frozen() -> None:
        freezer.freeze()
        raise DureError("it stays frozen")

    with pytest.raises(DureError, match="went away"):
        journal.mend(A, 5, fail)
    assert journal.owed() == read(journal.file) == ()
    with pytest.raises(DureError, match="stays frozen"):
        journal.mend(A, 5, fail_frozen)
    assert [(each.container, each.frozen_before) for each in journal.owed()] == [(A.id, False)]
    assert read(journal.file) == journal.owed()
    freezer.thaw()
    assert journal.mend(A, 6, lambda: None), "what is left of a try that failed is no pause"
    assert journal.owed() == read(journal.file) == ()
    journal.close()


def test_a_pause_written_down_while_the_mending_of_a_flag_fails_stays_owed(tmp_path: Path) -> None:
    journal = _open(tmp_path)

    def pause_and_fail() -> None:
        journal.intend(A, DOCKER, 9)
        raise DureError("Docker went away")

    with pytest.raises(DureError, match="went away"):
        journal.mend(A, 5, pause_and_fail)
    assert [each.resume_by_ns for each in read(journal.file)] == [9]
    assert not journal.mend(A, 5, lambda: pytest.fail("it is being paused"))
    journal.close()


def test_one_record_is_forgotten_only_while_it_is_the_current_one(tmp_path: Path) -> None:
    journal = _open(tmp_path)
    journal.intend(A, DOCKER, 5)
    (old,) = journal.owed()
    journal.intend(A, DOCKER, 6)
    journal.forget_record(old)
    (new,) = journal.owed()
    assert new.resume_by_ns == 6
    journal.forget_record(new)
    assert journal.owed() == read(journal.file) == ()
    journal.close()


def test_a_journal_is_made_short_whole_though_the_kernel_takes_little_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, write = _open(tmp_path, compact_bytes=1), os.write
    journal.intend(A, DOCKER, 5)
    journal.intend(B, DOCKER, 5)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda handle, data: write(handle, data[:7]))
        journal.forget(B.id)
    assert _ways(read(journal.file)) == [("a", DOCKER, False)]
    journal.close()


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_journal_that_cannot_be_made_short_has_forgotten_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    journal = _open(tmp_path, compact_bytes=1)
    journal.intend(A, DOCKER, 5)
    journal.intend(B, DOCKER, 5)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    opened = _open_files()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        journal.forget(A.id)
    assert _open_files() == opened
    assert not (tmp_path / "journal.new").exists()
    assert "cannot be made short (No space left on device)" in caplog.text
    assert _ways(read(journal.file)) == _ways(journal.owed()) == [("b", DOCKER, False)]
    journal.forget(B.id)
    assert journal.file.read_bytes() == b""
    journal.close()


def test_each_way_is_owed_by_itself_and_all_are_forgotten_with_the_container(
    tmp_path: Path,
) -> None:
    journal = _open(tmp_path)
    for way in (LOCK, DOCKER):
        journal.intend(A, way, 5)
        journal.done(A.id, way)
    journal.intend(B, DOCKER, 6)
    journal.forget(A.id, DOCKER)
    assert _ways(journal.owed()) == [("a", LOCK, True), ("b", DOCKER, False)]
    journal.forget(A.id)
    assert _ways(journal.owed()) == _ways(read(journal.file)) == [("b", DOCKER, False)]
    journal.close()


def test_the_next_writer_owes_what_the_last_one_left(tmp_path: Path) -> None:
    first = _open(tmp_path)
    first.intend(A, DOCKER, 5)
    first.done(A.id, DOCKER)
    first.close()
    second = _open(tmp_path)
    assert second.owed() == (Owed(A.id, "a", A.started_ns, DOCKER, 5, True, PLACE),)
    second.close()


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_a_torn_last_line_counts_as_not_written_and_spoils_no_other(
    tmp_path: Path, cut: int
) -> None:
    journal = _open(tmp_path)
    journal.intend(A, DOCKER, 5)
    journal.intend(B, DOCKER, 6)
    journal.close()
    whole = journal.file.read_bytes()
    journal.file.write_bytes(whole[:-cut])
    left = [("a", DOCKER, False)] if cut > 1 else [("a", DOCKER, False), ("b", DOCKER, False)]
    assert _ways(read(journal.file)) == left
    again = _open(tmp_path)
    again.intend(B, LOCK, 7)
    assert _ways(read(journal.file)) == [*left, ("b", LOCK, False)]
    again.close()


def test_lines_that_make_no_sense_are_left_out(tmp_path: Path) -> None:
    journal = _open(tmp_path)
    journal.intend(A, DOCKER, 5)
    journal.close()
    good = journal.file.read_bytes()
    bad = b'\x00\x00\n[]\n{"record":"done"}\n{"record":"intend","container":"x","way":"magic"}\n'
    journal.file.write_bytes(bad + good)
    assert _ways(read(journal.file)) == [("a", DOCKER, False)]


def test_records_of_another_boot_owe_nothing(tmp_path: Path) -> None:
    journal = _open(tmp_path)
    journal.intend(A, DOCKER, 5)
    journal.close()
    record = json.loads(journal.file.read_text(encoding="utf-8"))
    record["boot"] = "another"
    journal.file.write_text(json.dumps(record) + "\n", encoding="utf-8")
    assert read(journal.file) == ()


def test_a_journal_that_grew_is_made_short_and_owes_the_same(tmp_path: Path) -> None:
    journal = _open(tmp_path, compact_bytes=4096)
    journal.intend(A, DOCKER, 5)
    journal.done(A.id, DOCKER)
    for _ in range(100):
        journal.intend(B, DOCKER, 6)
        journal.done(B.id, DOCKER)
        journal.forget(B.id)
        assert journal.file.stat().st_size < 8192
    assert _ways(read(journal.file)) == _ways(journal.owed()) == [("a", DOCKER, True)]
    journal.close()


def test_a_follower_sees_what_is_appended_and_what_is_made_short(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    assert follower.owed() == ()
    journal = _open(tmp_path, compact_bytes=1)
    journal.intend(A, DOCKER, 5)
    assert _ways(follower.owed()) == [("a", DOCKER, False)]
    journal.done(A.id, DOCKER)
    assert _ways(follower.owed()) == [("a", DOCKER, True)]
    journal.intend(B, DOCKER, 5)
    journal.forget(A.id)
    assert _ways(follower.owed()) == [("b", DOCKER, False)]
    assert follower.runtimes == {PLACE.runtime}
    journal.close()
    follower.close()


def test_a_follower_is_not_fooled_by_a_journal_that_was_replaced_twice(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    for _ in range(20):
        for container in (A, B):
            journal = _open(tmp_path)
            journal.forget(B.id if container is A else A.id)
            journal.intend(container, DOCKER, 5)
            journal.close()
            _open(tmp_path).close()
            _open(tmp_path).close()
            assert follower.owed() == read(journal.file)
            assert [each.container for each in follower.owed()] == [container.id]
    follower.close()


def test_a_journal_that_was_removed_with_its_folder_is_made_anew_and_owes_the_same(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"
    journal, follower = _open(folder), Follower(folder)
    journal.intend(A, DOCKER, 5)
    assert _ways(follower.owed()) == [("a", DOCKER, False)]
    assert not follower.lost()
    shutil.rmtree(folder)
    assert follower.lost()
    assert _ways(follower.owed()) == [("a", DOCKER, False)], "forgotten with the file"
    journal.intend(B, LOCK, 6)
    owed = [("a", DOCKER, False), ("b", LOCK, False)]
    assert not follower.lost()
    assert _ways(follower.owed()) == _ways(read(journal.file)) == owed
    with pytest.raises(JournalBusyError):
        _open(folder)
    follower.close()
    journal.close()


def test_a_journal_that_was_removed_and_taken_by_another_writes_no_more(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    journal = _open(folder)
    shutil.rmtree(folder)
    other = _open(folder)
    with pytest.raises(JournalBusyError):
        journal.intend(A, DOCKER, 5)
    assert read(other.file) == journal.owed() == ()
    journal.close()
    other.close()


def test_two_processes_never_write_one_journal(tmp_path: Path) -> None:
    journal = _open(tmp_path)
    with pytest.raises(JournalBusyError, match="another process"):
        _open(tmp_path)
    assert not JournalLock(tmp_path).free()
    journal.close()
    assert JournalLock(tmp_path).free()
    _open(tmp_path).close()


def test_the_lock_ends_with_its_holder_though_a_child_of_it_lives_on(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys, pathlib\n"
        "from dure.runtimes.journal import Journal\n"
        "journal = Journal(pathlib.Path(sys.argv[1]), lambda _: None)\n"
        "child = subprocess.Popen(['sleep', '60'], close_fds=False, stdout=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True)\n"
        "input()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    try:
        assert not JournalLock(tmp_path).free()
        holder.kill()
        holder.communicate()
        os.kill(child, 0)
        assert JournalLock(tmp_path).take(5)
    finally:
        os.kill(child, signal.SIGKILL)


def _intend_for_ever(folder: str) -> None:
    journal = _open(Path(folder), compact_bytes=2048)
    while True:
        for container in (A, B):
            journal.intend(container, DOCKER, 5)
            journal.done(container.id, DOCKER)
        journal.forget(B.id)


def test_a_writer_killed_at_any_moment_leaves_a_journal_that_can_be_read(tmp_path: Path) -> None:
    for number in range(8):
        process = multiprocessing.get_context("spawn").Process(
            target=_intend_for_ever, args=(str(tmp_path),)
        )
        process.start()
        follower = Follower(tmp_path)
        while not follower.owed():
            assert process.is_alive()
        follower.close()
        process.join(0.01 * number)
        process.kill()
        process.join()
        assert ("a", DOCKER) in [(each.name, each.way) for each in read(tmp_path / "journal")]


def test_a_folder_that_cannot_be_written_is_a_clear_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written"):
        _open(tmp_path / "file" / "below")
