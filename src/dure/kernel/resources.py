"""What can be given out: compute units in the device's granularity, memory, bandwidth.

Nothing is promised twice: reserves of memory and limits of bandwidth add up to at most what
the device has, and sets that are meant to be apart do not overlap.
"""

from dataclasses import dataclass, field

from dure.domain.accelerator import AcceleratorProfile
from dure.domain.errors import InputError
from dure.domain.ids import TenantId
from dure.domain.plan import Allotment, SmSet
from dure.domain.tenant import Tenant
from dure.domain.units import format_bytes


def whole(profile: AcceleratorProfile) -> SmSet:
    """All compute units, those outside whole granules included."""
    return SmSet(0, profile.sms)


def front(profile: AcceleratorProfile, share: float) -> SmSet:
    """About a share of the device, from its first unit on."""
    if share >= 1.0:
        return whole(profile)
    return SmSet(0, profile.snap_sms(share * profile.sms))


def behind(profile: AcceleratorProfile, used: SmSet) -> SmSet:
    """Everything a front set leaves."""
    return SmSet(used.end, profile.sms - used.end)


def disjoint(profile: AcceleratorProfile, shares: tuple[float, ...]) -> tuple[SmSet, ...]:
    """Neighbouring sets in proportion to shares that together make up the device.

    Every set has at least the device's smallest size; raises `InputError` where there are more
    tenants than smallest sets.
    """
    least = -(-profile.sm_minimum // profile.sm_granule)
    groups = profile.sm_groups
    if len(shares) * least > groups:
        raise InputError(
            f"{len(shares)} disjoint sets do not fit on {profile.name}",
            f"use at most {groups // least} tenants with sets of their own",
        )
    total = sum(shares)
    sizes = [max(least, int(groups * share / total)) for share in shares]
    while sum(sizes) > groups:
        sizes[max(range(len(sizes)), key=sizes.__getitem__)] -= 1
    while sum(sizes) < groups:
        owed = [groups * share / total - size for share, size in zip(shares, sizes, strict=True)]
        sizes[max(range(len(sizes)), key=owed.__getitem__)] += 1
    sets, first = [], 0
    for index, size in enumerate(sizes):
        count = size * profile.sm_granule
        if index == len(sizes) - 1:
            count = profile.sms - first
        sets.append(SmSet(first, count))
        first += count
    return tuple(sets)


@dataclass(slots=True)
class Allotments:
    """Memory and copy bandwidth given to each tenant."""

    profile: AcceleratorProfile
    _tenants: dict[TenantId, Tenant] = field(default_factory=dict)
    _given: dict[TenantId, Allotment] = field(default_factory=dict)

    @property
    def reserved_bytes(self) -> int:
        """Memory kept free for those it was promised to."""
        return sum(given.memory_reserve_bytes for given in self._given.values())

    @property
    def copy_bytes_per_s(self) -> float:
        """Copy bandwidth promised to tenants that state one."""
        return sum(self._given[tenant].copy_bytes_per_s for tenant in self._copy_claims)

    def give(self, tenant: Tenant) -> tuple[Allotment, ...]:
        """Allot what a tenant claims; raises `InputError` where it cannot be kept.

        Returns every allotment that changed: a new reserve lowers what others may still take,
        and stated copy bandwidths share the link in proportion once they exceed it.
        """
        memory = tenant.memory
        others = self.reserved_bytes - self._reserve_of(tenant.id)
        free = self.profile.memory_bytes - others
        if memory.reserve_bytes > free:
            raise InputError(
                f"tenant '{tenant.id}' reserves {format_bytes(memory.reserve_bytes)} of memory "
                f"where {format_bytes(free)} of {self.profile.name} is unreserved",
                "lower its reserve or another tenant's",
            )
        if memory.limit_bytes is not None and memory.limit_bytes < memory.reserve_bytes:
            raise InputError(
                f"tenant '{tenant.id}' has a memory limit below its reserve",
                "raise the limit or lower the reserve",
            )
        self._tenants[tenant.id] = tenant
        return self._refit()

    def take_back(self, tenant: TenantId) -> tuple[Allotment, ...]:
        """A tenant is gone; returns what changed for the others."""
        self._tenants.pop(tenant, None)
        self._given.pop(tenant, None)
        return self._refit()

    @property
    def _copy_claims(self) -> list[TenantId]:
        return [id_ for id_, tenant in self._tenants.items() if tenant.copy_bytes_per_s is not None]

    def _refit(self) -> tuple[Allotment, ...]:
        link = self.profile.copy_bytes_per_s
        claimed = sum(tenant.copy_bytes_per_s or 0.0 for tenant in self._tenants.values())
        scale = min(1.0, link / claimed) if claimed else 1.0
        reserved = sum(tenant.memory.reserve_bytes for tenant in self._tenants.values())
        changed = []
        for tenant in self._tenants.values():
            own = tenant.memory.reserve_bytes
            free = self.profile.memory_bytes - reserved + own
            limit = tenant.memory.limit_bytes
            fitted = Allotment(
                tenant.id,
                free if limit is None else min(limit, free),
                own,
                link if tenant.copy_bytes_per_s is None else tenant.copy_bytes_per_s * scale,
            )
            if self._given.get(tenant.id) != fitted:
                self._given[tenant.id] = fitted
                changed.append(fitted)
        return tuple(changed)

    def _reserve_of(self, tenant: TenantId) -> int:
        given = self._given.get(tenant)
        return given.memory_reserve_bytes if given else 0
