"""Hands the dashboard's files to browsers: no build step, nothing from elsewhere, nothing inline.

Whoever serves them says in `levels.json` which levels can be asked there and where.
"""

import hashlib
import mimetypes
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from dure import __version__

ROOT = "/ui/"
_INDEX = "index.html"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class SignIn(Enum):
    """What a page has to show with each question."""

    NOTHING = "nothing"
    KEY = "key"
    """A word that came with the address."""
    TOKEN = "token"
    """A person's token, typed in."""


@dataclass(frozen=True, slots=True)
class Levels:
    """What can be looked at where the pages come from."""

    agent: str | None = None
    """Path before the agent's `/v1`; None: no agent can be asked here."""
    fleet: str | None = None
    """The same of the centre."""
    sign_in: SignIn = SignIn.NOTHING
    changes: bool = True
    """Whether the agent carries out changes that are asked for here."""
    remedy: str = ""
    """What to do to get a page that may change something, where this one may not."""


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is sent."""

    content: bytes
    media: str
    tag: str


def page_routes(levels: Callable[[], Levels]) -> list[Route]:
    """Routes of all pages; what can be looked at is asked anew for each page."""

    async def told(_: Request) -> Response:
        shown = levels()
        plain = {
            "version": __version__,
            "agent": shown.agent,
            "fleet": shown.fleet,
            "signIn": shown.sign_in.value,
            "changes": shown.changes,
            "remedy": shown.remedy,
        }
        return JSONResponse(plain, headers=HEADERS)

    return [
        Route("/", _to_pages),
        Route(ROOT.rstrip("/"), _to_pages),
        Route(f"{ROOT}levels.json", told),
        Route(f"{ROOT}{{path:path}}", _asset),
    ]


async def _to_pages(_: Request) -> Response:
    return RedirectResponse(ROOT, status_code=307, headers=HEADERS)


async def _asset(request: Request) -> Response:
    found = assets().get(request.path_params["path"] or _INDEX)
    if found is None:
        return Response("there is no such page\n", 404, HEADERS, "text/plain")
    headers = {**HEADERS, "ETag": found.tag}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, headers=headers, media_type=found.media)


@cache
def assets() -> Mapping[str, Asset]:
    """All files, by their path below `/ui/`."""
    return dict(_files(files("dure.web") / "assets", ""))


def _files(folder: Traversable, path: str) -> Iterator[tuple[str, Asset]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry, f"{path}{entry.name}/")
            continue
        content = entry.read_bytes()
        suffix = entry.name[entry.name.rfind(".") :]
        media = _TYPES.get(suffix) or mimetypes.guess_type(entry.name)[0] or "text/plain"
        tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
        yield f"{path}{entry.name}", Asset(content, media, tag)
