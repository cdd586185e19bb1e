"""The third layer: what people say of the tenants they use."""

import threading
from collections import Counter
from dataclasses import dataclass, field

from dure.agent.telemetry.ports import Readings
from dure.domain.metrics import own as m
from dure.domain.metrics.kinds import Reading


@dataclass(slots=True)
class FeedbackLayer:
    """Counts what was said, from any thread."""

    name: str = "feedback"
    _said: Counter[tuple[str, str]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, tenant: str, verdict: str) -> None:
        """Somebody said something of a tenant."""
        with self._lock:
            self._said[tenant, verdict] += 1

    def read(self) -> Readings:
        """All that was said since the agent started."""
        with self._lock:
            return [Reading(m.FEEDBACK, said, float(n)) for said, n in self._said.items()]
