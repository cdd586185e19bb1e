"""A process that calls the driver's process lock for its parent, so that a hang is only its own.

Started as `python -m dure.runtimes.cuda_helper`. Reads one request a line (`lock PID TIMEOUT_MS`,
`unlock PID`, `state PID`, `probe`) and answers each with `CODE VALUE`: CUDA's result, and the state
or the driver's version. It ends at once when its parent does, also in the middle of a call: a lock
that came to be after everybody had left would never be opened.
"""

import ctypes
import os
import queue
import sys
import threading

LIBRARY = "libcuda.so.1"
NO_LIBRARY = -1
NO_SYMBOL = -2
_SYMBOLS = ("cuCheckpointProcessLock", "cuCheckpointProcessUnlock", "cuCheckpointProcessGetState")
_RESERVED_WORDS = 7


class _LockArgs(ctypes.Structure):
    """CUcheckpointLockArgs: the time-out, then nothing but zeros."""

    _fields_ = (
        ("timeout_ms", ctypes.c_uint),
        ("reserved_word", ctypes.c_uint),
        ("reserved", ctypes.c_uint64 * _RESERVED_WORDS),
    )


class Driver:
    """The four calls, with the library loaded when first needed."""

    def __init__(self) -> None:
        self._library: ctypes.CDLL | None = None

    def answer(self, words: list[str]) -> tuple[int, int]:
        """Code and value of one request."""
        if self._library is None:
            try:
                self._library = ctypes.CDLL(LIBRARY)
            except OSError:
                return NO_LIBRARY, 0
            code = int(self._library.cuInit(0))
            if code != 0:
                self._library = None
                return code, 0
        if not all(hasattr(self._library, name) for name in _SYMBOLS):
            return NO_SYMBOL, 0
        return self._call(self._library, words)

    @staticmethod
    def _call(library: ctypes.CDLL, words: list[str]) -> tuple[int, int]:
        value = ctypes.c_int(0)
        match words:
            case ["probe"]:
                return int(library.cuDriverGetVersion(ctypes.byref(value))), value.value
            case ["lock", pid, timeout_ms]:
                args = _LockArgs(timeout_ms=int(timeout_ms))
                return int(library.cuCheckpointProcessLock(int(pid), ctypes.byref(args))), 0
            case ["unlock", pid]:
                return int(library.cuCheckpointProcessUnlock(int(pid), None)), 0
            case ["state", pid]:
                code = library.cuCheckpointProcessGetState(int(pid), ctypes.byref(value))
                return int(code), value.value
        return 1, 0


def main() -> None:
    """Answer until the parent is gone."""
    requests: queue.SimpleQueue[list[str]] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            requests.put(line.split())
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    driver = Driver()
    while True:
        code, value = driver.answer(requests.get())
        sys.stdout.write(f"{code} {value}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
