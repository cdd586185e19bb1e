"""OIDC against a real issuer: a small HTTP server with keys made here."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from dure.domain.errors import InputError
from dure.domain.fleet.accounts import Role
from dure.server.auth import Caller, ForbiddenError, IssuerAwayError, UnauthenticatedError
from dure.server.oidc import SKEW_S, OidcIssuer
from dure.server.oidc_settings import OidcSettings, RoleRule, refuse_incomplete
from dure.server.options import read_settings, with_settings
from dure.server.settings import ServerSettings
from tests.server.rest.centre import Centre

AUDIENCE = "dure"
RULES = (
    RoleRule("groups", "platform", Role.ADMIN),
    RoleRule("groups", "vision", Role.TENANT, tenant="acme/vision"),
    RoleRule("tenant", "*", Role.VIEWER, tenant_claim="tenant"),
)
KEYS = {
    "RS256": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}
_MADE: dict[str, Any] = {
    "RS256": jwt.algorithms.RSAAlgorithm,
    "ES256": jwt.algorithms.ECAlgorithm,
    "EdDSA": jwt.algorithms.OKPAlgorithm,
}


@dataclass
class Issuer:
    """Tells its keys over HTTP, and counts how often it was asked."""

    keys: dict[str, tuple[str, Any]] = field(
        default_factory=lambda: {alg: (alg, key) for alg, key in KEYS.items()}
    )
    asked: int = 0
    away: bool = False
    url: str = ""

    def token(self, kid: str = "RS256", *, key: Any = None, **changes: Any) -> str:
        """A token signed with one of its keys."""
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "ada",
            "iat": now,
            "exp": now + 600,
            "groups": ["platform"],
        } | changes
        present = {name: value for name, value in claims.items() if value is not None}
        alg, own = self.keys.get(kid, ("RS256", KEYS["RS256"]))
        return jwt.encode(present, key or own, algorithm=alg, headers={"kid": kid})

    def answer(self, path: str) -> dict[str, Any] | None:
        """What is at a path."""
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        if path == "/keys":
            self.asked += 1
            keys = [
                _MADE[alg].to_jwk(key.public_key(), as_dict=True) | {"kid": kid, "alg": alg}
                for kid, (alg, key) in self.keys.items()
            ]
            return {"keys": keys}
        return None


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = None if made.away else made.answer(self.path)
            body = json.dumps(found).encode()
            self.send_response(503 if found is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


class Clock:
    """A clock that tests move."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def identify(issuer: Issuer, *tokens: str, clock: Clock | None = None) -> list[Any]:
    """What becomes of each token, shown one after another to one server."""

    async def all_of_them() -> list[Any]:
        settings = OidcSettings(issuer.url, AUDIENCE, RULES)
        async with httpx.AsyncClient(timeout=10.0) as http:
            known = OidcIssuer(settings, http, monotonic_s=clock or Clock())
            found: list[Any] = []
            for token in tokens:
                try:
                    found.append(await known.identify(token))
                except (UnauthenticatedError, ForbiddenError, IssuerAwayError) as error:
                    found.append(type(error))
            return found

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("alg", KEYS)
def test_each_allowed_signature_is_taken(issuer: Issuer, alg: str) -> None:
    assert identify(issuer, issuer.token(alg)) == [Caller("oidc:ada", Role.ADMIN)]


def test_roles_and_tenants_come_from_claims_by_the_first_rule_that_fits(issuer: Issuer) -> None:
    assert identify(
        issuer,
        issuer.token(groups=["vision", "other"]),
        issuer.token(groups=[], tenant="globex"),
        issuer.token(groups=["nobody"]),
    ) == [
        Caller("oidc:ada", Role.TENANT, "acme/vision"),
        Caller("oidc:ada", Role.VIEWER, "globex"),
        ForbiddenError,
    ]


def test_clocks_may_differ_by_a_minute_and_no_more(issuer: Issuer) -> None:
    now = int(time.time())
    near, far = SKEW_S / 2, 3 * SKEW_S
    assert identify(
        issuer,
        issuer.token(exp=int(now - near)),
        issuer.token(exp=int(now - far)),
        issuer.token(nbf=int(now + near)),
        issuer.token(nbf=int(now + far)),
        issuer.token(iat=int(now + far)),
    ) == [
        Caller("oidc:ada", Role.ADMIN),
        UnauthenticatedError,
        Caller("oidc:ada", Role.ADMIN),
        UnauthenticatedError,
        UnauthenticatedError,
    ]


def test_tokens_for_others_from_others_or_without_an_end_are_refused(issuer: Issuer) -> None:
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    bad = [
        issuer.token(aud="another"),
        issuer.token(iss="https://evil.example"),
        issuer.token(exp=None),
        issuer.token(sub=None),
        issuer.token(key=stranger),
        issuer.token("unknown-key"),
        jwt.encode({"sub": "ada"}, "x" * 32, algorithm="HS256", headers={"kid": "RS256"}),
        jwt.encode({"sub": "ada"}, "", algorithm="none", headers={"kid": "RS256"}),
        "a.b.c",
        "x" * 20_000 + "..",
    ]
    assert set(identify(issuer, *bad)) == {UnauthenticatedError}


