"""A hint, whom it concerns, and the bounded queue of one who listens."""

import asyncio
import re
from collections import deque
from dataclasses import dataclass

from dure.domain.errors import InputError

_WORD = re.compile(r"[A-Za-z0-9_-]+")
QUEUE_LENGTH = 1024
"""Hints that one listener may leave lying; beyond, the oldest go. It looks anyway, now and then."""
PAYLOAD_BYTES = 64 * 1024
"""A hint says where to look; what is to be seen there is in the database."""


@dataclass(frozen=True, slots=True)
class Hint:
    """Something changed."""

    topic: str
    payload: bytes = b""


def checked_topic(topic: str, payload: bytes = b"") -> str:
    """The topic, if hints on it can be carried by every backend."""
    if not all(_WORD.fullmatch(word) for word in topic.split(".")):
        raise InputError(f"{topic!r} is no topic", "join words of letters, digits, - and _ by dots")
    if len(payload) > PAYLOAD_BYTES:
        raise InputError(f"a hint on {topic} has {len(payload)} bytes", "say where to look instead")
    return topic


def checked_pattern(pattern: str) -> str:
    """The pattern, if it is one."""
    words = pattern.split(".")
    if words[-1] == ">":
        words.pop()
    if not all(word == "*" or _WORD.fullmatch(word) for word in words):
        raise InputError(f"{pattern!r} is no pattern", "use words, * for one word, > at the end")
    return pattern


def matches(pattern: str, topic: str) -> bool:
    """Whether hints on a topic concern who asked for a pattern."""
    words, asked = topic.split("."), pattern.split(".")
    if asked[-1] == ">":
        asked.pop()
        if len(words) <= len(asked):
            return False
        words = words[: len(asked)]
    return len(words) == len(asked) and all(
        wanted in ("*", word) for wanted, word in zip(asked, words, strict=True)
    )


class HintQueue:
    """The hints that one listener has not taken yet; keeps the newest. Iterate it to listen."""

    def __init__(self) -> None:
        self._hints: deque[Hint] = deque(maxlen=QUEUE_LENGTH)
        self._arrived = asyncio.Event()
        self._closed = False

    def put(self, hint: Hint) -> None:
        """Let a hint arrive; never waits."""
        if not self._closed:
            self._hints.append(hint)
            self._arrived.set()

    def close(self) -> None:
        """No more hints: iteration ends after those that have arrived."""
        self._closed = True
        self._arrived.set()

    def __aiter__(self) -> "HintQueue":
        return self

    async def __anext__(self) -> Hint:
        while not self._hints:
            if self._closed:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._hints.popleft()
