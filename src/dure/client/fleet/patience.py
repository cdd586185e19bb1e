"""When to ask again, and whom: the same rules for both doors."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx

from dure.client.fleet.errors import FleetError, UnreachableError, refusal
from dure.kit.backoff import Backoff

_AWAY = frozenset({502, 503, 504})
_BUSY = 429


@dataclass(frozen=True)
class Patience:
    """How long a client tries."""

    within_s: float = 15.0
    """From the first try to the last, where it may be tried again."""
    answer_s: float = 30.0
    """For an answer, beside calls that wait by themselves."""


class Tries:
    """The tries of one call, over the servers in turn."""

    def __init__(
        self,
        servers: Sequence[str],
        first: int,
        patience: Patience,
        *,
        repeatable: bool,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._servers = servers
        self.server = first % len(servers)
        """The one to ask now, by number."""
        self._repeatable = repeatable
        self._monotonic_s = monotonic_s
        self._until_s = monotonic_s() + patience.within_s
        self._backoff = Backoff(first_s=0.05, limit_s=1.0)

    @property
    def url(self) -> str:
        """The server to ask now."""
        return self._servers[self.server]

    def failed(self, error: httpx.TransportError) -> float:
        """How long to wait before the next try; raises where there is none."""
        sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        gone = UnreachableError(
            f"no answer from {', '.join(self._servers)} ({_words(error)})",
            "check that `dure server` runs and its address",
        )
        if sent and not self._repeatable:
            raise gone from error
        self.server = (self.server + 1) % len(self._servers)
        return self._wait_s(gone)

    def answered(self, status: int, headers: httpx.Headers, body: bytes) -> float:
        """The same for an answer that is a refusal; raises it where it is final."""
        told = refusal(status, body)
        if status == _BUSY:
            return self._wait_s(told, _seconds(headers))
        if status in _AWAY and self._repeatable:
            self.server = (self.server + 1) % len(self._servers)
            return self._wait_s(told)
        raise told

    def _wait_s(self, otherwise: FleetError, at_least_s: float = 0.0) -> float:
        wait_s = max(self._backoff.next_s(), at_least_s)
        if self._monotonic_s() + wait_s > self._until_s:
            raise otherwise
        return wait_s


def _seconds(headers: httpx.Headers) -> float:
    said = headers.get("retry-after", "")
    return float(said) if said.isdigit() else 0.0


def _words(error: httpx.TransportError) -> str:
    return " ".join(str(error).split()) or type(error).__name__
