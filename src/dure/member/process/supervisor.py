"""Runs one program to its end and writes down how it ended; the member may die meanwhile.

A script of its own that imports nothing of Dure: one runs beside every program. Its folder holds

    spec.json     what to run: argv, env, cwd, barrier
    begun         its process id, the boot of its host and the tick of that in which it began; made
                  once and for ever, so that nothing is ever run twice
    lock          held for as long as it lives
    go            of a gang: all ranks are there, the program may start
    running.json  the program's process id, and since when it runs
    ../../contact when the centre last heard of the member, by the host's steady clock
    stop.json     the member wants it to end, and how long it may take
    exit.json     how it ended; written last, when nothing of it runs any more
    output.log    what the program wrote; of much, the begin is given up
"""

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

_SET_DEATH_SIGNAL, _SET_SUBREAPER = 1, 36  # of prctl(2)
_PUNCH_HOLE = 1 | 2  # of fallocate(2): give the blocks up, keep the size
_BLOCK_BYTES, _STAT_BLOCK_BYTES = 4096, 512
_LONGEST_BARRIER_S = 600.0
"""How long a rank waits for its gang when nobody comes to call it off."""
_BARRIER_LOOK_S, _LOOK_S = 0.02, 0.2
_STARTED_WORD = 19
"""Where /proc/PID/stat says it: the 22nd word, of which two are before the name's last bracket."""
_NOT_RUN, _NOT_FOUND, _SIGNALLED = 126, 127, 128
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)
_WAITED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}


