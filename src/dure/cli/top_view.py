"""What `dure top` shows of an agent's status: GPUs, plan, tenants, processes of others, events."""

import datetime
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from dure.cli.fitting import Column, fitting_table
from dure.cli.node_view import containers_view
from dure.client.schema import (
    AgentInfo,
    AgentStatus,
    EventLine,
    GpuProcess,
    GpuStatus,
    MemberStatus,
    SquadStatus,
    TenantSpec,
    TenantStatus,
)
from dure.domain.units import GIB, format_bytes, format_duration
from dure.kernel.goal_words import joined, span_words
from dure.kernel.policies.jct import JctPolicy
from dure.kernel.track import RemainingSource

_MOST_SQUADS = 4
_MOST_EVENTS = 4
_MOST_OTHERS = 6
_DASH = "–"
_NO_LENGTH = (RemainingSource.ATTAINED.value, RemainingSource.REQUEST.value)
"""Sources that say who goes first, not how long a job still takes."""
_CLASSES = {"guaranteed": "guar", "standard": "std", "best-effort": "best"}


def status_view(status: AgentStatus, width: int, now_unix_s: float) -> RenderableType:
    """Everything, for a terminal of that width."""
    return Group(*_parts(status, width, now_unix_s))


def _parts(status: AgentStatus, width: int, now_unix_s: float) -> Iterator[RenderableType]:
    yield _agent_line(status.agent, now_unix_s)
    numbers = {gpu.uuid: str(gpu.index) for gpu in status.gpus}
    for gpu in status.gpus:
        yield from _gpu_lines(gpu)
    yield Text()
    if status.tenants:
        yield _tenant_table(status.tenants, numbers, width)
        yield Text()
    else:
        yield Text("No tenants. Start one: dure run -- PROGRAM", style="dim")
    if status.containers is not None:
        yield containers_view(status.containers, width)
        yield Text()
    yield from _unknown_lengths(status)
    yield from _others(status.unmanaged, numbers)
    yield from _events(status.events)


def _agent_line(agent: AgentInfo, now_unix_s: float) -> Text:
    up = span_words(max(0.0, now_unix_s - agent.started_unix_s) * 1e9)
    whose = "root" if agent.uid == 0 else f"user {agent.uid}"
    return Text(
        f"dure {agent.version}  agent {agent.pid} of {whose}, {agent.sharing}, up {up}",
        style="dim",
        no_wrap=True,
        overflow="ellipsis",
    )


def _gpu_lines(gpu: GpuStatus) -> Iterator[Text]:
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"GPU {gpu.index} ", "bold")
    parts = [gpu.name]
    if gpu.utilization is not None:
        parts.append(f"{100 * gpu.utilization:.0f} % in use")
    used = _DASH if gpu.memory_used_bytes is None else _gib(gpu.memory_used_bytes)
    parts.append(f"{used}/{_gib(gpu.memory_bytes)} GiB")
    if gpu.power_w is not None:
        parts.append(f"{gpu.power_w:.0f} W")
    if gpu.temperature_c is not None:
        parts.append(f"{gpu.temperature_c:.0f} °C")
    line.append("  ".join(parts))
    yield line
    second = Text("      policy ", no_wrap=True, overflow="ellipsis")
    second.append(gpu.policy, "bold cyan")
    if gpu.plan is not None:
        squads = len(gpu.plan.squads)
        second.append(f", plan {gpu.plan.epoch} of {squads} squad{'s' * (squads != 1)}")
    second.append(f", {gpu.edges_per_s:.0f} turns/s")
    if not gpu.gated:
        second.append(f"  open: {gpu.gate_note or 'nobody to hold for'}", "dim")
    yield second
    if gpu.plan is not None and gpu.plan.squads:
        yield _squads_line(gpu.plan.squads, gpu.sms)


def _squads_line(squads: Sequence[SquadStatus], sms: int) -> Text:
    shown = "  ".join(_squad(squad, sms) for squad in squads[:_MOST_SQUADS])
    more = len(squads) - _MOST_SQUADS
    return Text(
        f"      {shown}{f'  and {more} more' if more > 0 else ''}",
        style="dim",
        no_wrap=True,
        overflow="ellipsis",
    )


def _squad(squad: SquadStatus, sms: int) -> str:
    inside = " + ".join(_member(member, sms) for member in squad.members)
    return f"[{inside}] {format_duration(squad.duration_ns)}"


def _member(member: MemberStatus, sms: int) -> str:
    apart = bool(member.beside) and member.sm_count < sms
    last = member.sm_first + member.sm_count - 1
    where = f" SM {member.sm_first}-{last}" if apart else ""
    after = f" after {','.join(member.yields_to)}" if member.yields_to else ""
    return f"{member.tenant}{where}{after}"


def _tenant_table(
    tenants: Sequence[TenantStatus], numbers: dict[str, str], width: int
) -> RenderableType:
    columns: list[Column[TenantStatus]] = [
        Column("tenant", _name, right=False),
        Column("GPU", lambda t: numbers.get(t.gpu or "", _DASH), rank=5 if len(numbers) > 1 else 9),
        Column("class", lambda t: _CLASSES[t.spec.tenant_class], rank=6, right=False),
        Column("promise", lambda t: promise_words(t.spec), rank=2, right=False),
        Column("on time", _on_time, rank=1),
        Column("p50", lambda t: _latency(t, "p50_ns"), rank=4),
        Column("p99", lambda t: _latency(t, "p99_ns"), rank=1),
        Column("req/s", _rate, rank=7),
        Column("GPU%", lambda t: f"{100 * t.gpu_share:.0f}"),
        Column("held%", lambda t: f"{100 * t.held_share:.0f}"),
        Column("for", lambda t: t.held_for or "", rank=3, right=False),
        Column("GiB", _memory, rank=2),
        Column("weight", _weight, rank=5),
        Column("left", _left, rank=8),
        Column("procs", lambda t: str(len(t.clients)), rank=8),
    ]
    return fitting_table(columns, tenants, width)


