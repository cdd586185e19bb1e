import errno
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dure.cli.child import NotStarted, run_child

LIMIT_S = 60.0

WRAPPER = """
import os, sys
from dure.cli.child import run_child
sys.exit(run_child(sys.argv[1:], os.environ))
"""


def sh(script: str) -> int:
    return run_child(["sh", "-c", script], os.environ)


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_the_exit_code_is_the_programs(code: int) -> None:
    assert sh(f"exit {code}") == code


@pytest.mark.parametrize("name", ["TERM", "KILL", "INT", "SEGV"])
def test_a_program_ended_by_a_signal_gives_128_and_its_number(name: str) -> None:
    assert sh(f"ulimit -c 0; kill -{name} $$") == 128 + getattr(signal, f"SIG{name}")


def test_the_environment_is_as_given() -> None:
    assert (
        run_child(
            ["sh", "-c", '[ "$A" = b ] && [ -z "$HOME" ]'], {"A": "b", "PATH": "/bin:/usr/bin"}
        )
        == 0
    )


def test_a_program_starts_with_no_signal_blocked_or_ignored() -> None:
    blocked = "grep -q '^SigBlk:[[:space:]]*0*$' /proc/self/status"
    pipes = "grep '^SigIgn:' /proc/self/status | grep -q '[02468ace]...$'"
    assert sh(f"{blocked} && {pipes}") == 0


def test_a_program_that_is_not_there_exits_127() -> None:
    with pytest.raises(NotStarted, match="no program 'no-such-program' was found") as refused:
        run_child(["no-such-program"], os.environ)
    assert refused.value.exit_code == 127


def test_a_file_that_is_no_program_exits_126(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("hello")
    with pytest.raises(NotStarted, match="make it executable") as refused:
        run_child([str(file)], os.environ)
    assert refused.value.exit_code == 126
    file.chmod(0o755)
    with pytest.raises(NotStarted, match="name its interpreter first"):
        run_child([str(file)], os.environ)


@contextmanager
def wrapped(program: str) -> Iterator[subprocess.Popen[str]]:
    """Run a Python program through the wrapper in a process of its own; it says 'ready' first."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRAPPER, sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,  # of a shell's job: a group without one would not stop for a terminal
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


COUNTER = """
import signal, sys, time
seen = []
def note(number, frame):
    seen.append(signal.Signals(number).name)
    print(" ".join(seen), flush=True)
    if number == signal.SIGTERM:
        sys.exit(3)
for name in ("HUP", "INT", "TERM", "USR1", "WINCH", "CONT"):
    signal.signal(getattr(signal, "SIG" + name), note)
print("ready", flush=True)
while True:
    time.sleep(60)
"""


def test_signals_sent_to_the_wrapper_reach_the_program_once_each() -> None:
    with wrapped(COUNTER) as process:
        assert process.stdout is not None
        sent = ["SIGHUP", "SIGINT", "SIGUSR1", "SIGWINCH", "SIGCONT", "SIGTERM"]
        for place, name in enumerate(sent, start=1):
            process.send_signal(getattr(signal, name))
            assert process.stdout.readline().split() == sent[:place]
        assert process.wait(LIMIT_S) == 3


def test_a_stopped_wrapper_stops_the_program_and_goes_on_with_it() -> None:
    ticking = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(0.05)"
    with wrapped(ticking) as process:
        child = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
        process.send_signal(signal.SIGTSTP)
        wait_for_state(child, "T")
        wait_for_state(process.pid, "T")  # as a shell does, which learns only of its own child
        process.send_signal(signal.SIGCONT)
        wait_for_state(child, "SR")
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 128 + signal.SIGTERM


def wait_for_state(pid: int, states: str) -> None:
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] in states:
            return
        time.sleep(0.02)
    pytest.fail(f"process {pid} never was in state {states}")


def test_ctrl_c_on_a_terminal_reaches_the_program_once() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", WRAPPER, sys.executable, "-c", COUNTER])
    try:
        assert read_until(terminal, "ready")
        os.write(terminal, b"\x03")
        assert read_until(terminal, "SIGINT")
        os.kill(pid, signal.SIGUSR1)
        said = read_until(terminal, "SIGUSR1")
        assert said.splitlines()[-1].split() == ["SIGINT", "SIGUSR1"]
        os.kill(pid, signal.SIGTERM)
        read_until(terminal, "SIGTERM")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    finally:
        os.close(terminal)


def read_until(terminal: int, word: str) -> str:
    said, end = "", time.monotonic() + LIMIT_S
    while word not in said and time.monotonic() < end:
        if not select.select([terminal], [], [], 0.5)[0]:
            continue
        try:
            said += os.read(terminal, 4096).decode()
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            break
    assert word in said
    return said.strip()


def test_a_thread_that_takes_the_signal_cannot_hide_the_end() -> None:
    done = threading.Event()
    idle = threading.Thread(target=done.wait)
    idle.start()
    try:
        assert sh("exit 5") == 5
    finally:
        done.set()
        idle.join()