def main(folder: Path) -> int:
    """Be the supervisor of the instance in a folder."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        begun = os.open(folder / "begun", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except (FileExistsError, FileNotFoundError):
        return 0
    os.write(begun, f"{os.getpid()} {boot()} {born(os.getpid())}\n".encode())
    os.fsync(begun)
    os.close(begun)
    os.chdir("/")
    ctypes.CDLL(None).prctl(_SET_SUBREAPER, 1, 0, 0, 0)
    spec = json.loads((folder / "spec.json").read_text(encoding="utf-8"))
    called_off = (folder / "stop.json").exists()
    if called_off or (spec["barrier"] and not _all_there(folder)):
        _write(folder / "exit.json", {"code": None, "ended_ns": time.time_ns()})
        return 0
    fence = _Fence(folder.parent.parent / "contact", spec["fence_after_s"])
    code = _run(folder, spec, fence)
    _sweep()
    _leave(spec["groups"])
    ended = {"code": code, "ended_ns": time.time_ns(), "fenced": fence.fell}
    _write(folder / "exit.json", ended)
    return 0


def boot() -> str:
    """Names the time since the host was last started; empty where it cannot be told."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def born(pid: int) -> str:
    """The tick since then in which a process began; empty where there is none of that number."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return text.rpartition(")")[2].split()[_STARTED_WORD]
    except (OSError, IndexError):
        return ""


class _Fence:
    """Whether the time without contact to the centre is over."""

    def __init__(self, file: Path, after_s: float | None) -> None:
        self._file = file
        self._after_s = after_s
        self._started_s = time.monotonic()
        self.fell = False

    def falls(self) -> bool:
        """Whether it does so now, for the first time."""
        if self._after_s is None or self.fell:
            return False
        try:
            heard_s = float(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            heard_s = self._started_s
        self.fell = time.monotonic() - heard_s >= self._after_s
        return self.fell


def _all_there(folder: Path) -> bool:
    """Wait until the whole gang is there; False where it is called off."""
    end = time.monotonic() + _LONGEST_BARRIER_S
    while not (folder / "go").exists():
        asked = signal.sigtimedwait(_WAITED - {signal.SIGCHLD}, _BARRIER_LOOK_S)
        if (asked and (folder / "stop.json").exists()) or time.monotonic() > end:
            return False
    return True


def _run(folder: Path, spec: dict[str, Any], fence: _Fence) -> int:
    """Run the program; its exit code, or 128 + N where signal N ended it."""
    complaint = _make(spec["groups"])
    pid = _start(folder, spec, complaint)
    _write(folder / "running.json", {"pid": pid, "started_ns": time.time_ns()})
    kill_at: float | None = None
    while True:
        info = signal.sigtimedwait(_WAITED, _LOOK_S)
        _trim(folder / "output.log", spec["output_bytes"])
        told = info is not None and info.si_signo != signal.SIGCHLD
        if kill_at is None and (told or fence.falls()):
            kill_at = time.monotonic() + (_grace_s(folder) if told else spec["fence_grace_s"])
            _signal_group(pid, signal.SIGTERM)
        if kill_at is not None and time.monotonic() >= kill_at:
            _signal_group(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == pid:
                    code = os.waitstatus_to_exitcode(ended[1])
                    return code if code >= 0 else _SIGNALLED - code


def _start(folder: Path, spec: dict[str, Any], complaint: str) -> int:
    pid = os.fork()
    if pid:
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        return pid
    try:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        output = os.open(folder / "output.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(nothing, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        complaint = complaint or _enter(spec["groups"])
        if complaint:
            os.write(2, f"dure: it runs without limits ({complaint})\n".encode())
        os.nice(spec.get("nice", 0))
        for number in _RESTORED:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if spec["cwd"]:
            os.chdir(spec["cwd"])
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])
    except OSError as error:
        os.write(2, f"{spec['argv'][0]} cannot be run ({error.strerror})\n".encode())
        os._exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_RUN)
    except BaseException:  # noqa: BLE001, a forked child must never go on as its parent
        os._exit(_NOT_RUN)


def _make(groups: dict[str, dict[str, str]]) -> str:
    """Make the control groups; what went wrong, if anything."""
    try:
        for group, files in groups.items():
            with contextlib.suppress(FileExistsError):
                Path(group).mkdir()
            for name, value in files.items():
                Path(group, name).write_text(value, encoding="utf-8")
    except OSError as error:
        return str(error)
    return ""


def _enter(groups: dict[str, dict[str, str]]) -> str:
    """Be in these groups from now on, with all that will be started."""
    try:
        for group in groups:
            Path(group, "cgroup.procs").write_text(str(os.getpid()), encoding="utf-8")
    except OSError as error:
        return str(error)
    return ""


def _leave(groups: dict[str, dict[str, str]]) -> None:
    """Remove the groups; what the kernel does not let go of yet is removed with the folder."""
    for group in groups:
        with contextlib.suppress(OSError):
            Path(group).rmdir()


def _trim(file: Path, most_bytes: int) -> None:
    """Give up the begin of what was written once it takes more of the disk than it may.

    The blocks go, the size stays: the program writes on, and whoever reads loses no place. Where
    the file system has no holes all of it is kept.
    """
    try:
        stream = os.open(file, os.O_WRONLY)
    except OSError:
        return
    try:
        about = os.fstat(stream)
        if about.st_blocks * _STAT_BLOCK_BYTES > most_bytes:
            end = (about.st_size - most_bytes // 2) // _BLOCK_BYTES * _BLOCK_BYTES
            offset, length = ctypes.c_int64(0), ctypes.c_int64(max(end, _BLOCK_BYTES))
            ctypes.CDLL(None).fallocate(stream, _PUNCH_HOLE, offset, length)
    finally:
        os.close(stream)


def _grace_s(folder: Path) -> float:
    try:
        return float(json.loads((folder / "stop.json").read_text(encoding="utf-8"))["grace_s"])
    except (OSError, ValueError, KeyError):
        return 0.0


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _sweep() -> None:
    """End whatever the program left behind, wherever it put itself."""
    while True:
        left = _children()
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(_BARRIER_LOOK_S)


def _children() -> list[int]:
    """Processes of which this one is the parent; those of dead parents become so."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="utf-8")
    return [int(pid) for pid in listed.split()]


def _write(file: Path, content: dict[str, Any]) -> None:
    """Whole or not at all, and safe when it returns."""
    draft = file.with_name(f".{file.name}")
    with draft.open("w", encoding="utf-8") as stream:
        json.dump(content, stream)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)
    parent = os.open(file.parent, os.O_RDONLY)
    os.fsync(parent)
    os.close(parent)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
