"""What people declare: tenants, pools, policies and clusters."""

import sqlalchemy as sa

from dure.stores import tables
from dure.stores.errors import ConflictError, InvalidError, NotFoundError
from dure.stores.repos.base import Versioned
from dure.stores.rows import Cluster, Policy, Pool, Tenant, TenantKind

_LEVELS = (TenantKind.TENANT, TenantKind.TEAM, TenantKind.SERVICE)


class Tenants(Versioned[Tenant]):
    """The tree tenant → team → service."""

    table, noun, row = tables.tenants, "tenant", Tenant
    fixed = frozenset({"kind", "parent"})

    async def add(self, row: Tenant) -> Tenant:
        """Store a new node; its path must say what it is and whose."""
        parts = row.path.split("/")
        if not all(parts) or len(parts) > len(_LEVELS):
            raise InvalidError(
                f"{row.path!r} is no path of a tenant",
                "write tenant, tenant/team or tenant/team/service",
            )
        parent = "/".join(parts[:-1]) or None
        if (row.kind, row.parent) != (_LEVELS[len(parts) - 1], parent):
            raise InvalidError(
                f"{row.path!r} is a {_LEVELS[len(parts) - 1].value} under {parent or 'nobody'}",
                "correct its kind and parent",
            )
        if parent is not None:
            await self.get(parent)
        return await super().add(row)


class Pools(Versioned[Pool]):
    """vNode pools."""

    table, noun, row = tables.pools, "pool", Pool


class Policies(Versioned[Policy]):
    """Named settings of the planner."""

    table, noun, row = tables.policies, "policy", Policy


class Clusters(Versioned[Cluster]):
    """Member clusters. `put` changes what people decide, the rest has methods of its own."""

    table, noun, row = tables.clusters, "cluster", Cluster
    fixed = frozenset(
        {
            "incarnation",
            "last_contact_ns",
            "desired_revision",
            "accepted_epoch",
            "accepted_revision",
        }
    )

    async def touch(self, name: str, incarnation: str | None = None) -> None:
        """Note that the member was heard of now, and which incarnation of it."""
        c = self.table.c
        await self._change(
            name,
            self.table.update().values(
                last_contact_ns=self._link.now_ns,
                incarnation=c.incarnation if incarnation is None else incarnation,
            ),
        )

    async def next_revision(self, name: str) -> int:
        """The number of a new desired set of the cluster; greater than all before."""
        changed = await self._change(
            name, self.table.update().values(desired_revision=self.table.c.desired_revision + 1)
        )
        return changed.desired_revision

    async def accept(self, name: str, epoch: int, revision: int) -> Cluster:
        """Note the desired set that the member accepted; an older one is refused."""
        c = self.table.c
        older = sa.or_(
            c.accepted_epoch < epoch,
            sa.and_(c.accepted_epoch == epoch, c.accepted_revision <= revision),
        )
        try:
            return await self._change(
                name,
                self.table.update()
                .where(older)
                .values(accepted_epoch=epoch, accepted_revision=revision),
            )
        except NotFoundError:
            stored = await self.get(name)
            raise ConflictError(
                f"cluster {name} has accepted plan "
                f"{stored.accepted_epoch}.{stored.accepted_revision}, which is newer than "
                f"{epoch}.{revision}",
                "send it the present plan",
            ) from None

    async def _change(self, name: str, statement: sa.Update) -> Cluster:
        changed = await self._link.execute(
            statement.where(self.table.c.name == name).returning(self.table), self._subject(name)
        )
        row = changed.mappings().first()
        if row is None:
            raise NotFoundError(f"there is no {self._subject(name)}")
        return Cluster(**row)
