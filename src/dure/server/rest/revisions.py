"""Optimistic concurrency: an ETag is a revision, and who overwrites must show the one they saw."""

from fastapi import Request
from starlette.responses import Response

from dure.server.rest.problems import RefusedError

IF_MATCH, IF_NONE_MATCH = "If-Match", "If-None-Match"


def etag(revision: int) -> str:
    """A revision as a header says it."""
    return f'"{revision}"'


def stamped(response: Response, revision: int) -> Response:
    """The answer with the revision of what it tells."""
    response.headers["ETag"] = etag(revision)
    return response


def may_overwrite(request: Request, noun: str, name: str, revision: int) -> None:
    """Raise unless whoever asks has seen this revision of what is there."""
    if request.headers.get(IF_NONE_MATCH) == "*":
        raise RefusedError(
            412,
            "duplicate",
            f"there is a {noun} {name} already; choose another name, or change it with "
            f"If-Match: {etag(revision)}",
        )
    shown = request.headers.get(IF_MATCH)
    if shown is None:
        raise RefusedError(
            428,
            "revision-needed",
            f"there is a {noun} {name}, and it would be overwritten or removed; "
            f"read it and send If-Match with its ETag",
        )
    if shown.strip() != "*" and etag(revision) not in {each.strip() for each in shown.split(",")}:
        raise RefusedError(
            412,
            "changed",
            f"{noun} {name} is at revision {revision}, not {shown.strip()[:64]}; "
            "read it again and decide anew",
        )


def may_create(request: Request, noun: str, name: str) -> None:
    """Raise where whoever asks expects something to be there that is not."""
    if request.headers.get(IF_MATCH) is not None:
        raise RefusedError(
            412, "changed", f"there is no {noun} {name}; leave If-Match out to create it"
        )
