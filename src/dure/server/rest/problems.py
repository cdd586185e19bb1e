"""Every refusal as a problem document; errors of all parts are given their status here, once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from pydantic import ValidationError
from starlette.responses import Response

from dure.api.base import DocumentT
from dure.api.complaints import complaints, is_not_json
from dure.api.problems import MEDIA_TYPE, FieldProblem, Problem
from dure.domain.errors import DureError, InputError
from dure.server.auth import ForbiddenError, IssuerAwayError, UnauthenticatedError
from dure.stores import errors as stores

TYPE = "urn:dure:problem:"
RETRY_S = 1
"""What an asker is told to wait while the database is away."""


@dataclass
class RefusedError(DureError):
    """A request that is refused, ready to be told."""

    status: int
    kind: str
    """Last part of the problem's type; stays the same over versions."""
    detail: str
    fields: Sequence[FieldProblem] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(self.detail)

    def within(self, where: str) -> "RefusedError":
        """The same, of a document that is a part of another."""
        fields = [
            each.model_copy(update={"field": f"{where}.{each.field}"}) for each in self.fields
        ]
        return RefusedError(
            self.status, self.kind, f"{where}.{self.detail}", fields, dict(self.headers)
        )

    def response(self) -> Response:
        """As HTTP tells it."""
        problem = Problem(
            type=TYPE + self.kind,
            title=HTTPStatus(self.status).phrase,
            status=self.status,
            detail=self.detail,
            fields=list(self.fields),
        )
        return Response(
            problem.model_dump_json(exclude_defaults=True),
            self.status,
            dict(self.headers),
            MEDIA_TYPE,
        )


_STATUS: Sequence[tuple[type[DureError], int, str]] = (
    (UnauthenticatedError, 401, "unauthenticated"),
    (ForbiddenError, 403, "forbidden"),
    (IssuerAwayError, 503, "issuer-away"),
    (stores.NotFoundError, 404, "not-found"),
    (stores.KeyReusedError, 422, "key-reused"),
    (stores.DuplicateError, 409, "duplicate"),
    (stores.InvalidError, 422, "invalid"),
    (stores.ConflictError, 409, "conflict"),
    (stores.ExpiredError, 410, "expired"),
    (stores.FencedError, 503, "not-leader"),
    (stores.StoreUnavailableError, 503, "unavailable"),
    (InputError, 422, "invalid"),
)
"""The first that fits counts."""


def refused(error: DureError) -> RefusedError | None:
    """An error as a refusal; None for one that no asker caused."""
    if isinstance(error, RefusedError):
        return error
    for kind, status, name in _STATUS:
        if isinstance(error, kind):
            return RefusedError(status, name, str(error), _fields(error), _headers(status))
    return None


def _fields(error: DureError) -> list[FieldProblem]:
    if isinstance(error, stores.KeyReusedError):
        return [FieldProblem(field="Idempotency-Key", detail=error.what, remedy=error.remedy)]
    named = error.field if isinstance(error, InputError) else ""
    return [FieldProblem(field=named, detail=error.what, remedy=error.remedy)] if named else []


def _headers(status: int) -> dict[str, str]:
    if status == 401:
        return {"WWW-Authenticate": 'Bearer realm="dure"'}
    return {"Retry-After": str(RETRY_S)} if status == 503 else {}


def misfit(error: ValidationError, model: type[DocumentT]) -> RefusedError:
    """A body that is not the document it should be."""
    found = complaints(error, model)
    if is_not_json(error):
        return RefusedError(400, "not-json", f"the body {found[0].detail}; send JSON", found)
    first = found[0]
    where = first.field or "the body"
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return RefusedError(422, "invalid", f"{where}: {first.detail}; {first.remedy}{more}", found)


def wrong(where: str, what: str, remedy: str, *, status: int = 422, kind: str = "") -> RefusedError:
    """A refusal because of one field."""
    return RefusedError(
        status,
        kind or "invalid",
        f"{where}: {what}; {remedy}",
        [FieldProblem(field=where, detail=what, remedy=remedy)],
    )


def not_found(noun: str, name: str) -> RefusedError:
    """There is none, or none that the asker may see."""
    return RefusedError(404, "not-found", f"there is no {noun} {name}; check its name")
