"""Accounts at the centre: levels of tenants, roles of tokens, kinds of feeds."""

from enum import Enum


class TenantKind(Enum):
    """Levels of the tenants' tree."""

    TENANT = "tenant"
    TEAM = "team"
    SERVICE = "service"


class Role(Enum):
    """What a token's bearer may do."""

    ADMIN = "admin"
    TENANT = "tenant"
    VIEWER = "viewer"
    MEMBER = "member"


class FeedKind(Enum):
    """What a series of points from outside says."""

    TARIFF = "tariff"
    CARBON = "carbon"
