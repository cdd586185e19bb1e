"""What every part of the server shares: state, bus, the way to logs, settings, clock."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from dure.kit.tracing import Tracer
from dure.server.ports import AccessSource, Bus, LogSource, SignalSink, State
from dure.server.recording import Recorder
from dure.server.settings import ServerSettings
from dure.server.telemetry.figures import Figures


@dataclass(frozen=True)
class Services:
    """Handed to the REST application, the links and the planner."""

    state: State
    bus: Bus
    logs: LogSource
    settings: ServerSettings = field(default_factory=ServerSettings)
    now_ns: Callable[[], int] = time.time_ns
    """Nanoseconds since 1970."""
    leads: Callable[[], bool] = lambda: False
    """Whether this server plans now."""
    figures: Figures = field(default_factory=Figures)
    """What the parts count as they work."""
    recorder: Recorder = field(default_factory=Recorder)
    """Who listens to what the planner's machine is told and answers."""
    tracer: Tracer | None = None
    """Where traces of jobs go; None: nowhere."""
    access: AccessSource | None = None
    """The way to tokens of clusters; None: there is none."""
    signals: SignalSink | None = None
    """The way of what is said of loads; None: there is none."""
