"""People whom an OpenID Connect issuer vouches for: their tokens checked, their roles by rule.

The issuer's keys are found by discovery and kept; a key that is not known is looked for anew, so
that an issuer may rotate its keys at any time. While the issuer is away the keys that are kept hold
for a while longer.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx
import jwt

from dure.server.auth import Caller, ForbiddenError, IssuerAwayError, unauthenticated
from dure.server.oidc_settings import OidcSettings, RoleRule

ALGORITHMS = ("RS256", "ES256", "EdDSA")
"""Signatures that are taken. None of them can be made with a public key."""
SKEW_S = 60.0
"""How far the issuer's clock and this one may differ."""
_NEEDED = ("exp", "iat", "iss", "aud", "sub")
_MOST_TOKEN = 16_384


class OidcIssuer:
    """Knows people by the tokens of one issuer."""

    def __init__(
        self,
        settings: OidcSettings,
        http: httpx.AsyncClient,
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._http = http
        self._monotonic_s = monotonic_s
        self._keys: dict[str, jwt.PyJWK] = {}
        self._read_s: float | None = None
        self._looked_s: float | None = None
        self._reading = asyncio.Lock()

    async def identify(self, token: str) -> Caller:
        """Who bears it; `UnauthenticatedError` where it is not good, `ForbiddenError` where no
        rule gives its bearer a role."""
        key = await self._key(token)
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                leeway=SKEW_S,
                options={"require": list(_NEEDED)},
            )
        except jwt.PyJWTError as error:
            raise unauthenticated() from error
        if not str(claims["sub"]).isprintable():
            raise unauthenticated()
        return _caller(claims, self._settings.rules)

    async def _key(self, token: str) -> jwt.PyJWK:
        if len(token) > _MOST_TOKEN:
            raise unauthenticated()
        try:
            kid = jwt.get_unverified_header(token).get("kid")
        except jwt.PyJWTError as error:
            raise unauthenticated() from error
        if not isinstance(kid, str):
            raise unauthenticated()
        async with self._reading:
            await self._refresh(wanted=kid)
        found = self._keys.get(kid)
        if found is None:
            raise unauthenticated()
        return found

    async def _refresh(self, wanted: str) -> None:
        """Read the issuer's keys where they are old, or the wanted one is not among them."""
        now_s = self._monotonic_s()
        age_s = float("inf") if self._read_s is None else now_s - self._read_s
        looked_ago_s = float("inf") if self._looked_s is None else now_s - self._looked_s
        stale = age_s >= self._settings.keep_keys_s
        unknown = wanted not in self._keys
        if not (stale or unknown) or looked_ago_s < self._settings.least_look_s:
            return
        self._looked_s = now_s
        try:
            self._keys = await self._read_keys()
            self._read_s = now_s
        except (httpx.HTTPError, ValueError, jwt.PyJWTError) as error:
            if age_s < self._settings.keep_keys_away_s and not unknown:
                return
            self._keys = {} if age_s >= self._settings.keep_keys_away_s else self._keys
            raise IssuerAwayError(
                f"the issuer {self._settings.issuer} does not tell its keys", "try again"
            ) from error

    async def _read_keys(self) -> dict[str, jwt.PyJWK]:
        issuer = self._settings.issuer
        found = await self._json(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if found.get("issuer") != issuer or not isinstance(found.get("jwks_uri"), str):
            raise ValueError("the issuer's description is of another issuer, or names no keys")
        keys = (await self._json(found["jwks_uri"])).get("keys")
        if not isinstance(keys, list):
            raise ValueError("the issuer tells no keys")
        usable: dict[str, jwt.PyJWK] = {}
        for each in keys:
            if isinstance(each, dict) and isinstance(each.get("kid"), str):
                try:
                    usable[each["kid"]] = jwt.PyJWK.from_dict(each)
                except jwt.PyJWTError:
                    continue
        return usable

    async def _json(self, url: str) -> dict[str, Any]:
        answer = await self._http.get(url)
        answer.raise_for_status()
        data = answer.json()
        if not isinstance(data, dict):
            raise ValueError(f"{url} is no JSON object")
        return data


def _caller(claims: Mapping[str, Any], rules: Sequence[RoleRule]) -> Caller:
    for rule in rules:
        if _has(claims.get(rule.claim), rule.value):
            tenant = rule.tenant
            if rule.tenant_claim is not None:
                named = claims.get(rule.tenant_claim)
                if not isinstance(named, str) or not named or not named.isprintable():
                    continue
                tenant = named
            return Caller(f"oidc:{claims['sub']}", rule.role, tenant)
    raise ForbiddenError(
        "no rule gives you a role here", "ask an administrator to add one for your groups"
    )


def _has(claim: Any, value: str) -> bool:
    if isinstance(claim, list):
        return any(_has(each, value) for each in claim)
    return claim is not None and value in ("*", claim)
