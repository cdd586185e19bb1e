"""Who may: tokens, who one is, and the log of who asked for what."""

from pydantic import Field, JsonValue, model_validator

from dure.api.base import Document, Line, LowerName, Moment, TenantPath
from dure.domain.fleet.accounts import Role


class TokenRequest(Document):
    """A token that shall be made."""

    role: Role
    name: Line = ""
    """Whose or what for, for people."""
    tenant: TenantPath | None = None
    """That its bearer may see and touch, with all below it; needed for `tenant`."""
    cluster: LowerName | None = None
    """That its bearer may speak for; needed for `member`."""
    expires: Moment | None = None
    """Left out: it holds until it is revoked."""

    @model_validator(mode="after")
    def _bound(self) -> "TokenRequest":
        if self.role is Role.TENANT and self.tenant is None:
            raise ValueError("tenant is missing; a token of the role tenant is bound to one")
        if (self.role is Role.MEMBER) != (self.cluster is not None):
            raise ValueError("cluster is of the role member, which must have it; correct one")
        if self.role in {Role.ADMIN, Role.MEMBER} and self.tenant is not None:
            raise ValueError(f"tenant means nothing for the role {self.role.value}; leave it out")
        return self


class TokenDocument(Document):
    """A token without its secret."""

    id: str
    role: Role
    name: str
    tenant: str | None
    cluster: str | None
    created_at: str
    expires_at: str | None
    revoked_at: str | None


class IssuedToken(Document):
    """A new token and its secret, which is told this once and stored nowhere."""

    token: TokenDocument
    secret: str


class WhoAmI(Document):
    """Who the server takes the asker for."""

    actor: str
    role: Role
    tenant: str | None = None
    cluster: str | None = None


class AuditDocument(Document):
    """Who asked for what, and how it ended."""

    id: str
    at: str
    actor: str
    action: str
    subject: str
    outcome: str
    tenant: str | None
    data: dict[str, JsonValue] = Field(default_factory=dict)
