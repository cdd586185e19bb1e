"""What is asked of the stage while the story goes on: load, latency, risks, places, prices."""

import contextlib
from dataclasses import dataclass, field
from pathlib import Path

from dure.client.api import AgentClient
from dure.client.schema import EventLine, TenantStatus
from dure.demo.stage import TOWNS
from dure.demo.story import Sample, Story
from dure.domain.errors import DureError
from dure.domain.units import NS_PER_MS

_SERVES = "serve"


@dataclass(slots=True)
class Load:
    """How much is asked of the service: a file that its program reads again and again."""

    file: Path
    calm_per_s: float = 12.0
    rush_per_s: float = 48.0
    ramp_s: float = 15.0
    _rush_s: float | None = None

    def rush(self, now_s: float) -> None:
        """Let it grow from now on."""
        self._rush_s = now_s

    def per_s(self, now_s: float) -> float:
        """What is asked at a moment."""
        if self._rush_s is None:
            return self.calm_per_s
        part = min(1.0, max(0.0, (now_s - self._rush_s) / self.ramp_s))
        return self.calm_per_s + part * (self.rush_per_s - self.calm_per_s)

    def follow(self, now_s: float) -> float:
        """Say what is asked now, and return it."""
        found = self.per_s(now_s)
        draft = self.file.with_suffix(".draft")
        draft.write_text(f"{found:.3f}\n", encoding="utf-8")
        draft.replace(self.file)
        return found


@dataclass(slots=True)
class Eyes:
    """Looks at one GPU and at what the play says of the fleet; for one thread beside the play's.

    `agent` is a client of its own: two threads do not share one.
    """

    agent: AgentClient
    story: Story
    load: Load
    places: dict[str, str] = field(default_factory=dict)
    """Clusters of jobs."""
    prices: dict[str, float] = field(
        default_factory=lambda: {each.name: each.price for each in TOWNS}
    )
    _latest: tuple[TenantStatus, ...] = ()
    _events: tuple[EventLine, ...] = ()

    def look(self) -> Sample | None:
        """Measure once, and let the load go on; None where the agent does not answer."""
        now_s = self.story.now_s
        asked = self.load.follow(now_s)
        with contextlib.suppress(DureError):
            status = self.agent.status()
            self._latest, self._events = status.tenants, status.events
            latency = self.chat().latency if self.sees_chat() else None
            measured = None if latency is None else latency.measured_ns
            return Sample(
                at_s=now_s,
                asked_per_s=asked,
                latency_ms=None if measured is None else measured / NS_PER_MS,
                worst_ms=None if latency is None else latency.p99_ns / NS_PER_MS,
                on_time=None if latency is None else latency.on_time_share,
                policy=status.gpus[0].policy,
                train_at=self.places.get("train", ""),
                prices=dict(self.prices),
            )
        return None

    def sees_chat(self) -> bool:
        """Whether the service has launched something."""
        return any(_serves(each) and each.launches for each in self._latest)

    def chat(self) -> TenantStatus:
        """The service as its agent sees it."""
        return next(each for each in self._latest if _serves(each))

    def risks(self) -> list[EventLine]:
        """Dangers to the service that were foreseen or found."""
        if not self.sees_chat():
            return []
        name = self.chat().name
        return [
            each
            for each in self._events
            if each.kind == "risk" and each.tenant == name and not each.text.endswith("is over")
        ]

    def kept(self, since_s: float, until_s: float) -> tuple[float, float] | None:
        """Mean share on time and latency in ms over a span; None: nothing is known of it."""
        found = [
            (each.on_time, each.latency_ms)
            for each in self.story.samples
            if since_s <= each.at_s <= until_s
        ]
        known = [(share, ms) for share, ms in found if share is not None and ms is not None]
        if not known:
            return None
        count = len(known)
        return sum(share for share, _ in known) / count, sum(ms for _, ms in known) / count

    def in_words(self, reason: str) -> str:
        """A reason with jobs in the place of the names by which the agent knows them."""
        for tenant in self._latest:
            reason = reason.replace(f"'{tenant.name}'", _job_of(tenant))
        return reason


def _serves(tenant: TenantStatus) -> bool:
    return _SERVES in tenant.spec.command


def _job_of(tenant: TenantStatus) -> str:
    if _serves(tenant):
        return "chat"
    return "train" if "--save" in tenant.spec.command else "embed"
