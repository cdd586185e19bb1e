"""What an agent is started with."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dure.client.containers import PauseWith
from dure.client.places import Places
from dure.client.schema import Sharing
from dure.domain.adaptation import AdaptBy
from dure.domain.risks import WeightsBy
from dure.domain.units import MIB

TunerName = Literal["rules", "bandit"]


@dataclass(frozen=True, slots=True)
class ContainerOptions:
    """How the containers of this host are managed."""

    strategy: str = "dure"
    pause_with: PauseWith = "auto"
    dry_run: bool = False
    """Only say what would be done."""
    start_watchdog: bool = True
    """Start a watchdog where none answers; else it has a unit of its own."""
    record: Path | None = None
    """Where everything that is decided about containers is written down; None: nowhere."""


@dataclass(frozen=True, slots=True)
class TelemetryOptions:
    """What is measured of this host, and where it is kept."""

    series: str = "sqlite"
    """sqlite: a file in the agent's folder; off: nowhere; or the address of a server."""
    period_s: float = 1.0
    """Between two readings."""
    most_bytes: int = 64 * MIB
    """Of the file: the folder may be in memory. At 200 series some days."""
    token: str = ""
    """For the server."""


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The agent's settings; where they come from is the command line's business."""

    places: Places
    sharing: Sharing = "isolated"
    http: tuple[str, int] | None = None
    """Host and port of the face that shows and takes reports; None: there is none."""
    policy: str = "hybrid"
    """Of GPUs for which none was set before."""
    gpus: tuple[str, ...] = ()
    """Indices or UUIDs to look after; all where none is named."""
    log_file: Path | None = None
    """None: standard error."""
    containers: ContainerOptions | None = None
    """None: containers are not managed."""
    telemetry: TelemetryOptions = field(default_factory=TelemetryOptions)
    weights: WeightsBy = WeightsBy.FORESEEN
    """What Eq. 3 moves the weights of tenants by."""
    adapt: AdaptBy = AdaptBy.OFF
    """What is done about a policy that would do better."""
    tuner: TunerName = "rules"
    """What is tried in dry runs: every policy, or what a bandit has learned to prefer."""
