"""Tenants, pools and artefacts of a scenario, and the names others may refer to."""

from dure.domain.errors import InputError
from dure.domain.fleet.clusters import Fleet
from dure.domain.fleet.slices import ShareMode, SliceTemplate
from dure.domain.fleet.tenancy import Budget, FleetTenant, Team, VNodePool
from dure.domain.fleet.workloads import Artefact
from dure.domain.ids import ArtefactId, ClusterId, PoolId, TenantId
from dure.kit.files import FieldPath
from dure.kit.words import nearest
from dure.sim.documents import Source
from dure.sim.fleet.scenario_file import BudgetPart, PoolPart, ScenarioFile, TenantPart
from dure.sim.fleet.scenario_fleet import FleetBuilder, known_profile

_G_PER_KG = 1000.0


class TenancyBuilder:
    """Makes tenants, pools and artefacts of one scenario."""

    def __init__(self, source: Source, document: ScenarioFile, fleets: FleetBuilder) -> None:
        self._source = source
        self._file = document
        self._fleets = fleets

    def tenants(self) -> tuple[FleetTenant, ...]:
        """Who pays."""
        self._refuse_doubles([part.name for part in self._file.tenants], "tenants")
        return tuple(
            self._tenant(part, ("tenants", number))
            for number, part in enumerate(self._file.tenants)
        )

    def pools(self, fleet: Fleet) -> tuple[VNodePool, ...]:
        """Everybody's pools."""
        found: list[VNodePool] = []
        for number, tenant in enumerate(self._file.tenants):
            for index, part in enumerate(tenant.pools):
                where: FieldPath = ("tenants", number, "pools", index)
                if any(pool.id == part.name for pool in found):
                    raise self._source.wrong(
                        (*where, "name"),
                        f"'{part.name}' is already taken",
                        "name pools differently, also those of different tenants",
                    )
                found.append(self._pool(part, tenant, fleet, where))
        return tuple(found)

    def artefacts(self) -> tuple[Artefact, ...]:
        """Weights and data."""
        self._refuse_doubles([part.name for part in self._file.artefacts], "artefacts")
        return tuple(
            Artefact(
                ArtefactId(part.name),
                part.size,
                self._fleets.known_clusters(part.places, ("artefacts", number, "places"))
                or frozenset(),
            )
            for number, part in enumerate(self._file.artefacts)
        )

    # Names others refer to

    def known_tenant(self, name: str, where: FieldPath) -> TenantPart:
        """A tenant by name."""
        for part in self._file.tenants:
            if part.name == name:
                return part
        raise self._unknown("tenant", name, [part.name for part in self._file.tenants], where)

    def known_team(self, tenant: TenantPart, name: str, where: FieldPath) -> str:
        """A tenant's team by name; none is fine."""
        teams = [team.name for team in tenant.teams]
        if name and name not in teams:
            raise self._unknown(f"team of '{tenant.name}'", name, teams, where)
        return name

    def known_pool(self, tenant: TenantPart, name: str | None, where: FieldPath) -> PoolId | None:
        """A tenant's pool by name; none is fine."""
        if name is None:
            return None
        pools = [pool.name for pool in tenant.pools]
        if name not in pools:
            raise self._unknown(f"pool of '{tenant.name}'", name, pools, where)
        return PoolId(name)

    def known_artefact(self, name: str | None, where: FieldPath) -> ArtefactId | None:
        """An artefact by name; none is fine."""
        if name is None:
            return None
        names = [part.name for part in self._file.artefacts]
        if name not in names:
            raise self._unknown("artefact", name, names, where)
        return ArtefactId(name)

    def _unknown(self, kind: str, name: str, known: list[str], where: FieldPath) -> InputError:
        remedy = nearest(name, known) if known else "describe it, or leave this out"
        return self._source.wrong(where, f"there is no {kind} '{name}'", remedy)

    def _refuse_doubles(self, names: list[str], key: str) -> None:
        for number, name in enumerate(names):
            if name in names[:number]:
                raise self._source.wrong(
                    (key, number, "name"),
                    f"'{name}' is already taken",
                    f"name {key} differently",
                )

    # Parts

    def _tenant(self, part: TenantPart, where: FieldPath) -> FleetTenant:
        teams = [team.name for team in part.teams]
        for number, name in enumerate(teams):
            if name in teams[:number]:
                raise self._source.wrong(
                    (*where, "teams", number), f"'{name}' is there twice", "keep one"
                )
        return FleetTenant(
            id=TenantId(part.name),
            weight=part.weight,
            priority=part.priority,
            budget=_budget(part.budget),
            teams=tuple(Team(team.name, _budget(team.budget)) for team in part.teams),
        )

    def _pool(
        self, part: PoolPart, tenant: TenantPart, fleet: Fleet, where: FieldPath
    ) -> VNodePool:
        profile = known_profile(part.profile, self._source, (*where, "profile"))
        try:
            template = profile.slice(part.slice_name or "whole")
        except InputError as error:
            names = [each.name for each in profile.slices]
            near = nearest(part.slice_name, names)
            raise self._source.wrong((*where, "slice"), error.what, near) from error
        clusters = self._fleets.known_clusters(part.clusters, (*where, "clusters"))
        room = _room(fleet, profile.name, template, clusters)
        if not room:
            raise self._source.wrong(
                where,
                f"no cluster it may be in has {profile.name} nodes in mode '{template.mode.value}'",
                "allow other `clusters`, or add a node group",
            )
        if part.guaranteed > room:
            raise self._source.wrong(
                (*where, "guaranteed"),
                f"{part.guaranteed} units are more than the {room} there are",
                f"guarantee at most {room}",
            )
        if part.lendable > part.guaranteed:
            raise self._source.wrong(
                (*where, "lendable"),
                f"{part.lendable} of {part.guaranteed} guaranteed units cannot be lent",
                f"lend at most {part.guaranteed}",
            )
        if part.maximum is not None and part.maximum < part.guaranteed:
            raise self._source.wrong(
                (*where, "maximum"),
                f"{part.maximum} is less than the {part.guaranteed} guaranteed",
                f"write at least {part.guaranteed}",
            )
        return VNodePool(
            id=PoolId(part.name),
            tenant=TenantId(tenant.name),
            profile=profile.name,
            template="" if template.mode is ShareMode.WHOLE else template.name,
            mode=template.mode,
            clusters=clusters,
            guaranteed=part.guaranteed,
            lendable=part.lendable,
            maximum=part.maximum,
            dedicated=part.dedicated,
        )


def _budget(part: BudgetPart) -> Budget:
    carbon_g = None if part.carbon_kg is None else part.carbon_kg * _G_PER_KG
    return Budget(part.money, carbon_g)


def _room(
    fleet: Fleet, profile: str, template: SliceTemplate, clusters: frozenset[ClusterId] | None
) -> int:
    """Units of a pool that all nodes it may be on hold together."""
    return sum(
        group.count * group.devices * template.most
        for cluster in fleet.clusters
        if clusters is None or cluster.id in clusters
        for group in cluster.groups
        if group.profile == profile and group.mode is template.mode
    )
