"""What is measured on a host, and how: layers that fail say nothing, the others go on."""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from dure.agent.actor import Actor
from dure.agent.books import Deeds
from dure.agent.events import EventLog
from dure.agent.gpu import Gpu, GpuIdentity
from dure.agent.telemetry.containers import ContainerLayer
from dure.agent.telemetry.feedback import FeedbackLayer
from dure.agent.telemetry.hardware import HardwareLayer
from dure.agent.telemetry.kernel import KernelLayer
from dure.agent.telemetry.ports import Readings
from dure.agent.telemetry.sampler import Sampler
from dure.client.containers import ContainersStatus, ContainerStatus, MonitorStatus
from dure.devices.nvml import GpuFacts
from dure.devices.nvml_gauges import GpuGauges
from dure.devices.plane import PlaneDevice, PlaneSegments
from dure.domain.catalogue import accelerator
from dure.domain.ids import TenantId
from dure.domain.latency import bucket_of
from dure.domain.metrics import hardware, kernel, node, own
from dure.domain.metrics.kinds import Reading, Spread
from dure.domain.series import Sample
from dure.domain.tenant import Tenant
from dure.stores.series.exposition import exposed
from dure.stores.series.recorder import Recorded

GPU = GpuFacts(0, "GPU-1", "H200", 141, 132, (9, 0), "580")


@dataclass
class Given:
    """What NVML says."""

    gauges: GpuGauges

    def read(self, index: int) -> GpuGauges:
        return self.gauges

    def close(self) -> None:
        pass


@dataclass
class Kept:
    """Samples that were handed over."""

    samples: list[Sample] = field(default_factory=list)

    def add(self, samples: Iterable[Sample]) -> None:
        self.samples += samples

    def recorded(self) -> Recorded:
        return Recorded(0, 0, 0, {}, "")


class Broken:
    """A layer that fails while it is told to."""

    name = "broken"
    fails = True

    def read(self) -> Readings:
        if self.fails:
            raise OSError("no answer")
        return [Reading(own.STORE_UP, (), 1.0)]


def values(readings: Readings) -> dict[str, float]:
    return {
        f"{each.metric.name}{list(each.labels)}": each.value
        for each in readings
        if isinstance(each, Reading)
    }


def test_what_a_gpu_does_not_say_has_no_series() -> None:
    layer = HardwareLayer((GPU,), Given(GpuGauges(power_w=75.0, throttled={"thermal": True})))
    found = values(layer.read())
    assert found == {
        "dure_gpu_info['GPU-1', '0', 'H200', '580']": 1.0,
        "dure_gpu_power_watts['GPU-1']": 75.0,
        "dure_gpu_throttled['GPU-1', 'thermal']": 1.0,
    }


def test_a_gpu_that_does_not_answer_has_no_series_at_all() -> None:
    assert HardwareLayer((GPU,), Given(GpuGauges())).read() == []


def test_a_layer_that_fails_is_left_out_counted_and_comes_back() -> None:
    broken, kept = Broken(), Kept()
    hard = HardwareLayer((GPU,), Given(GpuGauges(power_w=1.0)))
    sampler = Sampler((broken, hard), kept, period_s=60.0)
    sampler.measure()
    found = values(sampler.shown())
    assert "dure_gpu_power_watts['GPU-1']" in found
    assert "dure_telemetry_read_seconds['broken']" not in found
    assert found["dure_telemetry_failures_total['broken']"] == 1.0
    broken.fails = False
    sampler.measure()
    found = values(sampler.shown())
    assert "dure_telemetry_read_seconds['broken']" in found
    assert found["dure_telemetry_failures_total['broken']"] == 1.0
    named = {sample.series.name for sample in kept.samples}
    assert {"dure_gpu_power_watts", "dure_telemetry_failures_total"} <= named


def test_readings_of_a_loop_that_hangs_are_not_shown_as_new() -> None:
    hard = HardwareLayer((GPU,), Given(GpuGauges(power_w=1.0)))
    sampler = Sampler((hard,), None, period_s=0.0001)
    sampler.measure()
    threading.Event().wait(0.01)
    assert not any(name.startswith("dure_gpu") for name in values(sampler.shown()))


