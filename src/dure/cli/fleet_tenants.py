"""`dure fleet tenants`: the fleet's tree of tenants, teams and services."""

from typing import TYPE_CHECKING, Any

from dure.cli.things import Kind, group

if TYPE_CHECKING:
    from dure.api.base import Document
    from dure.api.tenancy import TenantDocument
    from dure.cli.fitting import Column


def _spec() -> "type[Document]":
    from dure.api.tenancy import TenantSpec

    return TenantSpec


def _calls() -> tuple[Any, Any, Any, Any]:
    from dure.client.fleet import calls

    return calls.list_tenants, calls.get_tenant, calls.put_tenant, calls.delete_tenant


def _columns() -> "list[Column[TenantDocument]]":
    from dure.cli.fitting import Column

    return [
        Column("tenant", lambda t: t.path, right=False),
        Column("kind", lambda t: t.kind.value, right=False),
        Column("title", lambda t: t.spec.title, rank=2, right=False),
        Column("weight", lambda t: f"{t.spec.weight:g}"),
        Column("priority", lambda t: str(t.spec.priority), rank=1),
        Column("jobs at most", lambda t: str(t.spec.quota.jobs or ""), rank=1),
    ]


app = group(
    Kind("tenant", "PATH", _spec, _calls, _columns),
    "The fleet's tenants, teams and services; `dure tenants` are those of a GPU.",
)
