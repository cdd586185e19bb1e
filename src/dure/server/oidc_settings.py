"""Which OpenID Connect issuer vouches for people, and which roles its claims give."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from dure.domain.errors import InputError
from dure.domain.fleet.accounts import Role


@dataclass(frozen=True)
class RoleRule:
    """Who has a claim of this value has this role; the first rule that fits counts."""

    claim: str
    value: str
    """`*`: any."""
    role: Role
    tenant: str | None = None
    """That the role is for."""
    tenant_claim: str | None = None
    """The claim that names the tenant instead."""

    def __post_init__(self) -> None:
        if self.role is Role.MEMBER:
            raise InputError("a rule gives the role member", "give members tokens", field="role")
        if self.role is Role.TENANT and (self.tenant is None) == (self.tenant_claim is None):
            raise InputError(
                "a rule for the role tenant names none or both of tenant and tenant_claim",
                "name one of them",
                field="tenant",
            )


@dataclass(frozen=True)
class OidcSettings:
    """An issuer, whom its tokens are meant for, and what they allow."""

    issuer: str = ""
    audience: str = ""
    rules: Sequence[RoleRule] = ()
    keep_keys_s: float = 600.0
    """How long keys are used before the issuer is asked again,"""
    keep_keys_away_s: float = 3600.0
    """and at most, while it does not answer."""
    least_look_s: float = 10.0
    """Between two looks for a key that is not known, so that strangers cannot make us ask."""


def with_oidc(before: OidcSettings | None, given: Any, file: str) -> OidcSettings:
    """The settings with those of a mapping `issuer`, `audience`, `rules`, … instead."""
    plain = _mapping(given, file, "oidc")
    known = {each.name for each in fields(OidcSettings)}
    for name, value in plain.items():
        if name not in known:
            raise InputError(
                "is no setting",
                f"use one of {', '.join(sorted(known))}",
                file=file,
                field=f"oidc.{name}",
            )
        wanted = {"issuer": str, "audience": str, "rules": list}.get(name, float)
        if type(value) is not wanted and not (wanted is float and type(value) is int):
            raise InputError(
                f"{value!r} is of the wrong kind", "correct it", file=file, field=f"oidc.{name}"
            )
    if "rules" in plain:
        plain["rules"] = tuple(
            _rule(each, file, f"oidc.rules[{number}]") for number, each in enumerate(plain["rules"])
        )
    return replace(before or OidcSettings(), **plain)


def refuse_incomplete(settings: OidcSettings) -> None:
    """An issuer without rules would let in nobody, one without an audience anybody's tokens."""
    for name in ("issuer", "audience", "rules"):
        if not getattr(settings, name):
            raise InputError(
                "is missing", "people cannot sign in without it; add it", field=f"oidc.{name}"
            )
    if not settings.issuer.startswith(("https://", "http://127.0.0.1", "http://localhost")):
        raise InputError(
            f"'{settings.issuer}' does not begin with https://",
            "its keys could be changed on the way; give its https:// address",
            field="oidc.issuer",
        )


def _rule(given: Any, file: str, field: str) -> RoleRule:
    plain = _mapping(given, file, field)
    roles = {role.value: role for role in Role}
    known = {each.name for each in fields(RoleRule)}
    wrong = [name for name in plain if name not in known or not isinstance(plain[name], str)]
    missing = [name for name in ("claim", "value", "role") if name not in plain]
    if wrong or missing or plain["role"] not in roles:
        raise InputError(
            f"is no rule ({', '.join(wrong or missing or ['role'])})",
            "write claim, value, role and for a tenant's role tenant or tenant-claim",
            file=file,
            field=field,
        )
    try:
        return RoleRule(**plain | {"role": roles[plain["role"]]})
    except InputError as error:
        raise InputError(error.what, error.remedy, file=file, field=field) from error


def _mapping(given: Any, file: str, field: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InputError("is no mapping", "write NAME: VALUE lines", file=file, field=field)
    return {str(name).replace("-", "_"): value for name, value in given.items()}
