"""Lines out of a response that does not end: cut at newlines only, and never longer than a bound.

httpx's own line reader cuts at every character that Unicode takes for a line's end, also in the
middle of a JSON text.
"""

from collections.abc import AsyncGenerator, AsyncIterator

MAX_LINE_BYTES = 8 << 20
"""Above the largest object etcd takes (1.5 MiB) in JSON with everything escaped."""


async def lines_of(
    chunks: AsyncIterator[bytes], max_bytes: int = MAX_LINE_BYTES
) -> AsyncGenerator[bytes]:
    """Each line without its newline, also a last one that has none; a longer one in pieces."""
    kept: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            yield b"".join((*kept, part))
            kept, size = [], 0
        if rest:
            kept.append(rest)
            size += len(rest)
        if size > max_bytes:
            yield b"".join(kept)
            kept, size = [], 0
    if kept:
        yield b"".join(kept)
