"""What a GPU cannot give: promises faster than being alone, and memory it does not have."""

import numpy as np

from dure.domain.accelerator import AcceleratorProfile
from dure.domain.units import NS_PER_S, format_bytes, format_duration
from dure.kit.files import FieldPath
from dure.sim.documents import Source
from dure.sim.kernel.load import Arrivals, TenantLoad
from dure.sim.kernel.physics import Physics
from dure.sim.kernel.solo import solo_request_ns


def check_tenants(source: Source, gpu: AcceleratorProfile, loads: tuple[TenantLoad, ...]) -> None:
    """Refuse what cannot be kept on this GPU even with nobody else there."""
    physics = Physics()
    for number, load in enumerate(loads):
        where: FieldPath = ("tenants", number)
        _check_latency(source, gpu, load, physics, where)
        _check_throughput(source, gpu, load, physics, where)
        _check_deadline(source, gpu, load, physics, where)
        _check_memory(source, gpu, load, where)
    _check_floors(source, loads)
    _check_memory_together(source, gpu, loads)


def _check_latency(
    source: Source,
    gpu: AcceleratorProfile,
    load: TenantLoad,
    physics: Physics,
    where: FieldPath,
) -> None:
    promise = load.tenant.slo.latency
    if promise is None:
        return
    sizes = _sizes(load)
    if len(sizes) == 0:
        return
    typical = int(np.quantile(sizes, promise.percentile / 100.0, method="lower"))
    solo_ns = solo_request_ns(load.program, typical, physics)
    if promise.target_ns < solo_ns:
        raise source.wrong(
            (*where, "slo", "latency"),
            f"{format_duration(promise.target_ns)} is impossible on {gpu.name}, where a request "
            f"of '{load.tenant.id}' takes {format_duration(solo_ns)} alone",
            f"allow more than {format_duration(solo_ns)}",
        )


def _check_throughput(
    source: Source,
    gpu: AcceleratorProfile,
    load: TenantLoad,
    physics: Physics,
    where: FieldPath,
) -> None:
    promise = load.tenant.slo.throughput
    sizes = _sizes(load)
    if promise is None or len(sizes) == 0:
        return
    where = (*where, "slo", "throughput")
    alone_per_s = NS_PER_S / solo_request_ns(load.program, float(sizes.mean()), physics)
    if promise.items_per_s > alone_per_s:
        raise source.wrong(
            where,
            f"{promise.items_per_s:g} a second is impossible on {gpu.name}, where "
            f"'{load.tenant.id}' reaches {alone_per_s:.4g} alone",
            "promise less",
        )


def _check_deadline(
    source: Source,
    gpu: AcceleratorProfile,
    load: TenantLoad,
    physics: Physics,
    where: FieldPath,
) -> None:
    deadline_ns, work = load.tenant.deadline_ns, load.work
    if deadline_ns is None or not isinstance(work, Arrivals) or len(work.at_ns) == 0:
        return
    solo_ns = sum(solo_request_ns(load.program, int(size), physics) for size in work.iterations)
    soonest_ns = max(int(work.at_ns[0]) + solo_ns, float(work.at_ns[-1]))
    if deadline_ns < soonest_ns:
        raise source.wrong(
            (*where, "deadline"),
            f"{format_duration(deadline_ns)} is impossible on {gpu.name}, where the work of "
            f"'{load.tenant.id}' is done at {format_duration(soonest_ns)} at the earliest",
            "set a later deadline or bring less work",
        )


def _check_memory(
    source: Source, gpu: AcceleratorProfile, load: TenantLoad, where: FieldPath
) -> None:
    claim, used = load.tenant.memory, load.memory_bytes
    where = (*where, "memory")
    room = gpu.memory_bytes
    for field, size in (
        ("limit", claim.limit_bytes or 0),
        ("reserve", claim.reserve_bytes),
        ("use", used),
    ):
        if size > room:
            raise source.wrong(
                (*where, field),
                f"{format_bytes(size)} does not fit in the {format_bytes(room)} of {gpu.name}",
                "lower it",
            )
    if claim.limit_bytes is None:
        return
    for field, size in (("reserve", claim.reserve_bytes), ("use", used)):
        if size > claim.limit_bytes:
            raise source.wrong(
                (*where, field),
                f"{format_bytes(size)} is above the tenant's limit of "
                f"{format_bytes(claim.limit_bytes)}",
                "lower it or raise `limit`",
            )


def _check_memory_together(
    source: Source, gpu: AcceleratorProfile, loads: tuple[TenantLoad, ...]
) -> None:
    """Whatever tenants use or have reserved must fit at every moment."""
    for number, arriving in enumerate(loads):
        at_ns = arriving.joins_ns
        present = [
            load
            for load in loads
            if load.joins_ns <= at_ns and (load.leaves_ns is None or load.leaves_ns > at_ns)
        ]
        taken = sum(max(load.memory_bytes, load.tenant.memory.reserve_bytes) for load in present)
        if taken > gpu.memory_bytes:
            raise source.wrong(
                ("tenants", number, "memory"),
                f"with '{arriving.tenant.id}' the tenants there at {format_duration(at_ns)} use "
                f"or reserve {format_bytes(taken)} of the {format_bytes(gpu.memory_bytes)} of "
                f"{gpu.name}",
                "lower `use` and `reserve`, or let tenants come one after the other",
            )


def _check_floors(source: Source, loads: tuple[TenantLoad, ...]) -> None:
    total = sum(load.tenant.floor_share for load in loads)
    if total > 1.0:
        raise source.wrong(
            ("tenants",),
            f"the floors add up to {total:.3g} of the GPU",
            "lower them to 1 at most in all",
        )


def _sizes(load: TenantLoad) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Iterations of every request."""
    if isinstance(load.work, Arrivals):
        return load.work.iterations
    return np.asarray([load.work.iterations], np.int64)
