"""A data plane in plain memory, with clients that are views into it, for the rule tests."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field

from dure.devices import layout
from dure.devices.plane_library import Launch, Plane, Waits, plane_library

FAR_NS = 10_000_000_000


@dataclass(slots=True)
class MemoryPlane:
    """Control, rotation and slots, and one `Plane` for each client in use."""

    tenant_of: Sequence[int]
    """By client."""
    control: layout.Control = field(default_factory=layout.Control)
    rotation: layout.Rotation = field(default_factory=layout.Rotation)
    slots: list[layout.Slot] = field(default_factory=list)
    planes: list[Plane] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.slots = [layout.Slot() for _ in range(layout.CLIENTS)]
        pages = [ctypes.pointer(slot.activity) for slot in self.slots]
        for client, tenant in enumerate(self.tenant_of):
            self.control.tenants[tenant].clients |= 1 << client
            self.control.live_clients |= 1 << client
            self.slots[client].activity.tenant = tenant
            plane = Plane()
            plane.control = ctypes.pointer(self.control)
            plane.rotation = ctypes.pointer(self.rotation)
            plane.slot = ctypes.pointer(self.slots[client])
            plane.clients[:] = pages
            plane.client, plane.tenant = client, tenant
            self.planes.append(plane)
        self.control.gated = 1
        self.control.tick = 1
        self.control.sms, self.control.group_sms = 132, 8

    def beat(self, now_ns: int) -> None:
        """The agent is alive for a while from here on."""
        self.control.heartbeat_ns = now_ns + FAR_NS

    def publish(self, plan: layout.PlanBuffer) -> None:
        plane_library().dure_publish(self.control, self.rotation, plan)

    def turn_over(self, now_ns: int) -> None:
        pages = (ctypes.c_void_p * layout.CLIENTS)(*map(ctypes.addressof, self.slots))
        plane_library().dure_turn_over(self.control, self.rotation, ctypes.addressof(pages), now_ns)

    def ask(self, client: int, launch: Launch, now_ns: int) -> tuple[int, int]:
        held_for = ctypes.c_uint32(0)
        why = plane_library().dure_ask(self.planes[client], launch, now_ns, held_for)
        return int(why), held_for.value

    def launched(self, client: int, launch: Launch, now_ns: int) -> None:
        plane_library().dure_launched(self.planes[client], launch, now_ns)

    def finished(self, client: int, predicted_ns: int, now_ns: int, took_ns: int = 0) -> None:
        plane_library().dure_finished(self.planes[client], predicted_ns, took_ns, now_ns)

    def drained(self, client: int, now_ns: int) -> None:
        plane_library().dure_drained(self.planes[client], now_ns)

    def waits(self, client: int, launch: Launch, now_ns: int) -> list[int] | None:
        """The clients that a launch may wait for on the device; None: it must be held instead."""
        waits = Waits()
        if not plane_library().dure_waits_now(self.planes[client], launch, now_ns, waits):
            return None
        plane_library().dure_waits_placed(self.planes[client], waits, now_ns)
        return list(waits.clients[: waits.count])

    def check_waits(self, client: int, now_ns: int) -> int:
        """Close and open words in time; when to look again, 0 where nothing may wait."""
        return int(plane_library().dure_waits_check(self.planes[client], now_ns))

    def spent_ns(self, tenant: int) -> int:
        """What counts of its spending in this round; nothing while no squad is in force."""
        if layout.turn_dormant(self.rotation.turn):
            return 0
        clients = [c for c, owner in enumerate(self.tenant_of) if owner == tenant]
        words = [self.slots[client].activity.spent for client in clients]
        now_round = layout.turn_round(self.rotation.turn)
        return sum(word & (1 << 40) - 1 for word in words if word >> 40 == now_round)
