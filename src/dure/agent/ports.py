"""What the agent needs of devices, said by the side that uses them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dure.devices.layout import Sample
from dure.devices.nvml import GpuFacts, GpuState, GpuUser
from dure.devices.plane import CounterReading, TurnReading
from dure.domain.ids import TenantId
from dure.domain.plan import Plan


@dataclass(frozen=True, slots=True)
class TenantWords:
    """The slow-moving words of one tenant; all zero is an empty seat."""

    clients: int = 0
    memory_limit_bytes: int = 0
    memory_reserve_bytes: int = 0
    copy_bytes_per_s: int = 0
    target_ns: int = 0
    free: bool = False


class DataPlane(Protocol):
    """The shared memory of one GPU, from the agent's side."""

    def beat(self, now_ns: int) -> None:
        """The agent is alive; from any thread."""

    def set_gated(self, gated: bool) -> None:
        """Whether launches are judged at all; from any thread."""

    def set_sample_every(self, launches: int) -> None:
        """Time one launch in so many."""

    def set_live_clients(self, mask: int) -> None:
        """Which slots are in use."""

    def set_tenant(self, index: int, words: TenantWords) -> None:
        """The slow-moving words of one tenant."""

    def count_tick(self) -> None:
        """All counters were read."""

    def descriptors_for(self, client: int) -> Sequence[int]:
        """What a client is handed."""

    def wipe(self, client: int) -> None:
        """Forget all that was written to a slot."""

    def read(self, client: int) -> CounterReading | None:
        """A client's words; None before it introduced itself."""

    def take_samples(self, client: int) -> Sequence[Sample]:
        """Launches of a client that were timed since the last call."""

    def publish(self, plan: Plan, tenant_index: Mapping[TenantId, int]) -> None:
        """Lay a plan ready; it takes effect at the next squad edge."""

    def turn_over(self, now_ns: int) -> None:
        """End the squad in force if it is over."""

    def turn(self) -> TurnReading:
        """Whose turn it is."""


class GpuLibrary(Protocol):
    """The GPUs of this host."""

    def gpus(self) -> list[GpuFacts]:
        """All of them; raises where there is none."""

    def state(self, index: int) -> GpuState:
        """How one is now."""

    def users(self, index: int) -> list[GpuUser]:
        """Processes with a context on it."""

    def close(self) -> None:
        """Give the library back."""
