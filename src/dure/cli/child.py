"""Run a program as a child that notices nothing of it: same terminal, same signals, same end.

The child stays in this process's group, so that the terminal's signals, job control and pipelines
treat both as one. What the terminal sends reaches the child by itself; what somebody sends to this
process alone is handed on. Signals are waited for, not handled: nothing runs between two of them.
"""

import contextlib
import errno
import os
import signal
from collections.abc import Collection, Mapping, Sequence
from typing import NoReturn

from dure.domain.errors import DureError

EXIT_NOT_RUN = 126
EXIT_NOT_FOUND = 127
_SIGNALLED = 128

_HANDED_ON = {
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1),
    *(signal.SIGUSR2, signal.SIGALRM, signal.SIGWINCH, signal.SIGCONT, signal.SIGTSTP),
    *(signal.SIGPWR, signal.SIGVTALRM, signal.SIGURG),
} | set(range(signal.SIGRTMIN, signal.SIGRTMAX + 1))
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)
"""What Python ignores for itself; a program starts with the usual behaviour."""

_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.01, 1.0
"""The child's end is signalled; where another thread takes that signal, it is seen by looking."""


class NotStarted(DureError):  # noqa: N818, a sentence for people, named as they would say it
    """The program could not be started; `exit_code` is what a shell would give."""

    def __init__(self, what: str, remedy: str, exit_code: int) -> None:
        super().__init__(what, remedy)
        self.exit_code = exit_code


def run_child(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run to the end; the exit code, or 128 + N where signal N ended it."""
    waited = {number for number in _HANDED_ON if signal.getsignal(number) != signal.SIG_IGN}
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, nobody learns how it ended
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited | {signal.SIGCHLD})
    try:
        pid = _start(command, environment, before)
        look_s = _FIRST_LOOK_S
        while True:
            info = signal.sigtimedwait(waited | {signal.SIGCHLD}, look_s)
            if info is None:
                look_s = min(2 * look_s, _LONGEST_LOOK_S)
            elif info.si_signo != signal.SIGCHLD:
                _hand_on(info, pid)
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else _SIGNALLED - code
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start(command: Sequence[str], environment: Mapping[str, str], mask: Collection[int]) -> int:
    try:
        return os.posix_spawnp(
            command[0], list(command), environment, setsigmask=mask, setsigdef=_RESTORED
        )
    except OSError as error:
        _refuse(command[0], error)
    except ValueError as error:
        raise NotStarted(
            f"'{command[0]}' cannot be run ({error})", "correct the command", EXIT_NOT_RUN
        ) from error


def _refuse(program: str, error: OSError) -> NoReturn:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        remedy = "check its name" if os.sep in program else "check its name and PATH"
        raise NotStarted(f"no program '{program}' was found", remedy, EXIT_NOT_FOUND) from error
    remedies = {
        errno.EACCES: "make it executable",
        errno.ENOEXEC: "name its interpreter first, as in 'sh SCRIPT'",
    }
    reason = os.strerror(error.errno or 0).lower()
    remedy = remedies.get(error.errno or 0, "check the command")
    raise NotStarted(f"'{program}' cannot be run ({reason})", remedy, EXIT_NOT_RUN) from error


def _hand_on(info: signal.struct_siginfo, pid: int) -> None:
    """Pass on what was sent to this process; the kernel's own went to the whole group."""
    by_kernel = info.si_code > 0
    if not by_kernel:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, info.si_signo)
    if info.si_signo == signal.SIGTSTP:
        _stop_too()


def _stop_too() -> None:
    """Stop as any process of a job does; returns when the job is continued.

    Who was continued meanwhile does not stop: that would forget the continuing for good.
    """
    if signal.SIGCONT in signal.sigpending():
        return
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})
