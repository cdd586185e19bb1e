"""The link itself: its begin and end, logs and access asked for over it, all words there are."""

from dataclasses import dataclass, field

from dure.domain.fleet.protocol.desired import AttemptKey, Plan, PlanAnswer
from dure.domain.fleet.protocol.reports import Report
from dure.domain.fleet.protocol.services import Routes, Signals
from dure.domain.fleet.protocol.wishes import Standings, Wishes
from dure.domain.ids import ClusterId


@dataclass(frozen=True, slots=True)
class Hello:
    """The first word of a member."""

    cluster: ClusterId
    kind: str
    """`kubernetes` or `process`."""
    incarnation: str
    """New whenever the member begins to count its reports anew."""
    version: str
    epoch: int = 0
    revision: int = 0
    """Of the last plan it took."""
    takes_signals: bool = False
    """Whether this member knows what `Signals` are."""
    takes_routes: bool = False
    """Whether this member wants to hear where services answer."""


@dataclass(frozen=True, slots=True)
class Welcome:
    """The centre's answer to a hello."""

    version: str
    heard: int
    """The last report of this incarnation that is stored; 0: none."""
    now_ns: int
    """The centre's clock."""
    silence_s: float
    """After so long without a word the member looks for another server."""
    takes_wishes: bool = False
    """Whether this server knows what `Wishes` are."""


@dataclass(frozen=True, slots=True)
class Ack:
    """The centre has stored a report, and all before it."""

    seq: int


@dataclass(frozen=True, slots=True)
class Ping:
    """Somebody is there; said when nothing else is."""


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The centre ends the link."""

    why: str
    retry_elsewhere: bool = True
    """Whether another server would take the member at once; else nobody will until told anew."""


@dataclass(frozen=True, slots=True)
class LogRequest:
    """Somebody wants to read what an instance wrote."""

    id: int
    """Of the request, chosen by the centre; its chunks carry it."""
    key: AttemptKey
    index: int
    follow: bool = False
    """Whether to go on with what it will write."""
    tail: int | None = None
    """Lines to begin with, from the end; None: all."""


@dataclass(frozen=True, slots=True)
class LogCancel:
    """Nobody reads that any more."""

    id: int


@dataclass(frozen=True, slots=True)
class LogChunk:
    """A piece of what an instance wrote, in order."""

    id: int
    """Of the request."""
    data: bytes = b""
    end: bool = False
    """Whether it is the last."""
    error: str = ""
    """Of a last one: why there is no more; empty: that was all."""


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """Somebody wants to speak to a cluster's API server as the account of a virtual cluster."""

    id: int
    """Of the request, chosen by the centre; its answer carries it."""
    name: str
    """Of the virtual cluster."""
    for_s: int
    """How long the token shall hold."""


@dataclass(frozen=True, slots=True)
class AccessAnswer:
    """A token for that, and where to show it."""

    id: int
    """Of the request."""
    token: str = field(default="", repr=False)
    url: str = ""
    """Of the API server, as the member reaches it or was told that people do."""
    authority: str = ""
    """Whom to trust about it, in PEM."""
    namespace: str = ""
    error: str = ""
    """Why there is none; empty: there is."""


MemberWord = Hello | Report | PlanAnswer | LogChunk | Ping | Wishes | AccessAnswer
"""All that a member says."""
CentreWord = (
    Welcome
    | Plan
    | Ack
    | LogRequest
    | LogCancel
    | Ping
    | Goodbye
    | Standings
    | Signals
    | AccessRequest
    | Routes
)
"""All that the centre says."""