def test_keys_are_kept_and_a_new_key_is_found_after_rotation(issuer: Issuer) -> None:
    clock = Clock()
    old, forged = issuer.token(), issuer.token("forged")

    async def story() -> None:
        settings = OidcSettings(issuer.url, AUDIENCE, RULES)
        async with httpx.AsyncClient(timeout=10.0) as http:
            known = OidcIssuer(settings, http, monotonic_s=clock)
            for _ in range(3):
                await known.identify(old)
            assert issuer.asked == 1
            for _ in range(5):
                with pytest.raises(UnauthenticatedError):
                    await known.identify(forged)
            assert issuer.asked == 1, "strangers must not make us ask"
            new_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            issuer.keys = {"new": ("RS256", new_key)}
            clock.now_s += settings.least_look_s
            assert (await known.identify(issuer.token("new"))).role is Role.ADMIN
            assert issuer.asked == 2
            clock.now_s += settings.least_look_s
            with pytest.raises(UnauthenticatedError):
                await known.identify(old)

    asyncio.run(story())


def test_while_the_issuer_is_away_known_keys_hold_for_a_while(issuer: Issuer) -> None:
    clock = Clock()
    token = issuer.token()

    async def story() -> None:
        settings = OidcSettings(issuer.url, AUDIENCE, RULES)
        async with httpx.AsyncClient(timeout=10.0) as http:
            known = OidcIssuer(settings, http, monotonic_s=clock)
            assert (await known.identify(token)).role is Role.ADMIN
            issuer.away = True
            clock.now_s += settings.keep_keys_s + 1
            assert (await known.identify(token)).role is Role.ADMIN
            clock.now_s += settings.keep_keys_away_s
            with pytest.raises(IssuerAwayError):
                await known.identify(token)

    asyncio.run(story())


def test_a_rule_that_cannot_hold_is_refused() -> None:
    with pytest.raises(InputError, match="role member"):
        RoleRule("groups", "x", Role.MEMBER)
    with pytest.raises(InputError, match="none or both"):
        RoleRule("groups", "x", Role.TENANT)


def test_settings_come_from_a_file_and_options_and_must_be_complete(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text(
        "oidc:\n  audience: dure\n  rules:\n"
        "    - {claim: groups, value: ops, role: admin}\n"
        "    - {claim: org, value: '*', role: tenant, tenant-claim: org}\n"
        "rest: {body-bytes: 1000}\n"
    )
    settings = with_settings(ServerSettings(), read_settings(file), str(file))
    assert settings.rest.body_bytes == 1000
    assert settings.oidc is not None
    with pytest.raises(InputError, match=r"oidc\.issuer: is missing"):
        refuse_incomplete(settings.oidc)
    whole = with_settings(settings, {"oidc": {"issuer": "https://id.example"}}, "")
    assert whole.oidc is not None
    refuse_incomplete(whole.oidc)
    assert whole.oidc.rules[1] == RoleRule("org", "*", Role.TENANT, tenant_claim="org")
    for wrong, words in (
        ({"oidc": {"isuer": "x"}}, "oidc.isuer"),
        ({"oidc": {"rules": [{"claim": "a"}]}}, r"oidc.rules\[0\]"),
        ({"oidc": {"rules": [{"claim": "a", "value": "b", "role": "member"}]}}, "rules"),
        ({"rest": {"body-bytes": "many"}}, "rest.body-bytes"),
        ({"rest": {"bodies": 1}}, "rest.bodies"),
    ):
        with pytest.raises(InputError, match=words):
            with_settings(ServerSettings(), wrong, "")
    with pytest.raises(InputError, match="https"):
        refuse_incomplete(OidcSettings("http://id.example", "dure", RULES))


def test_a_person_uses_the_interface_with_the_issuers_token(issuer: Issuer, tmp_path: Path) -> None:
    settings = ServerSettings(oidc=OidcSettings(issuer.url, AUDIENCE, RULES))
    with Centre(f"sqlite:///{tmp_path / 'state.db'}", settings=settings) as centre:
        with centre.client(issuer.token(groups=["vision"])) as http:
            me = http.get("/v1/whoami").json()
            assert (me["actor"], me["role"], me["tenant"]) == ("oidc:ada", "tenant", "acme/vision")
        with centre.client(issuer.token(groups=["nobody"])) as http:
            assert http.get("/v1/whoami").status_code == 403
        with centre.client(issuer.token(exp=1)) as http:
            assert http.get("/v1/whoami").status_code == 401
        with centre.client("acme") as http:
            assert http.get("/v1/whoami").json()["tenant"] == "acme"
