"""A modelled GPU with its tenants: built from a load, stepped in time, read like a shim."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dure.domain.accelerator import AcceleratorProfile
from dure.domain.ids import TenantId
from dure.domain.kernel import KernelClass, KernelSignature, classify
from dure.domain.plan import Plan, SmSet
from dure.domain.readings import KernelSample, TenantReading
from dure.domain.units import NS_PER_MS
from dure.sim.kernel.engine import step
from dure.sim.kernel.load import Arrivals, ClosedLoop, TenantLoad
from dure.sim.kernel.physics import Physics
from dure.sim.kernel.state import HOST_DONE, HOST_WAITING, SPACE, TIME, State, blank_state

TICK_NS = 20 * NS_PER_MS
"""How often counters are read and a plan is made, as the agent does."""

_UNKNOWN_KERNEL_NS = 50_000.0
"""Predicted duration of a kernel that was never timed."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """How tenants reach the device: what the administrator of a host chooses."""

    side_by_side: bool
    """As under MPS; else in time slices."""
    priorities: dict[TenantId, int] = field(default_factory=dict)
    """Higher goes first where the hardware has a choice."""
    sms: dict[TenantId, SmSet] = field(default_factory=dict)
    """Fixed sets of compute units."""
    cap_share: dict[TenantId, float] = field(default_factory=dict)
    """Share of the device a tenant's kernels may fill at once (MPS thread percentage)."""
    gated: bool = False
    event_every: int = 2
    """Launches between two completion events the shim records."""


