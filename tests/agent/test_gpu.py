"""One GPU without threads: the real data plane in this process, time by hand."""

import ctypes
from dataclasses import replace

import pytest

from dure.agent.events import EventLog
from dure.agent.gpu import CLIENTS, FullError, Gpu, GpuIdentity
from dure.devices import layout
from dure.devices.plane import PlaneDevice, PlaneSegments
from dure.devices.segments import Segment
from dure.domain.catalogue import accelerator
from dure.domain.errors import InputError
from dure.domain.ids import TenantId
from dure.domain.tenant import LatencySlo, MemoryClaim, Slo, Tenant, TenantClass
from dure.domain.units import GIB, NS_PER_MS

WEB = Tenant(TenantId("web"), slo=Slo(latency=LatencySlo(5 * NS_PER_MS)))
TRAIN = Tenant(TenantId("train"), tenant_class=TenantClass.BEST_EFFORT)


class Clock:
    def __init__(self) -> None:
        self.now_ns = 1_000_000_000

    def __call__(self) -> int:
        self.now_ns += 20 * NS_PER_MS
        return self.now_ns


@pytest.fixture
def gpu() -> Gpu:
    profile = accelerator("h200")
    device = PlaneDevice(profile.sms, profile.sm_granule, profile.memory_bytes, b"\1" * 16)
    identity = GpuIdentity(0, "GPU-x", "H200", b"\1" * 16, profile, side_by_side=False)
    return Gpu(identity, PlaneSegments(device), EventLog(), "slo", (), Clock())


def _slot(gpu: Gpu, slot: int) -> layout.Slot:
    """A client's words, as the client itself would write them."""
    plane = gpu.plane
    assert isinstance(plane, PlaneSegments)
    segments: list[Segment[layout.Slot]] = plane._slots
    words = segments[slot].words
    words.magic = layout.MAGIC
    return words


def test_figures_of_a_tenant_are_the_sums_over_its_processes(gpu: Gpu) -> None:
    gpu.join(TRAIN, free=False)
    slots = [gpu.add_client(TRAIN.id, pid, "x").slot for pid in (100, 101)]
    gpu.tick()
    for slot in slots:
        counters = _slot(gpu, slot).counters
        counters.launches, counters.gpu_ns = 7, 4 * NS_PER_MS
    gpu.tick()
    deeds = gpu.seats[TRAIN.id].book.total
    assert (deeds.launches, deeds.gpu_ns) == (14, 8 * NS_PER_MS)
    assert gpu.machine.tracks[TRAIN.id].attained_ns == 8 * NS_PER_MS


def test_what_a_process_did_in_its_last_moments_still_counts(gpu: Gpu) -> None:
    gpu.join(TRAIN, free=False)
    client = gpu.add_client(TRAIN.id, 100, "x")
    gpu.tick()
    _slot(gpu, client.slot).counters.gpu_ns = 3 * NS_PER_MS
    gpu.drop_client(client.slot, client.turn, alive=False)
    gpu.tick()
    assert gpu.gpu_ns_of(TRAIN.id) == 3 * NS_PER_MS
    assert _slot(gpu, client.slot).counters.gpu_ns == 0


def test_impossible_counters_count_for_nothing(gpu: Gpu) -> None:
    gpu.join(WEB, free=False)
    client = gpu.add_client(WEB.id, 100, "x")
    words = _slot(gpu, client.slot)
    for byte in (0xFF, 0x00, 0x7F, 0xFF):
        ctypes.memset(ctypes.addressof(words.counters), byte, ctypes.sizeof(words.counters))
        ctypes.memset(ctypes.addressof(words.latency), byte, ctypes.sizeof(words.latency))
        gpu.tick()
    deeds = gpu.seats[WEB.id].book.total
    assert (deeds.gpu_ns, deeds.launches, deeds.latencies) == (0, 0, {})
    assert gpu.machine.plan is not None


def test_a_slot_left_by_a_living_process_goes_to_nobody_else(gpu: Gpu) -> None:
    gpu.join(TRAIN, free=False)
    first = gpu.add_client(TRAIN.id, 100, "x")
    gpu.drop_client(first.slot, first.turn, alive=True)
    others = [gpu.add_client(TRAIN.id, 200 + n, "x").slot for n in range(CLIENTS - 1)]
    assert first.slot not in others
    with pytest.raises(FullError, match="all 64 slots"):
        gpu.add_client(TRAIN.id, 999, "x")
    again = gpu.add_client(TRAIN.id, 100, "x")
    assert again.slot == first.slot
    gpu.drop_client(again.slot, again.turn, alive=True)
    gpu.drop_client(again.slot, again.turn, alive=False)
    assert gpu.add_client(TRAIN.id, 999, "x").slot == first.slot


def test_when_deciding_fails_the_gate_opens_and_closes_again_once_it_works(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, tenant in enumerate((WEB, TRAIN)):
        gpu.join(tenant, free=False)
        gpu.add_client(tenant.id, 100 + number, "x")
    gpu.tick()
    with monkeypatch.context() as broken:
        broken.setattr(type(gpu.machine), "_replan", lambda _: 1 / 0)
        gpu.tick()
        assert (gpu.gated, gpu.gate_note) == (False, "deciding fails; see the log")
    gpu.tick()
    assert (gpu.gated, gpu.gate_note) == (True, None)
    told = [line.text for line in gpu.events.lines() if line.kind == "planning"]
    assert told == ["deciding failed (division by zero); the gate is open until it works"]


def test_a_machine_that_keeps_failing_starts_anew_from_what_was_declared(gpu: Gpu) -> None:
    gpu.join(WEB, free=False)
    before = gpu.machine
    before.tracks.clear()
    before._allotments = None  # type: ignore[assignment]
    before._search = None  # type: ignore[assignment]
    for _ in range(60):
        gpu.tick()
    assert gpu.machine is not before
    assert set(gpu.machine.tracks) == {WEB.id}
    assert gpu.gate_note == "no tenant has a process here"


def test_a_refused_claim_changes_nothing(gpu: Gpu) -> None:
    gpu.join(WEB, free=False)
    greedy = replace(TRAIN, memory=MemoryClaim(reserve_bytes=500 * GIB))
    with pytest.raises(InputError, match="unreserved"):
        gpu.join(greedy, free=False)
    assert set(gpu.seats) == {WEB.id}
    with pytest.raises(InputError, match="unreserved"):
        gpu.join(replace(WEB, memory=MemoryClaim(reserve_bytes=500 * GIB)), free=False)
    assert gpu.seats[WEB.id].tenant == WEB


def test_limits_and_targets_are_written_where_the_shim_reads_them(gpu: Gpu) -> None:
    claim = MemoryClaim(limit_bytes=8 * GIB, reserve_bytes=2 * GIB)
    gpu.join(replace(WEB, memory=claim, copy_bytes_per_s=1e9), free=True)
    client = gpu.add_client(WEB.id, 100, "x")
    plane = gpu.plane
    assert isinstance(plane, PlaneSegments)
    entry = plane._plan.words.tenants[gpu.seats[WEB.id].index]
    assert (entry.memory_limit_bytes, entry.memory_reserve_bytes) == (8 * GIB, 2 * GIB)
    assert (entry.copy_bytes_per_s, entry.target_ns) == (10**9, 5 * NS_PER_MS)
    assert (entry.clients, entry.flags) == (1 << client.slot, layout.TENANT_FREE)
    gpu.drop_client(client.slot, client.turn, alive=False)
    gpu.leave(WEB.id)
    assert (entry.clients, entry.memory_limit_bytes, entry.flags) == (0, 0, 0)
