"""The agent's side of one GPU's data plane: the shared memory that clients map, and its own words.

All a launch needs is in these words; nothing is asked per launch. Several threads may call as
long as each kind of word has one writer: the heart beats, the actor does the rest. Every structure
is explained in `native/abi.h`.
"""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dure.devices import layout
from dure.devices.plane_library import plane_library
from dure.devices.segments import Segment, make_room_for_descriptors
from dure.domain.ids import TenantId
from dure.domain.plan import Plan, SmSet, SquadMember


class TenantWords(Protocol):
    """The slow-moving words of one tenant; 0 is "none" everywhere."""

    @property
    def clients(self) -> int:
        """A bit for each of its client slots."""

    @property
    def memory_limit_bytes(self) -> int: ...
    @property
    def memory_reserve_bytes(self) -> int: ...
    @property
    def copy_bytes_per_s(self) -> int: ...
    @property
    def target_ns(self) -> int: ...
    @property
    def free(self) -> bool:
        """Never held."""


@dataclass(frozen=True, slots=True)
class PlaneDevice:
    """What clients are told of the device."""

    sms: int
    group_sms: int
    memory_bytes: int
    uuid: bytes
    side_by_side: bool = False
    """Kernels of different processes overlap (MPS)."""


@dataclass(frozen=True, slots=True)
class CounterReading:
    """One client's words at a moment: copies, so they stand still."""

    activity: layout.Activity
    counters: layout.Counters
    latency: NDArray[np.uint64]
    lost: NDArray[np.uint64]
    reported_latency: NDArray[np.uint64]
    since_tick: bool
    """Whether the three figures "since the last tick" belong to the tick that ends now."""

    def has_work(self, now_ns: int) -> bool:
        """Whether its work is going on, as its neighbours see it."""
        return self.activity.busy_since_ns != 0 and now_ns < self.activity.expires_ns

    def busy_ns(self, now_ns: int) -> int:
        """Time in bursts up to now, the one that goes on included."""
        began = self.activity.burst_since_ns
        ongoing = max(0, min(now_ns, self.activity.expires_ns) - began) if began else 0
        return self.counters.busy_ns + ongoing


@dataclass(frozen=True, slots=True)
class TurnReading:
    """Whose turn it is."""

    epoch: int
    """Of the plan in force; 0: none."""
    squad: int
    dormant: bool
    edges: int
    adopted_ns: int
    sleepers: int


