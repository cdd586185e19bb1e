"""Foresight beside one GPU: what is read reaches detectors, what they see the machine."""

from collections.abc import Iterator

import pytest

from dure.agent.actor import Actor
from dure.agent.events import EventLog
from dure.agent.foresight import Foresight
from dure.agent.gpu import Gpu, GpuIdentity
from dure.devices.nvml_gauges import GpuGauges
from dure.devices.plane import PlaneDevice, PlaneSegments
from dure.domain.catalogue import accelerator
from dure.domain.events import ReadingsTaken
from dure.domain.ids import TenantId
from dure.domain.tenant import LatencySlo, Slo, Tenant, TenantClass
from dure.domain.units import NS_PER_MS, NS_PER_S
from tests.kernel.factories import reading
from tests.telemetry.streams import queue_readings

WEB = Tenant(
    TenantId("web"),
    tenant_class=TenantClass.GUARANTEED,
    slo=Slo(latency=LatencySlo(30 * NS_PER_MS)),
)


class Clock:
    def __init__(self) -> None:
        self.now_ns = NS_PER_S

    def __call__(self) -> int:
        self.now_ns += 20 * NS_PER_MS
        return self.now_ns


class StillActor(Actor):
    """Does what it is asked, and ticks only then."""

    def _tick(self) -> None:
        pass


@pytest.fixture
def actor() -> Iterator[Actor]:
    profile = accelerator("h200")
    device = PlaneDevice(profile.sms, profile.sm_granule, profile.memory_bytes, b"\1" * 16)
    identity = GpuIdentity(0, "GPU-x", "H200", b"\1" * 16, profile, side_by_side=False)
    gpu = Gpu(identity, PlaneSegments(device), EventLog(), "hybrid", (), Clock())
    gpu.join(WEB, free=False)
    made = StillActor(gpu)
    made.start()
    yield made
    made.stop()


class Gauge:
    def __init__(self, *seen: GpuGauges) -> None:
        self.seen = list(seen)
        self.closed = False

    def read(self, index: int) -> GpuGauges:
        return self.seen.pop(0)

    def close(self) -> None:
        self.closed = True


def told(actor: Actor, kind: str) -> list[str]:
    return [line.text for line in actor.gpu.events.lines() if line.kind == kind]


def ramp(actor: Actor, foresight: Foresight, seconds: int = 60) -> None:
    """Readings of a load that grows, as ticks would have left them; looked at twice a second."""
    actor.gpu.taken.clear()
    rates = [80.0] * 30 + [80.0 + 5.0 * second for second in range(seconds - 30)]
    for number, (now_ns, taken) in enumerate(queue_readings(rates)):
        actor.gpu.taken.append(ReadingsTaken(now_ns, (taken,)))
        if number % 25 == 24:
            foresight.look(actor)


def test_a_growing_load_is_told_to_people_and_machine(actor: Actor) -> None:
    ramp(actor, Foresight((actor,)))
    assert any("web: " in text and "requests a second" in text for text in told(actor, "risk"))
    assert actor.call(lambda gpu: gpu.machine.tracks[WEB.id].risks)
    for _ in range(200):
        actor.call(lambda gpu: gpu.tick())
    assert any("web: weight 1 → " in text for text in told(actor, "weights"))


def test_a_tick_leaves_its_readings_and_a_full_queue_drops_the_oldest(actor: Actor) -> None:
    actor.call(lambda gpu: gpu.taken.clear())
    for _ in range(700):
        actor.call(lambda gpu: gpu.tick())
    assert len(actor.gpu.taken) <= 512
    assert actor.gpu.taken[-1].now_ns > actor.gpu.taken[0].now_ns


def test_a_tenant_that_left_is_forgotten(actor: Actor) -> None:
    foresight = Foresight((actor,))
    ramp(actor, foresight)
    before = len(told(actor, "risk"))
    actor.call(lambda gpu: gpu.leave(WEB.id))
    actor.gpu.taken.append(ReadingsTaken(10**12, (reading("web"),)))
    foresight.look(actor)
    assert len(told(actor, "risk")) == before


def test_gauges_are_overheard_and_a_throttled_device_is_told(actor: Actor) -> None:
    usual = [
        GpuGauges(utilization=0.9, clocks_hz={"sm": 1.9e9 + 1e6 * (step % 3)}) for step in range(60)
    ]
    slow = GpuGauges(utilization=0.9, clocks_hz={"sm": 1.4e9}, throttled={"thermal": True})
    gauge = Gauge(*usual, GpuGauges(), *[slow] * 10)
    foresight = Foresight((actor,))
    heard = foresight.listening(gauge)
    for number in range(71):
        assert isinstance(heard.read(0), GpuGauges)
        if number % 10 == 9:
            foresight.look(actor)
    foresight.look(actor)
    assert any("the device: the clock is at 1400 MHz" in text for text in told(actor, "risk"))
    heard.close()
    assert gauge.closed


def test_looking_ahead_starts_and_stops(actor: Actor) -> None:
    foresight = Foresight((actor,))
    foresight.start()
    foresight.stop()
    assert foresight._thread is not None
    assert not foresight._thread.is_alive()
