"""Reads stored documents, and says what this version does not know."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from dure.api.base import Document, DocumentT
from dure.domain.errors import InputError
from dure.domain.ids import ClusterId


def read_spec(model: type[DocumentT], spec: Mapping[str, Any], about: str) -> DocumentT:
    """A stored document; `about` names it where it cannot be read."""
    try:
        return _validated(model, spec)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise InputError(
            f"{about} is stored in words this version does not know: {first['msg']}",
            "upgrade this server, or correct the document",
            field=where,
        ) from error


def _validated(model: type[DocumentT], spec: Mapping[str, Any]) -> DocumentT:
    # Strict as JSON is: enumerations are words there.
    return model.model_validate(dict(spec), strict=False)


def given(part: Document) -> dict[str, Any]:
    """Fields that say something, by name."""
    values = {name: getattr(part, name) for name in type(part).model_fields}
    return {name: value for name, value in values.items() if value is not None}


def clusters_named(names: Sequence[str] | None) -> frozenset[ClusterId] | None:
    """Where something may be; None: anywhere."""
    return None if names is None else frozenset(ClusterId(name) for name in names)
