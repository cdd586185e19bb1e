"""What people declare: tenants, pools, policies and clusters."""

from typing import Any

import sqlalchemy as sa

from dure.domain.fleet.accounts import TenantKind
from dure.stores import tables
from dure.stores.clock import database_now_ns
from dure.stores.errors import ConflictError, InvalidError, NotFoundError
from dure.stores.repos.base import Keyed, Versioned, upsert, values_of
from dure.stores.rows import Cluster, ClusterNews, Json, Policy, Pool, Tenant

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
            "desired_epoch",
            "surroundings_revision",
            "link_epoch",
            "linked_url",
            "report_seq",
        }
    )

    async def touch(self, name: str, incarnation: str | None = None) -> None:
        """Note that the member was heard of now, and which incarnation of it."""
        c = self.table.c
        await self._change(
            name,
            self.table.update().values(
                last_contact_ns=database_now_ns(self._link.connection.dialect),
                incarnation=c.incarnation if incarnation is None else incarnation,
            ),
        )

    async def next_revision(
        self, name: str, *, epoch: int | None = None, surroundings: bool = False
    ) -> int:
        """The number of a new desired set of the cluster; greater than all before.

        `epoch`: of the leader that decided it; None: nothing was decided, something happened.
        `surroundings`: whether those changed too.
        """
        c = self.table.c
        values: dict[str, Any] = {"desired_revision": c.desired_revision + 1}
        if epoch is not None:
            values["desired_epoch"] = epoch
        if surroundings:
            values["surroundings_revision"] = c.desired_revision + 1
        changed = await self._change(name, self.table.update().values(values))
        return changed.desired_revision

    async def linked(self, name: str, incarnation: str, url: str) -> Cluster:
        """A member said hello to the server at `url`: all earlier links of the cluster are over.

        The count of its reports goes on where it is the same incarnation.
        """
        c = self.table.c
        return await self._change(
            name,
            self.table.update().values(
                link_epoch=c.link_epoch + 1,
                linked_url=url,
                report_seq=sa.case((c.incarnation == incarnation, c.report_seq), else_=0),
                incarnation=incarnation,
                last_contact_ns=database_now_ns(self._link.connection.dialect),
            ),
        )

    async def hold_link(self, name: str, link_epoch: int) -> Cluster:
        """The cluster, heard of now and locked until the end of the transaction.

        Refused where the link is over, because its member said hello again since.
        """
        c = self.table.c
        changed = await self._link.execute(
            self.table.update()
            .where(c.name == name, c.link_epoch == link_epoch)
            .values(last_contact_ns=database_now_ns(self._link.connection.dialect))
            .returning(self.table),
            self._subject(name),
        )
        row = changed.mappings().first()
        if row is None:
            raise ConflictError(
                f"the link {link_epoch} to cluster {name} is over: its member said hello again",
                "use the newer link",
            )
        return Cluster(**row)

    async def unlinked(self, name: str, link_epoch: int) -> None:
        """No server has the link any more, unless a newer one has."""
        c = self.table.c
        await self._link.execute(
            self.table.update()
            .where(c.name == name, c.link_epoch == link_epoch)
            .values(linked_url=""),
            self._subject(name),
        )

    async def heard_report(self, name: str, seq: int) -> None:
        """Note the number of the last stored report."""
        await self._change(name, self.table.update().values(report_seq=seq))

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


class News(Keyed[ClusterNews]):
    """What clusters last said of themselves; only the fields that are given change."""

    table, noun, row = tables.cluster_news, "news of cluster", ClusterNews

    async def said(
        self,
        cluster: str,
        *,
        inventory: Json | None = None,
        sites: Json | None = None,
        retired: Json | None = None,
    ) -> None:
        """A cluster reported."""
        given = {
            "inventory": inventory,
            "sites": sites,
            "retired": retired,
            "at_ns": self._link.now_ns,
        }
        await self._set(
            cluster, {name: value for name, value in given.items() if value is not None}
        )

    async def sites(self) -> list[Json]:
        """What each cluster last said of its sites."""
        found = await self._link.execute(sa.select(self.table.c.sites), self.noun)
        return [row[0] for row in found]

    async def lease(self, cluster: str, allotments: Json) -> None:
        """Its leases are these from now on."""
        await self._set(cluster, {"allotments": allotments})

    async def _set(self, cluster: str, changes: dict[str, Any]) -> None:
        row = values_of(ClusterNews(cluster)) | changes
        await upsert(self._link, self.table, [row], tuple(changes), self._subject(cluster))
