"""Reads what a program has written and goes on writing; what was given up of it is skipped."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import BinaryIO

CHUNK_BYTES = 64 * 1024
_LOOK_S = 0.2


async def read_output(
    file: Path, over: Callable[[], bool] | None, tail: int | None
) -> AsyncIterator[bytes]:
    """Its last lines, or all; where `over` is given go on until that says the program ended."""
    stream = await _open(file, over)
    if stream is None:
        return
    try:
        lost = await asyncio.to_thread(_begin, stream)
        if tail is not None:
            await asyncio.to_thread(_seek_tail, stream, tail, lost)
        elif lost:
            yield f"dure: the first {lost} bytes were too much to keep\n".encode()
        while True:
            ended = over is None or over()
            while chunk := await asyncio.to_thread(stream.read, CHUNK_BYTES):
                yield chunk
            if ended:
                return
            await asyncio.sleep(_LOOK_S)
    finally:
        stream.close()


async def _open(file: Path, over: Callable[[], bool] | None) -> BinaryIO | None:
    """The file, once there is one."""
    while True:
        ended = over is None or over()
        try:
            return await asyncio.to_thread(file.open, "rb", 0)
        except FileNotFoundError:
            if ended:
                return None
        await asyncio.sleep(_LOOK_S)


def _begin(stream: BinaryIO) -> int:
    """Put the stream at the first line that is kept; returns what lies before."""
    try:
        begin = os.lseek(stream.fileno(), 0, os.SEEK_DATA)
    except OSError:  # nothing is there yet, or the file system does not tell
        begin = 0
    stream.seek(begin)
    if begin:
        part = stream.read(CHUNK_BYTES)
        begin = stream.seek(begin + part.find(b"\n") + 1)
    return begin


def _seek_tail(stream: BinaryIO, lines: int, begin: int) -> None:
    """Put the stream before its last lines, none of them before `begin`."""
    end = stream.seek(0, 2)
    at, wanted = end, lines + 1
    while at > begin and wanted > 0:
        step = min(CHUNK_BYTES, at - begin)
        at -= step
        stream.seek(at)
        block = stream.read(step)
        if at + step == end and not block.endswith(b"\n"):
            wanted -= 1
        position = len(block)
        while wanted > 0 and (position := block.rfind(b"\n", 0, position)) >= 0:
            wanted -= 1
        if wanted == 0:
            stream.seek(at + position + 1)
            return
    stream.seek(begin if lines else end)
