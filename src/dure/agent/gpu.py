"""One GPU: its machine, its data plane, its seats. Synchronous; its actor calls it from one thread.

counters → `ReadingsTaken` → `KernelMachine` → instructions → plan, allotments, signals. Whatever
goes wrong in deciding opens the gate and is logged; the next tick tries again.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from dure.agent.books import Book
from dure.agent.events import EventLog, signal_words
from dure.agent.ports import DataPlane, TenantWords
from dure.agent.readings import Meter
from dure.agent.timeline import Timeline
from dure.client.convert import plan_status
from dure.client.schema import PlanStatus
from dure.devices.plane import CounterReading
from dure.domain.accelerator import AcceleratorProfile
from dure.domain.errors import DureError, InputError
from dure.domain.events import (
    Event,
    PolicyParameters,
    PolicyRequested,
    ProgressReported,
    ReadingsTaken,
    RiskCleared,
    RiskRaised,
    TenantChanged,
    TenantJoined,
    TenantLeft,
)
from dure.domain.ids import TenantId
from dure.domain.instructions import (
    Instruction,
    PolicySwitched,
    PreviewPlan,
    PublishPlan,
    RaiseSignal,
    RequestRefused,
    SetAllotment,
    WeightAdapted,
)
from dure.domain.plan import Allotment
from dure.domain.risks import WeightsBy
from dure.domain.tenant import Tenant
from dure.domain.units import NS_PER_S, format_bytes
from dure.kernel.machine import KernelMachine, MachineSettings
from dure.kit.taps import Tap

_log = logging.getLogger(__name__)

KernelTap = Tap[tuple[Event, tuple[Instruction, ...]]]

TENANTS = 64
CLIENTS = 64
"""DURE_TENANTS and DURE_CLIENTS."""

_FAILURES_BEFORE_REBUILD = 50
"""A machine that failed in so many ticks on end starts anew from what was declared."""
_KEPT_TICKS = 512
"""Ten seconds of readings, for a reader that comes twice a second."""
_SAMPLE_EVERY = 16
"""Launches between two that are timed: an event pair takes some 4 µs, a launch some 3."""


class FullError(DureError):
    """There is no seat or slot left."""


@dataclass(slots=True)
class Seat:
    """A tenant on this GPU."""

    index: int
    tenant: Tenant
    free: bool
    book: Book = field(default_factory=Book)
    allotment: Allotment | None = None
    progress: tuple[float, float] | None = None
    slots: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Client:
    """A process in a slot."""

    slot: int
    turn: int
    tenant: TenantId
    pid: int
    program: str
    since_ns: int


@dataclass(frozen=True, slots=True)
class GpuIdentity:
    """Which GPU this is."""

    index: int
    uuid: str
    name: str
    uuid_bytes: bytes
    profile: AcceleratorProfile
    side_by_side: bool


@dataclass(slots=True)
class Gpu:
    """Decides for one GPU and carries it out."""

    identity: GpuIdentity
    plane: DataPlane
    events: EventLog
    policy: str
    parameters: PolicyParameters
    clock: Callable[[], int]
    seats: dict[TenantId, Seat] = field(default_factory=dict)
    clients: dict[int, Client] = field(default_factory=dict)
    ticks: int = 0
    gate_note: str | None = "no tenant has a process here"
    edges_per_s: float = 0.0
    weights: WeightsBy = WeightsBy.FORESEEN
    taken: deque[ReadingsTaken] = field(default_factory=lambda: deque(maxlen=_KEPT_TICKS))
    """The latest readings, for whoever foresees from them in another thread."""
    timeline: Timeline = field(init=False)
    """Who ran when, for people."""
    taps: list[KernelTap] = field(default_factory=list)
    """Recordings under way."""
    _machine: KernelMachine = field(init=False)
    _meter: Meter = field(init=False)
    _held_back: dict[int, Client] = field(default_factory=dict)
    """Slots left by a process that still runs, by slot: nobody else gets them before its end."""
    _turns: int = 0
    _failures: int = 0
    _gated: bool | None = None
    _edges_at: tuple[int, int] = (0, 0)
    """When squads were last counted, and how many there had been."""

    def __post_init__(self) -> None:
        self._machine = self._new_machine()
        self.timeline = Timeline(self.identity.profile.sms)
        self._meter = Meter(self.plane, self.identity.profile.sms)
        self.plane.set_sample_every(_SAMPLE_EVERY)
        self._set_gate()

    @property
    def machine(self) -> KernelMachine:
        """For those who show what it knows."""
        return self._machine

    @property
    def gated(self) -> bool:
        return bool(self._gated)

    def _new_machine(self) -> KernelMachine:
        return KernelMachine(
            MachineSettings(
                accelerator=self.identity.profile,
                policy=self.policy,
                parameters=self.parameters,
                side_by_side=self.identity.side_by_side,
                weights=self.weights,
            )
        )

    # Tenants

    def join(self, tenant: Tenant, *, free: bool) -> None:
        """Give a tenant a seat, or change what is known of the one it has; raises if refused."""
        self.refuse_oversize(tenant)
        seat = self.seats.get(tenant.id)
        if seat is None:
            taken = {other.index for other in self.seats.values()}
            index = next((i for i in range(TENANTS) if i not in taken), None)
            if index is None:
                raise FullError(f"the GPU has {TENANTS} tenants", "forget one of them first")
            kind: type[TenantJoined | TenantChanged] = TenantJoined
            seat = Seat(index, tenant, free)
        else:
            kind = TenantChanged
        before = self.seats.get(tenant.id)
        self.seats[tenant.id] = seat
        try:
            self._carry_out(self._handle(kind(self.clock(), tenant)))
        except InputError:
            if before is None:
                del self.seats[tenant.id]
            raise
        seat.tenant, seat.free = tenant, free
        self._write_words(seat)

    def leave(self, tenant: TenantId) -> None:
        """Take back the seat of a tenant that has no process here."""
        seat = self.seats.get(tenant)
        if seat is None or seat.slots:
            return
        self._meter.forget(tenant)
        self._decide(TenantLeft(self.clock(), tenant))
        self.plane.set_tenant(seat.index, TenantWords())
        del self.seats[tenant]
        self._set_gate()

    def refuse_oversize(self, tenant: Tenant) -> None:
        """Raise where a tenant's memory limit is more than the card has; from any thread."""
        limit, device = tenant.memory.limit_bytes, self.identity.profile.memory_bytes
        if limit is not None and limit > device:
            raise InputError(
                f"a memory limit of {format_bytes(limit)} for '{tenant.id}' is more than the "
                f"{format_bytes(device)} of {self.identity.name}",
                "lower it",
            )

    @property
    def unreserved_bytes(self) -> int:
        """Memory of the card that is kept free for nobody."""
        given = [seat.allotment for seat in self.seats.values() if seat.allotment is not None]
        reserved = sum(allotment.memory_reserve_bytes for allotment in given)
        return self.identity.profile.memory_bytes - reserved

    def _write_words(self, seat: Seat) -> None:
        """The slow-moving words of one tenant."""
        given, latency = seat.allotment, seat.tenant.slo.latency
        limit = seat.tenant.memory.limit_bytes
        stated_copy = seat.tenant.copy_bytes_per_s is not None
        self.plane.set_tenant(
            seat.index,
            TenantWords(
                clients=sum(1 << slot for slot in seat.slots),
                memory_limit_bytes=min(limit, given.memory_limit_bytes)
                if limit is not None and given is not None
                else limit or 0,
                memory_reserve_bytes=given.memory_reserve_bytes if given else 0,
                copy_bytes_per_s=round(given.copy_bytes_per_s) if given and stated_copy else 0,
                target_ns=latency.target_ns if latency else 0,
                free=seat.free,
            ),
        )

    # Clients

    def add_client(self, tenant: TenantId, pid: int, program: str) -> Client:
        """Give a process a slot; its own old one if it had one, else one that nobody else maps."""
        seat = self.seats[tenant]
        own = [slot for slot, left in self._held_back.items() if left.pid == pid and pid]
        kept = (*self.clients, *self._held_back)
        slot = own[0] if own else next((i for i in range(CLIENTS) if i not in kept), None)
        if slot is None:
            raise FullError(f"all {CLIENTS} slots for processes are taken", "end some of them")
        self._held_back.pop(slot, None)
        self._turns += 1
        client = Client(slot, self._turns, tenant, pid, program, self.clock())
        self.plane.wipe(slot)
        self.clients[slot] = client
        self._meter.begin(slot)
        seat.slots.add(slot)
        self._write_words(seat)
        self.plane.set_live_clients(sum(1 << index for index in self.clients))
        self._set_gate()
        return client

    def drop_client(self, slot: int, turn: int, *, alive: bool) -> Client | None:
        """Free a slot. While its process still runs (`alive`) nobody else gets it, since the
        process may still write there; the call when it ended finds the slot waiting."""
        client = self.clients.get(slot)
        if client is None or client.turn != turn:
            left = self._held_back.get(slot)
            if left is not None and left.turn == turn and not alive:
                del self._held_back[slot]
            return None
        seat = self.seats[client.tenant]
        self._meter.look(slot, client.tenant, self.clock())
        del self.clients[slot]
        if alive:
            self._held_back[slot] = client
        self.plane.set_live_clients(sum(1 << index for index in self.clients))
        seat.slots.discard(slot)
        self._write_words(seat)
        self._meter.end(slot)
        self.plane.wipe(slot)
        self._set_gate()
        return client

    # Deciding

    def tick(self) -> None:
        """Read, decide, publish."""
        self.ticks += 1
        now_ns = self.clock()
        for slot, client in self.clients.items():
            self._meter.look(slot, client.tenant, now_ns)
        self._tell_odd()
        books = {id_: seat.book for id_, seat in self.seats.items()}
        taken = self._meter.flush(now_ns, books, self.names())
        for tenant, done, total in taken.progress:
            if tenant in self.seats:
                self.seats[tenant].progress = (done, total)
            self._decide(ProgressReported(now_ns, tenant, done, total))
        event = ReadingsTaken(now_ns, taken.readings, taken.samples)
        self._decide(event)
        self.taken.append(event)
        self.timeline.add(now_ns, time.time_ns(), self.plane.turn(), taken.readings)
        self.plane.turn_over(now_ns)
        self._set_gate()
        self._count_edges(now_ns)

    def heed(self, event: RiskRaised | RiskCleared) -> None:
        """Somebody foresees trouble, or sees it gone: tell people and the machine."""
        if isinstance(event, RiskRaised):
            risk = event.risk
            self._tell("risk", f"{risk.tenant or 'the device'}: {risk.reason}", tenant=risk.tenant)
        else:
            who = event.tenant or "the device"
            self._tell("risk", f"{who}: {event.kind.value} risk is over", tenant=event.tenant)
        self._decide(replace(event, now_ns=self.clock()))

    def _tell_odd(self) -> None:
        for slot in self._meter.take_odd():
            client = self.clients.get(slot)
            if client is not None:
                who = f"{client.tenant}: process {client.pid} ({client.program})"
                text = f"{who} counts what cannot be; that is left out"
                self._tell("scribble", text, tenant=client.tenant)

    def _count_edges(self, now_ns: int) -> None:
        since_ns, before = self._edges_at
        if now_ns - since_ns >= NS_PER_S:
            edges = self.plane.turn().edges
            self.edges_per_s = (edges - before) * NS_PER_S / (now_ns - since_ns)
            self._edges_at = (now_ns, edges)

    def request_policy(
        self, policy: str, parameters: PolicyParameters, *, dry_run: bool
    ) -> tuple[PlanStatus | None, str | None]:
        """Switch, or say what a switch would do; raises `InputError` if refused."""
        event = PolicyRequested(self.clock(), policy, parameters, dry_run)
        instructions = self._handle(event)
        for instruction in instructions:
            if isinstance(instruction, PreviewPlan):
                return plan_status(instruction.plan), instruction.reason
        self._carry_out(instructions)
        self.policy, self.parameters = policy, parameters
        self.plane.turn_over(self.clock())
        return self.plan(), None

    def plan(self) -> PlanStatus | None:
        """The plan that was published last."""
        return plan_status(self._machine.plan) if self._machine.plan is not None else None

    def report_latencies(self, tenant: TenantId, latencies_ns: Iterable[int]) -> None:
        """Requests as the program itself measured them."""
        latency = self.seats[tenant].tenant.slo.latency
        self._meter.reports.latencies(tenant, latencies_ns, latency.target_ns if latency else 0)

    def report_progress(self, tenant: TenantId, done: float, total: float) -> None:
        """How far a program is."""
        self._meter.reports.progress[tenant] = (done, total)

    def _decide(self, event: Event) -> None:
        """Hand an event to the machine; on failure open the gate and go on."""
        try:
            self._carry_out(self._handle(event))
        except Exception as error:  # noqa: BLE001, no decision is worth a tenant
            self._failed(error)
        else:
            if self._failures:
                self._failures = 0
                self._set_gate()

    def _handle(self, event: Event) -> tuple[Instruction, ...]:
        """Ask the machine, before the eyes of those who record."""
        try:
            answer = self._machine.handle(event)
        except Exception:
            for tap in self.taps:
                tap.end("deciding failed; see the log")
            raise
        if self.taps:
            self.taps = [tap for tap in self.taps if tap.add((event, answer))]
        return answer

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        if self._failures == 1:
            _log.error("GPU %d: deciding failed", self.identity.index, exc_info=error)
            self._tell("planning", f"deciding failed ({error}); the gate is open until it works")
        self._set_gate()
        if self._failures % _FAILURES_BEFORE_REBUILD == 0:
            self._rebuild()

    def _rebuild(self) -> None:
        """Start the machine anew from what was declared; what it had learned is lost."""
        self._tell("planning", "the machine starts anew from what was declared")
        machine = self._new_machine()
        try:
            for seat in self.seats.values():
                machine.handle(TenantJoined(self.clock(), seat.tenant))
        except Exception:  # noqa: BLE001, logged with its trace
            _log.exception("GPU %d: the machine cannot start anew", self.identity.index)
            return
        self._machine = machine

    def _carry_out(self, instructions: Iterable[Instruction]) -> None:
        """Do what the machine asks; raises `InputError` where it refused."""
        for instruction in instructions:
            match instruction:
                case PublishPlan(plan):
                    indices = {id_: seat.index for id_, seat in self.seats.items()}
                    self.plane.publish(plan, indices)
                    self.timeline.publish(plan)
                case SetAllotment(allotment):
                    seat = self.seats.get(allotment.tenant)
                    if seat is not None:
                        seat.allotment = allotment
                        self._write_words(seat)
                case RaiseSignal(signal):
                    self._tell("signal", signal_words(signal), tenant=signal.tenant)
                case WeightAdapted():
                    self._tell("weights", str(instruction), tenant=instruction.tenant)
                case PolicySwitched(before, after):
                    self._tell("policy", f"{before} → {after}")
                case RequestRefused(reason):
                    what, _, remedy = reason.partition("; ")
                    raise InputError(what, remedy)
                case PreviewPlan():
                    pass

    # The gate

    def _set_gate(self) -> None:
        """Gated where at least two tenants have a process here and deciding works."""
        present = sum(1 for seat in self.seats.values() if seat.slots)
        if self._failures:
            self.gate_note = "deciding fails; see the log"
        elif present == 0:
            self.gate_note = "no tenant has a process here"
        elif present == 1:
            self.gate_note = "only one tenant has a process here"
        else:
            self.gate_note = None
        gated = self.gate_note is None
        if gated != self._gated:
            self._gated = gated
            self.plane.set_gated(gated)

    def open_gate(self, note: str) -> None:
        """Let everything pass: the agent is about to leave."""
        self.gate_note = note
        self._gated = False
        self.plane.set_gated(False)

    def _tell(self, kind: str, text: str, tenant: str | None = None) -> None:
        self.events.add(kind, text, gpu=self.identity.uuid, tenant=tenant)

    # What there is to see

    def names(self) -> dict[int, TenantId]:
        """Tenants by index."""
        return {seat.index: id_ for id_, seat in self.seats.items()}

    def pids_of(self, tenant: TenantId) -> list[int]:
        """A tenant's processes here."""
        return [client.pid for client in self.clients.values() if client.tenant == tenant]

    def gpu_ns_of(self, tenant: TenantId) -> int:
        """Device time a tenant received here, ever."""
        seat = self.seats.get(tenant)
        return seat.book.total.gpu_ns if seat is not None else 0

    def words_of(self, slot: int) -> CounterReading | None:
        """A client's words as last read."""
        return self._meter.words(slot)

    def reports_requests(self, tenant: TenantId) -> bool:
        """Whether a tenant reports its own requests."""
        return self._meter.reported(tenant)