def _name(tenant: TenantStatus) -> Text:
    style = "bold red" if tenant.at_risk else ("bold" if tenant.busy else "")
    name = tenant.name if len(tenant.name) <= 24 else f"{tenant.name[:23]}…"
    flags = {flag for client in tenant.clients for flag in client.flags}
    mark = "!" if tenant.at_risk else ("°" if "open" in flags else "")
    return Text(f"{name}{mark}", style=style)


def promise_words(spec: TenantSpec) -> str:
    """What a tenant was promised, short."""
    parts = []
    if spec.latency_slo is not None:
        target = format_duration(spec.latency_slo.target_ns).replace(" ", "")
        parts.append(f"p{spec.latency_slo.percentile:g}≤{target}")
    if spec.throughput_slo is not None:
        parts.append(f"{spec.throughput_slo.items_per_s:g}/s")
    if spec.availability_slo is not None:
        parts.append(f"{100 * spec.availability_slo.share:g}%")
    return " ".join(parts)


def _on_time(tenant: TenantStatus) -> Text:
    latency = tenant.latency
    if latency is None or latency.on_time_share is None:
        return Text(_DASH if tenant.spec.latency_slo else "")
    wanted = (latency.percentile or 99.0) / 100.0
    style = "green" if latency.on_time_share >= wanted else "red"
    return Text(f"{100 * latency.on_time_share:.1f}%", style=style)


def _latency(tenant: TenantStatus, figure: str) -> str:
    if tenant.latency is None or tenant.latency.requests_per_s <= 0:
        return ""
    return format_duration(getattr(tenant.latency, figure)).replace(" ", "")


def _rate(tenant: TenantStatus) -> str:
    if tenant.latency is None or tenant.latency.requests_per_s <= 0:
        return ""
    return f"{tenant.latency.requests_per_s:.3g}{'' if tenant.latency.reported else '*'}"


def _memory(tenant: TenantStatus) -> Text:
    used = _gib(tenant.memory_bytes)
    refused = tenant.memory_refused > 0
    if tenant.spec.memory_limit_bytes is None:
        return Text(used, style="red" if refused else "")
    return Text(f"{used}/{_gib(tenant.spec.memory_limit_bytes)}", style="red" if refused else "")


def _weight(tenant: TenantStatus) -> str:
    now = tenant.weight_now
    stated = f"{tenant.spec.weight:g}"
    if now is None or abs(now - tenant.spec.weight) < 0.005:
        return stated
    return f"{stated}→{now:.2g}"


def _left(tenant: TenantStatus) -> str:
    if tenant.remaining_ns is None or tenant.remaining_source in _NO_LENGTH:
        return ""
    return span_words(tenant.remaining_ns).replace(" ", "")


def _unknown_lengths(status: AgentStatus) -> Iterator[Text]:
    """Under `jct`, say whose order is a guess."""
    guessed = {gpu.uuid for gpu in status.gpus if gpu.policy == JctPolicy.name}
    names = [
        tenant.name
        for tenant in status.tenants
        if tenant.gpu in guessed and tenant.remaining_source == RemainingSource.ATTAINED.value
    ]
    if names:
        yield Text(
            f"Nobody said how long {joined(dict.fromkeys(names))} will run: who had least goes "
            "first (--expect, report_progress).",
            style="dim",
        )


def _gib(size: float) -> str:
    digits = 2 if size < GIB else 1 if size < 100 * GIB else 0
    return f"{size / GIB:.{digits}f}"


def _others(processes: Sequence[GpuProcess], numbers: dict[str, str]) -> Iterator[Text]:
    if not processes:
        return
    yield Text("Not managed by Dure, and not held for anybody:", style="yellow")
    for process in processes[:_MOST_OTHERS]:
        size = "" if process.memory_bytes is None else f"  {format_bytes(process.memory_bytes)}"
        gpu = numbers.get(process.gpu, process.gpu)
        yield Text(
            f"  pid {process.pid}  GPU {gpu}  {process.name}{size}"
            f"{'  graphics' if process.kind == 'graphics' else ''}",
            no_wrap=True,
            overflow="ellipsis",
        )
    if len(processes) > _MOST_OTHERS:
        yield Text(f"  and {len(processes) - _MOST_OTHERS} more", style="dim")


def _events(events: Sequence[EventLine]) -> Iterator[Text]:
    """The newest, of those that repeat themselves only the last."""
    kept: dict[tuple[str, str | None, str], EventLine] = {}
    for event in events:
        about = (event.kind, event.tenant, event.text.partition(",")[0])
        kept.pop(about, None)
        kept[about] = event
    for event in list(kept.values())[-_MOST_EVENTS:]:
        at = datetime.datetime.fromtimestamp(event.at_unix_s).strftime("%H:%M:%S")  # noqa: DTZ006, shown in local time
        yield Text(f"{at} {event.text}", style="dim", no_wrap=True, overflow="ellipsis")
