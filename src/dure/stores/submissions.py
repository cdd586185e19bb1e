"""Submissions of jobs, many to a commit: jobs, labels, idempotency keys and events at once."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from dure.domain.errors import DureError
from dure.stores.errors import StoreUnavailableError
from dure.stores.rows import AuditEntry, IdempotencyKey, Job, Json, NewEvent, Origin
from dure.stores.transaction import Transaction


@dataclass(frozen=True)
class Submission:
    """Jobs that are stored together or not at all, and the answer that whoever sent them gets."""

    jobs: tuple[Job, ...]
    answer: Json
    events: tuple[NewEvent, ...] = ()
    key: str | None = None
    """Sent again under the same key, nothing is stored and the first answer given."""
    body_hash: str = ""
    audit: tuple[AuditEntry, ...] = ()
    """Who sent them; written only if they are stored."""
    origin: Origin | None = None
    """The object that they come from; where it is known already nothing is stored, and the error
    is a `DuplicateError`."""

    @property
    def claim(self) -> IdempotencyKey | None:
        """Its key as a row."""
        if self.key is None:
            return None
        return IdempotencyKey(self.jobs[0].tenant, self.key, self.body_hash, self.answer)


class SubmissionWriter:
    """Writes a batch of submissions in one transaction; where one spoils it, each in its own."""

    def __init__(self, transaction: Callable[[], AbstractAsyncContextManager[Transaction]]) -> None:
        self._transaction = transaction

    async def write(self, batch: Sequence[Submission]) -> Sequence[Json | Exception]:
        """The answer or the error of each."""
        try:
            return await self._together(batch)
        except StoreUnavailableError:
            raise
        except DureError as error:
            if len(batch) == 1:
                return [error]
        return [(await self.write([one]))[0] for one in batch]

    async def _together(self, batch: Sequence[Submission]) -> Sequence[Json | Exception]:
        first: dict[tuple[str, str], Submission] = {}
        for one in batch:
            if one.claim is not None:
                first.setdefault((one.claim.tenant, one.claim.key), one)
        async with self._transaction() as tx:
            claims = [claim for one in first.values() if (claim := one.claim) is not None]
            # In order, so that two servers that claim the same keys do not wait for each other.
            claims.sort(key=lambda claim: (claim.tenant, claim.key))
            new = await tx.keys.claim_all(claims)
            fresh = [
                one
                for one in batch
                if (claim := one.claim) is None
                or ((claim.tenant, claim.key) in new and first[claim.tenant, claim.key] is one)
            ]
            await tx.jobs.add_all([job for one in fresh for job in one.jobs])
            await tx.origins.add_all([one.origin for one in fresh if one.origin is not None])
            await tx.audit.add_all([entry for one in fresh for entry in one.audit])
            for one in fresh:
                for event in one.events:
                    tx.events.add(event)
            stored = {id(one) for one in fresh}
            return [
                one.answer if id(one) in stored else await _first_answer(tx, one) for one in batch
            ]


async def _first_answer(tx: Transaction, again: Submission) -> Json | Exception:
    claim = again.claim
    assert claim is not None, "what has no key is always stored"
    try:
        return await tx.keys.answer(claim)
    except StoreUnavailableError:
        raise
    except DureError as error:
        return error
