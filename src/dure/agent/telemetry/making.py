"""The composition of what measures: made of what, started and ended in which order."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from dure.agent.options import TelemetryOptions
from dure.agent.service import Service
from dure.agent.telemetry.containers import ContainerLayer
from dure.agent.telemetry.desk import TelemetryDesk
from dure.agent.telemetry.feedback import FeedbackLayer
from dure.agent.telemetry.hardware import HardwareLayer
from dure.agent.telemetry.kernel import KernelLayer
from dure.agent.telemetry.ports import Gauges, Layer
from dure.agent.telemetry.sampler import Sampler
from dure.client.containers import ContainersStatus
from dure.client.places import Places
from dure.devices.nvml import GpuFacts
from dure.stores.series.opening import open_series
from dure.stores.series.ports import SeriesError
from dure.stores.series.recorder import Recorder


@dataclass(frozen=True, slots=True)
class Measured:
    """What there is to measure."""

    gpus: tuple[GpuFacts, ...]
    gauges: Gauges
    service: Service
    containers: Callable[[], ContainersStatus] | None = None
    more: tuple[Layer, ...] = ()
    """Layers beside those that every agent has."""


def start_telemetry(
    options: TelemetryOptions, places: Places, measured: Measured, ends: ExitStack
) -> TelemetryDesk:
    """Begin to measure; it ends with the agent."""
    events = measured.service.events
    feedback = FeedbackLayer()
    layers: list[Layer] = [
        HardwareLayer(measured.gpus, measured.gauges),
        KernelLayer(measured.service.actors),
        feedback,
        *measured.more,
    ]
    if measured.containers is not None:
        layers.append(ContainerLayer(measured.containers))
    ends.callback(measured.gauges.close)
    try:
        store = open_series(options.series, places.series_file, options.most_bytes, options.token)
    except SeriesError as error:  # sharing goes on without
        events.add("telemetry", f"no series are kept: {error}")
        store = None
    recorder = None
    if store is not None:
        recorder = Recorder(store, tell=lambda text: events.add("telemetry", text))
        recorder.start()
        ends.callback(recorder.stop)
    sampler = Sampler(tuple(layers), recorder, options.period_s)
    sampler.start()
    ends.callback(sampler.stop)
    return TelemetryDesk(sampler, feedback, store, measured.service.registry, events)
