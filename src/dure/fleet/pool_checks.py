"""Which vNode pools are refused: those that contradict themselves or the catalogue."""

from collections.abc import Mapping

from dure.domain.errors import InputError
from dure.domain.fleet.profiles import DeviceProfile
from dure.domain.fleet.tenancy import VNodePool
from dure.domain.ids import TenantId


def check_pool(pool: VNodePool, tenant: TenantId, profiles: Mapping[str, DeviceProfile]) -> None:
    """Refuse a pool that contradicts itself or the catalogue, with `InputError`."""
    if pool.tenant != tenant:
        raise InputError(f"pool '{pool.id}' is another tenant's", "list it with its own tenant")
    if pool.profile not in profiles:
        raise InputError(
            f"pool '{pool.id}' has the unknown profile '{pool.profile}'",
            f"use one of {', '.join(profiles)}",
        )
    if not 0 <= pool.lendable <= pool.guaranteed:
        raise InputError(
            f"pool '{pool.id}' lends {pool.lendable} of {pool.guaranteed} guaranteed units",
            "lend at most what is guaranteed",
        )
    if pool.maximum is not None and pool.maximum < pool.guaranteed:
        raise InputError(
            f"pool '{pool.id}' is guaranteed {pool.guaranteed} units of at most {pool.maximum}",
            "raise its maximum",
        )
    if pool.dedicated and pool.lendable:
        raise InputError(
            f"pool '{pool.id}' is dedicated and lends {pool.lendable} units",
            "make it shared, or lend nothing",
        )
    mode = profiles[pool.profile].slice(pool.template or "whole").mode
    if mode is not pool.mode:
        raise InputError(
            f"pool '{pool.id}' has mode '{pool.mode.value}', its template '{mode.value}'",
            "give the mode of its template",
        )
