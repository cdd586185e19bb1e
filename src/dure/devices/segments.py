"""One shared memory of the data plane: a sealed memfd, mapped here, handed out to others."""

import ctypes
import fcntl
import mmap
import os
import resource
from contextlib import suppress
from typing import Generic, TypeVar

_T = TypeVar("_T", bound=ctypes.Structure)

_F_ADD_SEALS = 1033
_F_SEAL_SEAL = 1
_F_SEAL_SHRINK = 2
_F_SEAL_GROW = 4
_F_SEAL_FUTURE_WRITE = 16
"""Of linux/fcntl.h; Python 3.11 names none of them."""


_DESCRIPTORS = 16_384
"""Room for several GPUs: each takes some two hundred, and the usual limit is 1,024."""


def make_room_for_descriptors() -> None:
    """Raise this process's own limit as far as it may and needs to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Segment(Generic[_T]):
    """A structure in shared memory that nobody can truncate.

    `write_fd` is for who may write it, `read_fd` cannot be mapped for writing. A segment made with
    `agent_alone` cannot be mapped for writing by anybody any more, whatever descriptor he has.
    """

    def __init__(self, name: str, structure: type[_T], *, agent_alone: bool = False) -> None:
        self.bytes = _whole_pages(ctypes.sizeof(structure))
        self.write_fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.fchmod(self.write_fd, 0o600)
        os.ftruncate(self.write_fd, self.bytes)
        self._map = mmap.mmap(self.write_fd, self.bytes)
        self.words: _T = structure.from_buffer(self._map)
        fcntl.fcntl(self.write_fd, _F_ADD_SEALS, _F_SEAL_SHRINK | _F_SEAL_GROW)
        if agent_alone:  # an older kernel has no such seal; then the read-only descriptor must do
            with suppress(OSError):
                fcntl.fcntl(self.write_fd, _F_ADD_SEALS, _F_SEAL_FUTURE_WRITE)
        fcntl.fcntl(self.write_fd, _F_ADD_SEALS, _F_SEAL_SEAL)
        self.read_fd = os.open(f"/proc/self/fd/{self.write_fd}", os.O_RDONLY | os.O_CLOEXEC)

    def wipe(self) -> None:
        """Set every word to 0."""
        ctypes.memset(ctypes.addressof(self.words), 0, self.bytes)

    def close(self) -> None:
        """Give the descriptors back; the memory goes when nobody maps it any more."""
        os.close(self.write_fd)
        os.close(self.read_fd)


def _whole_pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
