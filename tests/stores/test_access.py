import pytest
import sqlalchemy as sa

from dure.domain.fleet.accounts import Role
from dure.stores import tables
from dure.stores.errors import ConflictError, InvalidError, KeyReusedError, NotFoundError
from dure.stores.ids import new_id
from dure.stores.repos.access import AuditFilter, Grant, hash_secret
from dure.stores.rows import AuditEntry, IdempotencyKey
from tests.stores.helpers import asynchronous, opened


@asynchronous
async def test_a_token_opens_until_it_expires_or_is_revoked(address: str) -> None:
    async with opened(address) as store:
        async with store.transaction() as tx:
            now_ns = tx.now_ns
            token, secret = await tx.tokens.issue(Grant(Role.TENANT, "ci", tenant="acme"))
            _, old = await tx.tokens.issue(Grant(Role.ADMIN, expires_ns=now_ns - 1))
            _, fresh = await tx.tokens.issue(Grant(Role.ADMIN, expires_ns=now_ns + 10**12))
        async with store.transaction() as tx:
            assert await tx.tokens.check(secret) == token
            assert await tx.tokens.check(old) is None
            assert (await tx.tokens.check(fresh)) is not None
            assert await tx.tokens.check(secret + "x") is None
            await tx.tokens.revoke(token.id)
            assert await tx.tokens.check(secret) is None
            with pytest.raises(NotFoundError):
                await tx.tokens.revoke("nobody")


@asynchronous
async def test_secrets_have_256_bits_and_are_stored_nowhere(address: str) -> None:
    async with opened(address) as store:
        async with store.transaction() as tx:
            token, secret = await tx.tokens.issue(Grant(Role.MEMBER, cluster="seoul"))
            rows = (await tx.link.execute(sa.select(tables.tokens), "tokens")).all()
        assert token.secret_hash == hash_secret(secret)
        assert len(secret.removeprefix("dure_")) * 6 >= 256
        assert secret not in str(rows)


@asynchronous
async def test_tokens_of_tenants_and_members_are_bound(address: str) -> None:
    async with opened(address) as store:
        async with store.transaction() as tx:
            for role in (Role.TENANT, Role.MEMBER):
                with pytest.raises(InvalidError, match="must name its"):
                    await tx.tokens.issue(Grant(role))
            _, _ = await tx.tokens.issue(Grant(Role.MEMBER, cluster="seoul"))
        with pytest.raises(ConflictError, match="rule of the schema"):
            async with store.transaction() as tx:
                await tx.link.execute(tables.tokens.update().values(cluster=None), "token")


@asynchronous
async def test_the_same_key_gets_the_first_answer_and_another_body_is_refused(address: str) -> None:
    async with opened(address) as store:
        first = IdempotencyKey("acme", "k", "h1", {"id": "1"})
        async with store.transaction() as tx:
            assert await tx.keys.claim(first) is None
        async with store.transaction() as tx:
            again = IdempotencyKey("acme", "k", "h1", {"id": "2"})
            assert await tx.keys.claim(again) == {"id": "1"}
            with pytest.raises(KeyReusedError, match="another body"):
                await tx.keys.claim(IdempotencyKey("acme", "k", "h2", {}))
            with pytest.raises(NotFoundError):
                await tx.keys.answer(IdempotencyKey("acme", "other", "h1", {}))


@asynchronous
async def test_the_audit_log_can_be_asked(address: str) -> None:
    async with opened(address) as store, store.transaction() as tx:
        for number in range(9):
            actor = "eve" if number % 3 == 0 else "bob"
            await tx.audit.add(
                AuditEntry(new_id(), number, actor, "cancel", f"job-{number}", "refused", "acme")
            )
        page = await tx.audit.page(AuditFilter(actor="bob"), limit=4)
        assert [entry.at_ns for entry in page.rows] == [8, 7, 5, 4]
        rest = await tx.audit.page(AuditFilter(actor="bob"), limit=4, cursor=page.cursor)
        assert ([entry.at_ns for entry in rest.rows], rest.cursor) == ([2, 1], "")
        some = await tx.audit.page(AuditFilter(tenant="acme", from_ns=2, to_ns=4))
        assert [entry.subject for entry in some.rows] == ["job-3", "job-2"]
