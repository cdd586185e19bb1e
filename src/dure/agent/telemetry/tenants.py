"""What is taken of a GPU's tenants in its own thread: copies of sums, nothing worked out there."""

from dataclasses import dataclass

from dure.agent.gpu import Gpu, Seat


@dataclass(frozen=True, slots=True)
class TenantLook:
    """One tenant on one GPU, ever since it was declared, and now."""

    tenant: str
    processes: int
    launches: int
    moved: int
    gpu_ns: int
    busy_ns: int
    held_ns: tuple[int, ...]
    """By reason, as in `dure.agent.books.REASONS`."""
    copied_bytes: int
    memory_refused: int
    latencies: dict[int, int]
    """Requests by bucket."""
    memory_bytes: int
    memory_limit_bytes: int | None
    target_ns: int | None
    on_time_share: float | None
    at_risk: bool
    weight: float | None
    remaining_ns: float | None


@dataclass(frozen=True, slots=True)
class GpuLook:
    """One GPU."""

    uuid: str
    policy: str
    gated: bool
    processes: int
    edges: int
    ticks: int
    plan_epoch: int | None
    plan_squads: int
    tenants: tuple[TenantLook, ...]


def look(gpu: Gpu) -> GpuLook:
    """To be called in the GPU's own thread."""
    plan = gpu.machine.plan
    return GpuLook(
        uuid=gpu.identity.uuid,
        policy=gpu.policy,
        gated=gpu.gated,
        processes=len(gpu.clients),
        edges=gpu.plane.turn().edges,
        ticks=gpu.ticks,
        plan_epoch=plan.epoch if plan is not None else None,
        plan_squads=len(plan.squads) if plan is not None else 0,
        tenants=tuple(_tenant(gpu, seat) for seat in gpu.seats.values()),
    )


def _tenant(gpu: Gpu, seat: Seat) -> TenantLook:
    total, latency = seat.book.total, seat.tenant.slo.latency
    track = gpu.machine.tracks.get(seat.tenant.id)
    words = [words for slot in seat.slots if (words := gpu.words_of(slot)) is not None]
    return TenantLook(
        tenant=seat.tenant.id,
        processes=len(seat.slots),
        launches=total.launches,
        moved=total.moved_launches,
        gpu_ns=total.gpu_ns,
        busy_ns=total.busy_ns,
        held_ns=tuple(total.gated_by_ns),
        copied_bytes=total.copied_bytes,
        memory_refused=total.memory_refused,
        latencies=dict(total.latencies),
        memory_bytes=sum(each.activity.memory_bytes for each in words),
        memory_limit_bytes=seat.tenant.memory.limit_bytes,
        target_ns=latency.target_ns if latency is not None else None,
        on_time_share=track.attainment.on_time_share() if track and latency else None,
        at_risk=track.at_risk() if track else False,
        weight=track.weight if track else None,
        remaining_ns=track.remaining()[0] if track else None,
    )
