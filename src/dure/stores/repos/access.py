"""Who may, who already did, and who did what: tokens, idempotency keys, the audit log."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from dure.domain.fleet.accounts import Role
from dure.stores import tables
from dure.stores.errors import InvalidError, KeyReusedError, NotFoundError
from dure.stores.ids import new_id
from dure.stores.repos.base import Keyed, Link, Page, changed_rows, values_of
from dure.stores.rows import AuditEntry, IdempotencyKey, Json, Token

_SECRET_BYTES = 32
_PREFIX = "dure_"
"""So that scanners for leaked secrets can find ours."""
_TOKENS, _KEYS, _AUDIT = tables.tokens, tables.idempotency_keys, tables.audit


def hash_secret(secret: str) -> str:
    """What is stored of a secret. It has 256 random bits, so no salt and no slow hash is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()


@dataclass(frozen=True)
class Grant:
    """What a new token shall allow."""

    role: Role
    name: str = ""
    tenant: str | None = None
    cluster: str | None = None
    expires_ns: int | None = None


class Tokens(Keyed[Token]):
    """Credentials."""

    table, noun, row = tables.tokens, "token", Token

    async def issue(self, grant: Grant) -> tuple[Token, str]:
        """A new token and its secret, which is told this once and stored nowhere."""
        if grant.role is Role.TENANT and grant.tenant is None:
            raise InvalidError("a token of the role tenant must name its tenant", "name one")
        if grant.role is Role.MEMBER and grant.cluster is None:
            raise InvalidError("a token of the role member must name its cluster", "name one")
        secret = _PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
        return await self.add(Token(new_id(), hash_secret(secret), **values_of(grant))), secret

    async def check(self, secret: str) -> Token | None:
        """The token of a secret if it holds now; None where it is unknown, expired or revoked."""
        found = await self._rows(
            sa.select(_TOKENS).where(
                _TOKENS.c.secret_hash == hash_secret(secret),
                _TOKENS.c.revoked_ns.is_(None),
                sa.or_(_TOKENS.c.expires_ns.is_(None), _TOKENS.c.expires_ns > self._link.now_ns),
            )
        )
        return found[0] if found else None

    async def revoke(self, token_id: str) -> None:
        """Make a token worthless from now on."""
        done = await self._link.execute(
            _TOKENS.update()
            .where(_TOKENS.c.id == token_id)
            .values(revoked_ns=sa.func.coalesce(_TOKENS.c.revoked_ns, self._link.now_ns)),
            self._subject(token_id),
        )
        if changed_rows(done) == 0:
            raise NotFoundError(f"there is no {self._subject(token_id)}")


class IdempotencyKeys:
    """Requests that were carried out once, by tenant and key."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def claim(self, key: IdempotencyKey) -> Json | None:
        """None: the key is new, and its answer is stored now. Otherwise the first answer.

        A key that came before with another body is refused. Do in the same transaction what the
        answer says.
        """
        if await self.claim_all([key]):
            return None
        return await self.answer(key)

    async def claim_all(self, keys: Sequence[IdempotencyKey]) -> set[tuple[str, str]]:
        """Which of the keys, all different, are new; waits for others that claim the same ones."""
        if not keys:
            return set()
        rows = [values_of(replace(key, created_ns=self._link.now_ns)) for key in keys]
        dialect = postgresql if self._link.connection.dialect.name == "postgresql" else sqlite
        statement: Any = dialect.insert(_KEYS).values(rows).on_conflict_do_nothing()
        stored = await self._link.execute(
            statement.returning(_KEYS.c.tenant, _KEYS.c.key), f"key {keys[0].key}"
        )
        return {(row[0], row[1]) for row in stored}

    async def answer(self, key: IdempotencyKey) -> Json:
        """The first answer to a request that came again."""
        found = await self._link.execute(
            sa.select(_KEYS).where(_KEYS.c.tenant == key.tenant, _KEYS.c.key == key.key),
            f"key {key.key}",
        )
        first = found.mappings().first()
        if first is None:
            raise NotFoundError(f"there is no idempotency key {key.key}")
        if first["body_hash"] != key.body_hash:
            raise KeyReusedError(
                f"the idempotency key {key.key!r} came before with another body",
                "use a new key for a new request",
            )
        answer: Json = first["answer"]
        return answer


@dataclass(frozen=True)
class AuditFilter:
    """Which entries are wanted; what is left empty does not matter."""

    tenant: str | None = None
    actor: str | None = None
    subject: str | None = None
    action: str | None = None
    from_ns: int | None = None
    to_ns: int | None = None


class Audit:
    """Who asked for what, and how it ended."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def add(self, entry: AuditEntry) -> None:
        """Write an entry."""
        await self.add_all([entry])

    async def add_all(self, entries: Sequence[AuditEntry]) -> None:
        """Write entries, all or none."""
        if entries:
            rows = [values_of(entry) for entry in entries]
            await self._link.execute(_AUDIT.insert(), "audit entry", rows)

    async def page(
        self, wanted: AuditFilter | None = None, *, cursor: str = "", limit: int = 100
    ) -> Page[AuditEntry]:
        """Entries, the newest first, from where the cursor points."""
        asked = wanted or AuditFilter()
        where = [
            _AUDIT.c[name] == value
            for name in ("tenant", "actor", "subject", "action")
            if (value := getattr(asked, name)) is not None
        ]
        if asked.from_ns is not None:
            where.append(_AUDIT.c.at_ns >= asked.from_ns)
        if asked.to_ns is not None:
            where.append(_AUDIT.c.at_ns < asked.to_ns)
        if cursor:
            where.append(_AUDIT.c.id < cursor)
        found = await self._link.execute(
            sa.select(_AUDIT).where(*where).order_by(_AUDIT.c.id.desc()).limit(limit + 1),
            "audit log",
        )
        rows = tuple(AuditEntry(**row) for row in found.mappings())
        return Page(rows[:limit], rows[limit - 1].id if len(rows) > limit else "")
