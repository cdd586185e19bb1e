"""`dure pool`: vNode pools of the fleet."""

from typing import TYPE_CHECKING, Any

from dure.cli.things import Kind, group

if TYPE_CHECKING:
    from dure.api.base import Document
    from dure.api.tenancy import PoolDocument
    from dure.cli.fitting import Column


def _spec() -> "type[Document]":
    from dure.api.tenancy import PoolSpec

    return PoolSpec


def _calls() -> tuple[Any, Any, Any, Any]:
    from dure.client.fleet import calls

    return calls.list_pools, calls.get_pool, calls.put_pool, calls.delete_pool


def _columns() -> "list[Column[PoolDocument]]":
    from dure.cli.fitting import Column

    return [
        Column("pool", lambda p: p.name, right=False),
        Column("tenant", lambda p: p.spec.tenant, right=False),
        Column("profile", lambda p: p.spec.profile, right=False),
        Column("slice", lambda p: p.spec.slice or "whole", rank=1, right=False),
        Column("guaranteed", lambda p: str(p.spec.guaranteed)),
        Column("lendable", lambda p: str(p.spec.lendable), rank=2),
        Column("maximum", lambda p: "" if p.spec.maximum is None else str(p.spec.maximum), rank=2),
        Column("dedicated", lambda p: "yes" if p.spec.dedicated else "", rank=3, right=False),
        Column("clusters", lambda p: ", ".join(p.spec.clusters or ()), rank=4, right=False),
    ]


app = group(
    Kind("pool", "NAME", _spec, _calls, _columns), "vNode pools: capacity kept for tenants."
)