class World:
    """One device under one way of sharing, with its clock at zero."""

    def __init__(
        self,
        profile: AcceleratorProfile,
        physics: Physics,
        loads: tuple[TenantLoad, ...],
        sharing: Sharing,
    ) -> None:
        self.profile = profile
        self.loads = loads
        self.tenant_ids = tuple(load.tenant.id for load in loads)
        self._index = {tenant: index for index, tenant in enumerate(self.tenant_ids)}
        self.signatures: list[KernelSignature] = []
        self.finished: list[NDArray[np.void]] = []
        self.edges: list[NDArray[np.void]] = []
        self._limits: dict[TenantId, int] = {}
        self._fine = sharing.gated or bool(sharing.sms)
        self.state = self._build(physics, sharing)

    @property
    def now_ns(self) -> int:
        return int(self.state.device[0]["now"])

    def advance(self, until_ns: int) -> None:
        """Run to a time."""
        while not step(self.state, until_ns):
            self._drain()
        self._drain()

    def all_done(self) -> bool:
        """Whether no tenant has work left or to come."""
        return bool(np.all(self.state.tenants["host"] == HOST_DONE))

    def read(self) -> tuple[tuple[TenantReading, ...], tuple[KernelSample, ...]]:
        """What the shims counted since the last call."""
        readings = tuple(self._reading(index) for index in range(len(self.loads)))
        samples = self._samples()
        tenants = self.state.tenants
        for name in tenants.dtype.names or ():
            if name.startswith("r_"):
                tenants[name] = 0
        self.state.latencies[:] = 0
        self.state.losses[:] = 0
        return readings, samples

    def publish(self, plan: Plan) -> None:
        """Lay a plan ready; it takes effect at the next squad edge."""
        state = self.state
        state.pending[:] = np.zeros_like(state.pending)
        state.durations[1, :] = 0
        for number, squad in enumerate(plan.squads):
            state.durations[1, number] = squad.duration_ns
            for member in squad.members:
                order = state.pending[number, self._index[member.tenant]]
                order["member"] = 1
                order["low"], order["high"] = self._groups(member.sms)
                order["budget_ns"] = member.budget_ns
                order["inflight_ns"] = member.inflight_ns
                order["inflight_launches"] = self._limits.get(member.tenant, 0)
                order["yields"] = self._mask(member.yields_to)
                order["beside"] = self._mask(member.beside)
                order["linger_ns"] = member.linger_ns
                order["patience_ns"] = member.patience_ns
        state.corun[1, :, :] = np.asarray(plan.corun, dtype=np.int64)
        state.promised[1] = self._mask(plan.protected)
        state.device[0]["plan_waiting"] = len(plan.squads)

    def limit_launches(self, tenant: TenantId, launches: int) -> None:
        """Bound a tenant's outstanding launches by count, as plain gates do."""
        self._limits[tenant] = launches

    def record_spans(self, from_ns: int, until_ns: int) -> None:
        """Keep every kernel that starts in this window, for the picture."""
        self.state.device[0]["span_from"] = from_ns
        self.state.device[0]["span_until"] = until_ns

    def look(self) -> NDArray[np.float64]:
        """By tenant: work done (as time alone), busy time, longest hold since the last look."""
        tenants = self.state.tenants
        ongoing = np.where(tenants["held_since"] >= 0, self.now_ns - tenants["held_since"], 0)
        holds = np.maximum(tenants["window_hold_ns"], ongoing)
        tenants["window_hold_ns"] = 0
        return np.stack([tenants["solo_ns"], tenants["busy_ns"], holds], axis=1).astype(float)

    def job_progress(self, index: int) -> tuple[int, int]:
        """Iterations done and in all of the tenant's current job."""
        tenant = self.state.tenants[index]
        return int(tenant["iteration"]), int(tenant["iterations"])

    # Building

    def _build(self, physics: Physics, sharing: Sharing) -> State:
        group_sms = self._group_sms()
        kernels = sum(len(load.program.kernels) + 1 for load in self.loads)
        sequence = sum(len(load.program.sequence) for load in self.loads)
        jobs = sum(len(ld.work.at_ns) for ld in self.loads if isinstance(ld.work, Arrivals))
        state = blank_state(
            tenants=len(self.loads),
            kernels=kernels,
            sequence=sequence,
            jobs=jobs,
            group_sms=group_sms,
        )
        device = state.device[0]
        device["sharing"] = SPACE if sharing.side_by_side else TIME
        device["gated"] = int(sharing.gated)
        for name in (
            "time_slice_ns",
            "context_switch_ns",
            "context_save_ns",
            "launch_latency_ns",
            "sync_return_ns",
            "mps_kernel_ns",
            "cache_penalty",
            "wave_stagger",
            "launch_queue",
            "gate_wake_ns",
        ):
            device[name] = getattr(physics, name)
        cursor = _Cursor()
        for index, load in enumerate(self.loads):
            self._add_tenant(state, index, load, physics, sharing, cursor)
        return state

    def _group_sms(self) -> list[int]:
        if not self._fine:
            return [self.profile.sms]
        groups = [self.profile.sm_granule] * self.profile.sm_groups
        rest = self.profile.sms - sum(groups)
        return [*groups, rest] if rest else groups

    def _add_tenant(
        self,
        state: State,
        index: int,
        load: TenantLoad,
        physics: Physics,
        sharing: Sharing,
        cursor: "_Cursor",
    ) -> None:
        program, tenant = load.program, state.tenants[index]
        first_kernel = cursor.kernel
        for spec in program.kernels:
            signature = spec.signature(cursor.kernel)
            self.signatures.append(signature)
            record = state.kernels[cursor.kernel]
            units = spec.blocks / spec.resident**physics.block_spread
            waves = max(1.0, np.ceil(units / self.profile.sms - 1e-9))
            record["units"] = units
            record["wave_ns"] = spec.solo_ns / waves
            record["bandwidth"] = spec.bandwidth_share
            record["gap_ns"] = spec.gap_ns
            record["host_ns"] = spec.host_ns
            record["predicted_ns"] = _UNKNOWN_KERNEL_NS
            record["kernel_class"] = classify(signature, spec.solo_ns, self.profile)
            cursor.kernel += 1
        whole = program.graph_signature(cursor.kernel, self.profile)
        self.signatures.append(whole)
        graph = state.kernels[cursor.kernel]
        graph["predicted_ns"] = _UNKNOWN_KERNEL_NS * len(program.sequence)
        graph["kernel_class"] = classify(whole, 0.0, self.profile)
        tenant["graph_signature"] = cursor.kernel
        cursor.kernel += 1
        length = len(program.sequence)
        state.sequence[cursor.sequence : cursor.sequence + length] = (
            np.asarray(program.sequence) + first_kernel
        )
        tenant["sequence_first"], tenant["sequence_length"] = cursor.sequence, length
        cursor.sequence += length
        tenant["graph"] = int(program.graph)
        tenant["graph_host_ns"] = program.graph_host_ns
        tenant["sync_every"] = program.sync_every
        self._add_work(state, index, load, cursor)
        name = load.tenant.id
        tenant["priority"] = sharing.priorities.get(name, 0)
        tenant["event_every"] = sharing.event_every
        tenant["cap_sms"] = self.profile.sms * sharing.cap_share.get(name, 1.0)
        if name in sharing.sms:
            tenant["fixed_low"], tenant["fixed_high"] = self._groups(sharing.sms[name])
        tenant["reports"] = int(load.reports_latency)
        latency = load.tenant.slo.latency
        tenant["target_ns"] = latency.target_ns if latency else 0
        tenant["host"], tenant["host_at"] = HOST_WAITING, load.joins_ns
        tenant["burst_since"] = -1
        tenant["held_since"] = -1
        if load.leaves_ns is not None:
            tenant["leaves"] = load.leaves_ns

    def _add_work(self, state: State, index: int, load: TenantLoad, cursor: "_Cursor") -> None:
        tenant, work = state.tenants[index], load.work
        tenant["think_ns"] = work.think_ns
        if isinstance(work, ClosedLoop):
            tenant["closed"] = 1
            tenant["closed_iterations"] = work.iterations
            return
        count = len(work.at_ns)
        jobs = state.jobs[cursor.job : cursor.job + count]
        jobs["arrival"] = work.at_ns
        jobs["iterations"] = work.iterations
        tenant["jobs_next"], tenant["jobs_end"] = cursor.job, cursor.job + count
        cursor.job += count

    # Reading

    def _reading(self, index: int) -> TenantReading:
        tenant = self.state.tenants[index]
        signature = tenant["graph_signature"] if tenant["graph"] else tenant["kernel"]
        memory = self.loads[index].memory_bytes
        return TenantReading(
            tenant=self.tenant_ids[index],
            busy=bool(tenant["wants"]),
            launches=int(tenant["r_launches"]),
            gpu_ns=int(tenant["r_gpu_ns"]),
            busy_ns=int(tenant["r_busy_ns"]),
            gated_ns=int(tenant["r_gated_ns"]),
            longest_hold_ns=self._longest_hold(index),
            bursts=int(tenant["r_bursts"]),
            late=int(tenant["r_late"]),
            latencies=_filled(self.state.latencies[index]),
            reported=bool(tenant["reports"]),
            burst_gpu_ns=int(tenant["r_burst_gpu_ns"]),
            gap_ns=int(tenant["r_gap_ns"]),
            longest_kernel_ns=int(tenant["r_longest_kernel_ns"]),
            memory_bytes=memory,
            memory_peak_bytes=memory,
            running=KernelClass(int(self.state.kernels[signature]["kernel_class"])),
            burst_alone_ns=int(tenant["r_burst_alone_ns"]),
            losses=_filled(self.state.losses[index]),
        )

    def _longest_hold(self, index: int) -> int:
        """The longest hold since the last reading, one still going on included."""
        tenant = self.state.tenants[index]
        since = int(tenant["held_since"])
        ongoing = self.now_ns - since if since >= 0 else 0
        return max(int(tenant["r_longest_hold_ns"]), ongoing)

    def _samples(self) -> tuple[KernelSample, ...]:
        device = self.state.device[0]
        sums: dict[tuple[int, int, int, int], tuple[int, int]] = {}
        for record in self.state.samples[: int(device["sample_count"])]:
            key = (
                int(record["tenant"]),
                int(record["signature"]),
                int(record["sms"]),
                int(record["company"]),
            )
            count, total = sums.get(key, (0, 0))
            sums[key] = (count + 1, total + int(record["ns"]))
        device["sample_count"] = 0
        return tuple(
            KernelSample(
                tenant=self.tenant_ids[tenant],
                signature=self.signatures[signature],
                launches=count,
                total_ns=total,
                sms=sms,
                company=tuple(other for i, other in enumerate(self.tenant_ids) if company >> i & 1),
            )
            for (tenant, signature, sms, company), (count, total) in sums.items()
        )

    def _drain(self) -> None:
        device = self.state.device[0]
        self.finished.append(self.state.done[: int(device["done_count"])].copy())
        self.edges.append(self.state.edges[: int(device["edge_count"])].copy())
        device["done_count"] = 0
        device["edge_count"] = 0

    def _groups(self, sms: SmSet) -> tuple[int, int]:
        """The groups of compute units a set covers; the remainder goes with the last group."""
        if not self._fine:
            return 0, 1
        groups = len(self._group_sms())
        low = sms.first // self.profile.sm_granule
        high = groups if sms.end >= self.profile.sms else sms.end // self.profile.sm_granule
        return low, max(low + 1, high)

    def _mask(self, tenants: tuple[TenantId, ...]) -> np.uint64:
        mask = 0
        for tenant in tenants:
            mask |= 1 << self._index[tenant]
        return np.uint64(mask)


def _filled(counts: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    """A histogram without its empty buckets."""
    return tuple((int(bucket), int(counts[bucket])) for bucket in np.nonzero(counts)[0])


@dataclass(slots=True)
class _Cursor:
    """Where the next tenant's kernels, launches and jobs go."""

    kernel: int = 0
    sequence: int = 0
    job: int = 0