class PlaneSegments:
    """The shared memory of one GPU, and the agent's words in it."""

    def __init__(self, device: PlaneDevice) -> None:
        self._library = plane_library()
        make_room_for_descriptors()
        self._plan = Segment("dure-plan", layout.Control, agent_alone=True)
        self._rotation = Segment("dure-rotation", layout.Rotation)
        self._slots = [
            Segment(f"dure-slot-{index}", layout.Slot) for index in range(layout.CLIENTS)
        ]
        self._device = device
        self._draft = layout.PlanBuffer()
        self._drafted = 0
        self._tails = [ctypes.c_uint64(0) for _ in self._slots]
        self._samples = (layout.Sample * layout.SAMPLES)()
        pages = [ctypes.addressof(slot.words) for slot in self._slots]
        self._pages = (ctypes.c_void_p * layout.CLIENTS)(*pages)
        self._introduce(device)

    def _introduce(self, device: PlaneDevice) -> None:
        words = self._plan.words
        words.version = layout.VERSION
        words.plan_bytes = layout.CONTROL_BYTES
        words.slot_bytes = layout.SLOT_BYTES
        words.sms = device.sms
        words.group_sms = device.group_sms
        words.side_by_side = int(device.side_by_side)
        words.memory_bytes = device.memory_bytes
        words.uuid[:] = list(device.uuid)
        words.tick = 1
        self._store("magic", layout.MAGIC)

    def close(self) -> None:
        """Give up all descriptors; clients keep their mappings, and pass when the beat stops."""
        self._plan.close()
        self._rotation.close()
        for slot in self._slots:
            slot.close()

    # Control words

    def _store(self, name: str, value: int) -> None:
        field: int = getattr(layout.Control, name).offset
        self._library.dure_store(ctypes.addressof(self._plan.words) + field, value)

    def beat(self, now_ns: int) -> None:
        """The agent is alive."""
        self._store("heartbeat_ns", now_ns)

    def set_gated(self, gated: bool) -> None:
        """Whether launches are judged at all; where not, everything passes."""
        self._store("gated", int(gated))
        self._library.dure_wake(self._rotation.words)

    def set_sample_every(self, launches: int) -> None:
        """Time one launch in so many; 0: none."""
        self._store("sample_every", launches)

    def set_live_clients(self, mask: int) -> None:
        """Which slots are in use."""
        self._store("live_clients", mask)

    def count_tick(self) -> None:
        """All counters were read: clients begin anew what they keep for a tick."""
        self._store("tick", self._plan.words.tick + 1)

    def set_tenant(self, index: int, words: TenantWords) -> None:
        """The slow-moving words of one tenant."""
        entry = self._plan.words.tenants[index]
        values = {
            "clients": words.clients,
            "memory_limit_bytes": words.memory_limit_bytes,
            "memory_reserve_bytes": words.memory_reserve_bytes,
            "copy_bytes_per_s": words.copy_bytes_per_s,
            "target_ns": words.target_ns,
            "flags": layout.TENANT_FREE if words.free else 0,
        }
        for name, value in values.items():
            offset: int = getattr(layout.TenantEntry, name).offset
            self._library.dure_store(ctypes.addressof(entry) + offset, value)

    # Clients

    def descriptors_for(self, client: int) -> list[int]:
        """What a client is handed: plan, rotation, its own slot to write; all slots to read."""
        readable = [slot.read_fd for slot in self._slots]
        own = self._slots[client].write_fd
        return [self._plan.read_fd, self._rotation.write_fd, own, *readable]

    def wipe(self, client: int) -> None:
        """Forget all that was written to a slot, for its next user; nobody waits for the last."""
        self._slots[client].wipe()
        self._rotation.words.closed[client] = 0
        self._tails[client].value = 0

    def read(self, client: int) -> CounterReading | None:
        """A client's words as they are now; None before it introduced itself."""
        slot = self._slots[client].words
        if self._library.dure_load(ctypes.addressof(slot) + layout.PAGE_BYTES) != layout.MAGIC:
            return None
        counters = layout.Counters.from_buffer_copy(slot.counters)
        return CounterReading(
            activity=layout.Activity.from_buffer_copy(slot.activity),
            counters=counters,
            latency=np.array(slot.latency, dtype=np.uint64),
            lost=np.array(slot.lost, dtype=np.uint64),
            reported_latency=np.array(slot.reported_latency, dtype=np.uint64),
            since_tick=counters.mark == self._plan.words.tick,
        )

    def take_samples(self, client: int) -> list[layout.Sample]:
        """Launches of a client that were timed since the last call."""
        taken = self._library.dure_take_samples(
            self._slots[client].words, self._tails[client], self._samples, layout.SAMPLES
        )
        return [layout.Sample.from_buffer_copy(self._samples[index]) for index in range(taken)]

    # Plans

    def publish(self, plan: Plan, tenant_index: Mapping[TenantId, int]) -> None:
        """Lay a plan ready; it takes effect at the next squad edge.

        A tenant without an index has left meanwhile: its part is left out.
        """
        draft = self._draft
        for squad in range(self._drafted):
            ctypes.memset(
                ctypes.addressof(draft.orders[squad]), 0, ctypes.sizeof(draft.orders[squad])
            )
        squads = plan.squads[: layout.SQUADS]
        draft.epoch = plan.epoch
        draft.promised = _mask(plan.protected, tenant_index)
        draft.squads = self._drafted = len(squads)
        for asks, row in enumerate(plan.corun):
            draft.corun[asks][:] = [int(passes) for passes in row]
        for number, squad_ in enumerate(squads):
            draft.duration_ns[number] = squad_.duration_ns
            for member in squad_.members:
                index = tenant_index.get(member.tenant)
                if index is not None:
                    self._write_order(draft.orders[number][index], member, tenant_index)
        self._library.dure_publish(self._plan.words, self._rotation.words, draft)

    def _write_order(
        self, order: layout.Order, member: SquadMember, tenant_index: Mapping[TenantId, int]
    ) -> None:
        order.member = 1
        order.group_first, order.group_count = self._groups(member.sms)
        order.beside = _mask(member.beside, tenant_index)
        order.yields = _mask(member.yields_to, tenant_index)
        order.budget_ns = member.budget_ns
        order.inflight_ns = member.inflight_ns
        order.patience_ns = member.patience_ns
        order.linger_ns = member.linger_ns

    def _groups(self, sms: SmSet) -> tuple[int, int]:
        """A set of compute units in groups; (0, 0) is the whole device."""
        granule = self._device.group_sms
        groups = self._device.sms // granule if granule else 0
        if groups == 0 or sms.count >= self._device.sms or sms.count <= 0:
            return 0, 0
        first = min(sms.first // granule, groups - 1)
        last = min(-(-sms.end // granule), groups)
        return (0, 0) if (first, last) == (0, groups) else (first, last - first)

    def turn_over(self, now_ns: int) -> None:
        """End the squad in force if it is over, so that an idle device adopts plans."""
        self._library.dure_turn_over(
            self._plan.words, self._rotation.words, ctypes.addressof(self._pages), now_ns
        )

    def turn(self) -> TurnReading:
        """Whose turn it is now."""
        rotation = self._rotation.words
        turn = rotation.turn
        return TurnReading(
            epoch=self._plan.words.plans[layout.turn_buffer(turn)].epoch,
            squad=layout.turn_squad(turn),
            dormant=layout.turn_dormant(turn),
            edges=rotation.edges,
            adopted_ns=rotation.adopted_ns,
            sleepers=rotation.sleepers,
        )


def _mask(tenants: tuple[TenantId, ...], tenant_index: Mapping[TenantId, int]) -> int:
    return sum(1 << tenant_index[tenant] for tenant in set(tenants) if tenant in tenant_index)
