"""Bearer tokens of a cluster: stated, read from a file that is renewed, or made by a plugin."""

import asyncio
import json
import os
import subprocess
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import httpx

from dure.kube.errors import KubeForbiddenError

_FILE_AGE_S = 60.0
"""How long a token read from a file is used: kubelets renew them long before they expire."""
_EARLY_S = 30.0
"""So long before its end a token is renewed."""
_PLUGIN_S = 60.0
"""How long a plugin may take; some ask a cloud."""


class TokenSource(Protocol):
    """Where the token of a request comes from."""

    async def token(self) -> str:
        """One to use now."""

    def forget(self) -> bool:
        """The cluster refused it; whether the next one may differ."""


@dataclass(frozen=True)
class StatedToken:
    """One that was written down."""

    value: str = field(repr=False)

    async def token(self) -> str:
        """The one there is."""
        return self.value

    def forget(self) -> bool:
        """There is no other."""
        return False


@dataclass
class FileToken:
    """One in a file that somebody renews, as in a Pod."""

    path: Path
    _read: str = field(default="", repr=False)
    _read_at_s: float = 0.0

    async def token(self) -> str:
        """As the file had it a minute ago at the most."""
        if not self._read or time.monotonic() - self._read_at_s > _FILE_AGE_S:
            try:
                self._read = self.path.read_text(encoding="utf-8").strip()
            except OSError as error:
                raise KubeForbiddenError(
                    f"the token file {self.path} cannot be read ({error.strerror})",
                    "name a readable one",
                ) from error
            self._read_at_s = time.monotonic()
        return self._read

    def forget(self) -> bool:
        """Read the file again."""
        self._read = ""
        return True


@dataclass
class PluginToken:
    """One that a credential plugin prints, as clouds' command lines do."""

    command: Sequence[str]
    environment: Mapping[str, str]
    api_version: str
    hint: str = ""
    _made: str = field(default="", repr=False)
    _ends_at_s: float = float("inf")
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    async def token(self) -> str:
        """The last one, or a new one where that has come to its end."""
        async with self._asking:
            if not self._made or time.time() > self._ends_at_s - _EARLY_S:
                await asyncio.to_thread(self._ask)
            return self._made

    def forget(self) -> bool:
        """Ask the plugin again."""
        self._made = ""
        return True

    def _ask(self) -> None:
        name = self.command[0]
        request = {"apiVersion": self.api_version, "kind": "ExecCredential"}
        request["spec"] = {"interactive": False}  # type: ignore[assignment]
        given = {"KUBERNETES_EXEC_INFO": json.dumps(request)}
        try:
            done = subprocess.run(
                self.command,
                env={**os.environ, **self.environment, **given},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PLUGIN_S,
                check=True,
            )
        except FileNotFoundError as error:
            remedy = self.hint or "install it"
            raise KubeForbiddenError(f"there is no credential plugin {name}", remedy) from error
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode("utf-8", "replace").strip() or f"exit {error.returncode}"
            raise KubeForbiddenError(f"the credential plugin {name} failed ({said})") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            what = f"the credential plugin {name} cannot be used ({error})"
            raise KubeForbiddenError(what) from error
        self._take(_status(done.stdout))

    def _take(self, status: Mapping[str, Any]) -> None:
        token = status.get("token")
        if not isinstance(token, str) or not token:
            raise KubeForbiddenError(
                f"the credential plugin {self.command[0]} printed no token",
                "use one that gives tokens; certificates of plugins are not taken",
            )
        self._made = token
        self._ends_at_s = _timestamp_s(status.get("expirationTimestamp"))


def _status(printed: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(printed)
    except ValueError:
        return {}
    status = document.get("status") if isinstance(document, dict) else None
    return status if isinstance(status, dict) else {}


def _timestamp_s(text: object) -> float:
    if not isinstance(text, str):
        return float("inf")
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return float("inf")
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


class BearerAuth(httpx.Auth):
    """Puts the token into every request, and once more a fresh one where it was refused."""

    def __init__(self, tokens: TokenSource) -> None:
        self._tokens = tokens

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """One request, or two."""
        request.headers["authorization"] = f"Bearer {await self._tokens.token()}"
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED and self._tokens.forget():
            request.headers["authorization"] = f"Bearer {await self._tokens.token()}"
            yield request
