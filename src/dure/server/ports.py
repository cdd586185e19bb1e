"""What the server needs of the world: a store of state, a bus of hints, a way to logs, who may."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol, TypeVar

from dure.domain.errors import DureError
from dure.domain.fleet.protocol.desired import AttemptKey
from dure.domain.fleet.protocol.link import AccessAnswer
from dure.domain.fleet.protocol.services import LoadSignal
from dure.domain.ids import ClusterId
from dure.stores.bus.hints import Hint
from dure.stores.dump import DumpSummary
from dure.stores.retention import Pruned, Retention
from dure.stores.rows import Json, Lease, Token
from dure.stores.submissions import Submission
from dure.stores.transaction import Transaction

ResultT = TypeVar("ResultT")


class Leadership(Protocol):
    """Who decides: one server at a time, by the clock of the store."""

    async def acquire(self, holder: str, ttl_s: float) -> Lease | None:
        """Lead, with a new epoch; None while another server does."""

    async def renew(self, lease: Lease, ttl_s: float) -> Lease:
        """Lead for longer; `FencedError` once the lease is over."""

    async def release(self, lease: Lease) -> None:
        """Let another server lead at once."""


class Submissions(Protocol):
    """The door for new jobs."""

    async def submit(self, submission: Submission) -> Json:
        """Store jobs durably; the answer, or the first one where the key came before."""


class State(Leadership, Submissions, Protocol):
    """The truth of the fleet. Errors are those of `dure.stores.errors`."""

    def transaction(self, *, fence: int | None = None) -> AbstractAsyncContextManager[Transaction]:
        """Stored whole or not at all; with the leader's epoch, refused once another leads."""

    def reading(self) -> AbstractAsyncContextManager[Transaction]:
        """One consistent state, for reads alone."""

    async def retrying(
        self,
        work: Callable[[Transaction], Awaitable[ResultT]],
        *,
        within_s: float = 15.0,
        fence: int | None = None,
        read_only: bool = False,
    ) -> ResultT:
        """A whole transaction that may be done twice, again while the database is away."""

    async def migrate(self) -> str:
        """Bring the schema up to date; the first thing at start."""

    async def ping(self) -> None:
        """Raise where the database does not answer."""

    async def prune(self, keep: Retention, *, batch: int = 1000) -> Pruned:
        """Remove history that is older than is to be kept."""

    async def export(self, file: Path) -> DumpSummary:
        """Back everything up."""

    async def import_(self, file: Path) -> DumpSummary:
        """Restore a backup into an empty database."""

    async def close(self) -> None:
        """Finish what was submitted, then disconnect."""


class Bus(Protocol):
    """Hints that something changed. Any may be lost: look at the store now and then anyway."""

    @property
    def healthy(self) -> bool:
        """Whether hints are carried now."""

    async def start(self) -> None:
        """Begin to connect; never waits for that."""

    async def close(self) -> None:
        """Disconnect, and end all subscriptions."""

    def publish(self, topic: str, payload: bytes = b"") -> None:
        """Give a hint; never waits and never fails for want of a server."""

    def subscribe(self, pattern: str) -> AbstractAsyncContextManager[AsyncIterator[Hint]]:
        """The hints that match, from now until the context is left."""


class NotLinkedHere(DureError):  # noqa: N818 - an answer: ask there
    """Another server has the link to the cluster, or none has."""

    def __init__(self, cluster: str, url: str) -> None:
        remedy = f"ask {url}" if url else "wait until its member is back"
        super().__init__(f"this server has no link to cluster {cluster}", remedy)
        self.url = url
        """Of the REST interface of the server that has it; empty: none has."""


class LogSource(Protocol):
    """What instances wrote, brought over the links to their clusters."""

    def logs(
        self, cluster: ClusterId, key: AttemptKey, index: int, *, follow: bool, tail: int | None
    ) -> AsyncIterator[bytes]:
        """Chunks as they come; `NotLinkedHere` before the first, `DureError` where none is."""


class AccessSource(Protocol):
    """Tokens for namespaces of virtual clusters, brought over the links to their clusters."""

    async def access(self, cluster: ClusterId, name: str, for_s: int) -> AccessAnswer:
        """A token; `NotLinkedHere`, or `DureError` where there is none."""


class SignalSink(Protocol):
    """Takes what is said of loads to the members that hold the services."""

    async def signal(self, cluster: ClusterId, signal: LoadSignal) -> None:
        """Pass it on soon; `NotLinkedHere`, or `DureError` where its member takes none."""


class Gatekeeper(Protocol):
    """Who is who."""

    async def authenticate(self, secret: str) -> Token:
        """The token of a secret that holds now; `DureError` where there is none."""