def test_tenants_are_told_with_their_sums_and_latencies_of_the_last_seconds() -> None:
    profile = accelerator("h200")
    device = PlaneDevice(profile.sms, profile.sm_granule, profile.memory_bytes, b"\1" * 16)
    identity = GpuIdentity(0, "GPU-x", "H200", b"\1" * 16, profile, side_by_side=False)
    gpu = Gpu(identity, PlaneSegments(device), EventLog(), "slo", (), time.monotonic_ns)
    actor = Actor(gpu)
    actor.start()
    try:
        tenant = Tenant(TenantId("web"))
        actor.call(lambda each: each.join(tenant, free=False))
        deeds = Deeds(launches=7, gpu_ns=2_000_000_000, latencies={bucket_of(5e6): 99})
        deeds.gated_by_ns[1] = 500_000_000
        actor.call(lambda each: each.seats[tenant.id].book.add(deeds))
        layer = KernelLayer((actor,))
        first = layer.read()
        found = values(first)
        uuid = gpu.identity.uuid
        assert found[f"dure_tenant_launches_total['{uuid}', 'web']"] == 7
        assert found[f"dure_tenant_gpu_seconds_total['{uuid}', 'web']"] == 2.0
        assert found[f"dure_tenant_held_seconds_total['{uuid}', 'web', 'budget']"] == 0.5
        name = f"dure_tenant_latency_quantile_seconds['{uuid}', 'web', '0.99']"
        assert found[name] == pytest.approx(0.005, rel=0.1)
        spread = next(each for each in first if isinstance(each, Spread))
        assert spread.observations == 99
        assert spread.sum == pytest.approx(99 * 0.005, rel=0.1)
        below = dict(spread.buckets)
        assert below[0.008192] == 99
        assert below[0.004096] == 0
        later = [values(layer.read()) for _ in range(10)]
        assert name not in later[-1], "no request, no latency"
    finally:
        actor.stop()


def test_containers_are_told_by_name_and_state() -> None:
    status = ContainersStatus(
        strategy="dure",
        ways=("docker",),
        dry_run=False,
        troubles=(),
        monitor=MonitorStatus(
            pid=None, period_ns=1, looks=5, look_ns=1, cpu_ns=2_000_000_000, left_out=0, deaths=1
        ),
        containers=(
            ContainerStatus(
                id="1" * 64, name="a", state="queued", reason="", waited_ns=3_000_000_000
            ),
            ContainerStatus(id="2" * 64, name="b", state="running", reason="", sm_share=0.5),
        ),
    )
    found = values(ContainerLayer(lambda: status).read())
    assert found["dure_container_state['a', 'queued']"] == 1.0
    assert found["dure_container_waiting_seconds['a']"] == 3.0
    assert found["dure_container_sm_ratio['b']"] == 0.5
    assert found["dure_containers['queued']"] == 1.0
    assert found["dure_monitor_deaths_total[]"] == 1.0
    assert "dure_monitor_look_seconds[]" not in found, "it does not run"


def test_feedback_is_counted() -> None:
    layer = FeedbackLayer()
    layer.add("web", "bad")
    layer.add("web", "bad")
    assert values(layer.read()) == {"dure_feedback_total['web', 'bad']": 2.0}


def test_every_reading_has_the_labels_its_metric_declares() -> None:
    for metric in (*hardware.HARDWARE, *kernel.KERNEL, *node.NODE, *own.OWN):
        assert all(label.isidentifier() for label in metric.labels)


def test_the_text_of_metrics_is_read_by_prometheus_itself() -> None:
    from prometheus_client.parser import text_string_to_metric_families

    text = exposed(
        [
            Reading(hardware.GPU_POWER, ('GPU-"1"\n\\',), 75.5),
            Reading(own.FEEDBACK, ("web", "good"), 3.0),
            Spread(kernel.LATENCY, ("g", "t"), ((0.1, 2), (1.0, 5)), 6, 9.5),
        ]
    ).decode()
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["dure_gpu_power_watts", (("gpu", 'GPU-"1"\n\\'),)] == 75.5
    labels = (("gpu", "g"), ("tenant", "t"))
    bucket = (("gpu", "g"), ("le", "1.0"), ("tenant", "t"))
    assert samples["dure_tenant_latency_seconds_bucket", bucket] == 5.0
    assert samples["dure_tenant_latency_seconds_count", labels] == 6.0
    assert samples["dure_tenant_latency_seconds_sum", labels] == 9.5
    assert "# TYPE dure_feedback_total counter" in text
