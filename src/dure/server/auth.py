"""Who asks, by a bearer token of Dure's own or, in `oidc`, of an OpenID Connect issuer."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from dure.domain.errors import DureError
from dure.domain.fleet.accounts import Role
from dure.server.ports import State
from dure.stores.repos.access import hash_secret
from dure.stores.rows import Job, Token

_MOST_CACHED = 10_000


class UnauthenticatedError(DureError):
    """Nobody that is known; says nothing of why, beyond what helps an honest asker."""


class ForbiddenError(DureError):
    """Somebody who may not do that."""


class IssuerAwayError(DureError):
    """Who vouches for people cannot be asked now."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and what that allows."""

    actor: str
    """`token:ID` or `oidc:SUBJECT`; what the audit log calls it."""
    role: Role
    tenant: str | None = None
    """Node of the tenants' tree that it may see and touch, with all below; None: all of them."""
    cluster: str | None = None

    @classmethod
    def of_token(cls, token: Token) -> "Caller":
        """The bearer of a token."""
        return cls(f"token:{token.id}", token.role, token.tenant, token.cluster)

    def sees(self, path: str) -> bool:
        """Whether a node of the tenants' tree is its own or below."""
        return self.tenant is None or path == self.tenant or path.startswith(f"{self.tenant}/")

    def sees_job(self, job: Job) -> bool:
        """Whether a job is its own."""
        return self.sees(path_of(job.tenant, job.team, job.service))

    @property
    def root(self) -> str | None:
        """The tenant it belongs to, whatever its node; None: none."""
        return None if self.tenant is None else self.tenant.partition("/")[0]

    @property
    def whole_tenant(self) -> bool:
        """Whether it sees all of a tenant, or all tenants."""
        return self.tenant is None or "/" not in self.tenant


def path_of(tenant: str, team: str = "", service: str = "") -> str:
    """A node of the tenants' tree."""
    return "/".join(part for part in (tenant, team, service) if part)


class IdentityProvider(Protocol):
    """Knows people by tokens that somebody else signed."""

    async def identify(self, token: str) -> Caller:
        """Who bears it; raises `UnauthenticatedError` where it is not good."""


class TokenGate:
    """Looks tokens up, and remembers the good ones for a moment."""

    def __init__(
        self,
        state: State,
        *,
        cache_s: float = 5.0,
        now_ns: Callable[[], int] = time.time_ns,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state = state
        self._cache_s = cache_s
        self._now_ns = now_ns
        self._monotonic_s = monotonic_s
        self._cache: OrderedDict[str, tuple[float, Token]] = OrderedDict()

    async def authenticate(self, secret: str) -> Token:
        """The token of a secret that holds now; `UnauthenticatedError` where there is none."""
        known = hash_secret(secret)
        cached = self._cache.get(known)
        if cached is not None:
            until_s, token = cached
            expired = token.expires_ns is not None and token.expires_ns <= self._now_ns()
            if self._monotonic_s() < until_s and not expired:
                return token
            del self._cache[known]
        async with self._state.reading() as tx:
            found = await tx.tokens.check(secret)
        if found is None:
            raise unauthenticated()
        self._cache[known] = (self._monotonic_s() + self._cache_s, found)
        if len(self._cache) > _MOST_CACHED:
            self._cache.popitem(last=False)
        return found

    def forget(self, token_id: str) -> None:
        """Let a revocation be felt here at once."""
        for known, (_, token) in list(self._cache.items()):
            if token.id == token_id:
                del self._cache[known]


class Gate:
    """Who asks, whichever kind of token it shows."""

    def __init__(self, tokens: TokenGate, people: IdentityProvider | None = None) -> None:
        self.tokens = tokens
        self._people = people

    async def identify(self, secret: str) -> Caller:
        """Who bears a token; `UnauthenticatedError` where it is not good."""
        if self._people is not None and secret.count(".") == 2:
            return await self._people.identify(secret)
        return Caller.of_token(await self.tokens.authenticate(secret))


def unauthenticated() -> UnauthenticatedError:
    """The same words for unknown, expired and revoked tokens: nobody learns which it was."""
    return UnauthenticatedError(
        "the token is unknown, expired or revoked", "ask an administrator for a new one"
    )
