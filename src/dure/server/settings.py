"""How a server behaves: where it listens, how patient it is, how long it keeps history."""

import socket
from dataclasses import dataclass, field

from dure.server.handover import Pace
from dure.server.oidc_settings import OidcSettings
from dure.server.rest.settings import RestSettings
from dure.stores.retention import Retention

_ALL_ADDRESSES = ("0.0.0.0", "[::]", "::")


@dataclass(frozen=True)
class Listening:
    """Addresses of one server, and what makes them safe."""

    rest_host: str = "127.0.0.1"
    rest_port: int = 7600
    grpc_host: str = "127.0.0.1"
    grpc_port: int = 7601
    advertise_url: str = ""
    """Where other servers reach its REST interface; empty: where it listens."""
    tls_cert: str = ""
    tls_key: str = ""
    """Files; both empty: no TLS, which only loopback may do without `--insecure`."""
    tls_client_ca: str = ""
    """Members must show a certificate of this authority beside their token; empty: token alone."""

    @property
    def url(self) -> str:
        """Where other servers reach its REST interface."""
        scheme = "https" if self.tls_cert else "http"
        host = socket.gethostname() if self.rest_host in _ALL_ADDRESSES else self.rest_host
        return self.advertise_url or f"{scheme}://{host}:{self.rest_port}"


@dataclass(frozen=True)
class ServerSettings:
    """What an operator may choose; every default is pinned by a test."""

    listening: Listening = field(default_factory=Listening)
    rest: RestSettings = field(default_factory=RestSettings)
    oidc: OidcSettings | None = None
    """Who vouches for people; None: only tokens of Dure's own are taken."""
    lease_ttl_s: float = 5.0
    """How long a leader that falls silent keeps others from leading."""
    lost_after_s: float = 30.0
    """A cluster without contact for so long counts as cut off."""
    fence_margin: float = 0.25
    """Added to a job's fence-after, as a share of it, before it is started elsewhere,"""
    fence_margin_least_s: float = 10.0
    """but never less than this."""
    shift_s: float = 10.0
    """Over which requests pass to the new place of a service that moves,"""
    drain_s: float = 5.0
    """and then for what its old place has begun."""
    warm_s: float = 600.0
    """For the new place of a service to answer; else it stays where it is."""
    silence_s: float = 6.0
    """A link without a word for so long is dropped, by either side."""
    ping_s: float = 2.0
    """How often each side says a word at least."""
    round_s: float = 0.2
    """Least time between two rounds of the planner."""
    idle_round_s: float = 5.0
    """Most time between two rounds."""
    move_scan_s: float = 3600.0
    """How often it is looked for running work that would be cheaper elsewhere."""
    poll_s: float = 1.0
    """How often the database is looked at where no hint came."""
    gone_kept_s: float = 300.0
    """How long a cluster keeps what is left of an attempt: what it wrote can be read so long,"""
    gone_kept: int = 1000
    """but of so many at most, the newest."""
    retention: Retention = field(default_factory=Retention)
    prune_s: float = 600.0
    """How often history is pruned."""
    measure_s: float = 5.0
    """How often what is measured is kept."""

    @property
    def pace(self) -> Pace:
        """At which services pass from one place to the next."""
        return Pace(self.shift_s, self.drain_s)
