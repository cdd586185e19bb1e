"""The state of a GPU and its tenants as people see it; called in that GPU's own thread."""

from collections.abc import Mapping
from dataclasses import dataclass

from dure.agent.books import LATENCY_NS, SHOWN_NS, Deeds
from dure.agent.gpu import CLIENTS, Client, Gpu, Seat
from dure.agent.registry import Declared
from dure.client.schema import ClientStatus, GpuStatus, LatencyStatus, TenantStatus
from dure.devices.nvml import GpuState
from dure.domain.units import NS_PER_S
from dure.kernel.track import RemainingSource, Track

_FLAGS = ("capturing", "open", "no-green", "collective", "graph-unmoved")
"""DURE_FLAG_*, from the lowest bit on."""


@dataclass(frozen=True, slots=True)
class Round:
    """How the GPU's thread does."""

    tick_ns: int
    state: GpuState


def gpu_status(gpu: Gpu, facts: Round) -> GpuStatus:
    """One GPU."""
    identity, state, turn = gpu.identity, facts.state, gpu.plane.turn()
    return GpuStatus(
        index=identity.index,
        uuid=identity.uuid,
        name=identity.name,
        profile=identity.profile.name,
        sms=identity.profile.sms,
        memory_bytes=identity.profile.memory_bytes,
        memory_used_bytes=state.memory_used_bytes,
        utilization=state.utilization,
        temperature_c=state.temperature_c,
        power_w=state.power_w,
        policy=gpu.policy,
        parameters=dict(gpu.parameters),
        plan=gpu.plan(),
        gated=gpu.gated,
        gate_note=gpu.gate_note,
        edges=turn.edges,
        adopted_epoch=turn.epoch,
        adopted_ns=turn.adopted_ns,
        edges_per_s=gpu.edges_per_s,
        tick_ns=facts.tick_ns,
        ticks=gpu.ticks,
        clients=len(gpu.clients),
        client_slots=CLIENTS,
    )


def tenant_status(gpu: Gpu, seat: Seat, declared: Declared) -> TenantStatus:
    """One tenant on this GPU."""
    deeds = seat.book.last(SHOWN_NS)
    track = gpu.machine.tracks.get(seat.tenant.id)
    words = [words for slot in sorted(seat.slots) if (words := gpu.words_of(slot)) is not None]
    counters = [each.counters for each in words]
    errors = [each.prediction_error_ppm for each in counters if each.prediction_error_ppm]
    progress = seat.progress
    return TenantStatus(
        name=declared.name,
        gpu=gpu.identity.uuid,
        uid=declared.uid,
        spec=declared.spec,
        clients=tuple(_client(gpu, gpu.clients[slot]) for slot in sorted(seat.slots)),
        busy=any(each.has_work(gpu.clock()) for each in words),
        gpu_share=deeds.share(deeds.gpu_ns),
        busy_share=min(1.0, deeds.share(deeds.busy_ns)),
        held_share=min(1.0, deeds.share(deeds.held_ns)),
        launches_per_s=deeds.per_s(deeds.launches),
        launches=seat.book.total.launches,
        latency=_latency(seat, track, gpu.reports_requests(seat.tenant.id)),
        memory_bytes=sum(each.activity.memory_bytes for each in words),
        memory_limit_bytes=seat.tenant.memory.limit_bytes,
        memory_reserve_bytes=seat.tenant.memory.reserve_bytes,
        memory_refused=seat.book.total.memory_refused,
        copied_bytes_per_s=deeds.per_s(deeds.copied_bytes),
        weight_now=track.weight if track else None,
        at_risk=track.at_risk() if track else False,
        remaining_ns=track.remaining()[0] if track else None,
        remaining_source=_remaining_source(declared, track) if track else None,
        progress_done=progress[0] if progress else None,
        progress_total=progress[1] if progress else None,
        moved_share=deeds.moved_launches / deeds.launches if deeds.launches else 0.0,
        fallbacks=sum(each.fallbacks for each in counters),
        passes_open=sum(each.passes_open for each in counters),
        prediction_error=sum(errors) / len(errors) / 1e6 if errors else None,
        squad_error=seat.book.squad_error(),
        held_for=_mostly_held_for(deeds, gpu.names()),
    )


def absent_status(declared: Declared) -> TenantStatus:
    """A tenant that is declared and on no GPU."""
    return TenantStatus(
        name=declared.name, gpu=None, uid=declared.uid, spec=declared.spec, clients=()
    )


def _client(gpu: Gpu, client: Client) -> ClientStatus:
    words = gpu.words_of(client.slot)
    flags = words.counters.flags if words else 0
    return ClientStatus(
        pid=client.pid,
        program=client.program,
        gpu=gpu.identity.uuid,
        slot=client.slot,
        since_s=(gpu.clock() - client.since_ns) / NS_PER_S,
        memory_bytes=words.activity.memory_bytes if words else 0,
        green_contexts=words.counters.green_contexts if words else 0,
        events=words.counters.events if words else 0,
        flags=tuple(name for bit, name in enumerate(_FLAGS) if flags >> bit & 1),
    )


def _latency(seat: Seat, track: Track | None, reported: bool) -> LatencyStatus | None:
    deeds = seat.book.last(LATENCY_NS)
    requests = sum(deeds.latencies.values())
    promise = seat.tenant.slo.latency
    if requests == 0 and promise is None:
        return None
    return LatencyStatus(
        p50_ns=deeds.latency_ns(0.5),
        p99_ns=deeds.latency_ns(0.99),
        requests_per_s=deeds.per_s(requests),
        reported=reported,
        target_ns=promise.target_ns if promise else None,
        percentile=promise.percentile if promise else None,
        measured_ns=track.attainment.latency_ns() if track and promise else None,
        on_time_share=track.attainment.on_time_share() if track and promise else None,
    )


def _remaining_source(declared: Declared, track: Track) -> str:
    source = track.remaining()[1]
    if source is RemainingSource.EXPECTED and declared.expected_from_history:
        return "history of its command"
    return source.value


def _mostly_held_for(deeds: Deeds, names: Mapping[int, str]) -> str | None:
    held = {index: ns for index, ns in deeds.held_for_ns.items() if index in names and ns > 0}
    return names[max(held, key=held.__getitem__)] if held else None
