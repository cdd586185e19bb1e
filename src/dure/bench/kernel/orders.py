"""What a worker is asked to do, and what it answers: plain data that travels as JSON."""

from dataclasses import asdict, dataclass, field
from typing import Any

CLOSED, POISSON, TRAIN, FINITE = "closed", "poisson", "train", "finite"


@dataclass(frozen=True, slots=True)
class Order:
    """One measurement: run from `start_s - ramp_s` on, count from `start_s` (monotonic clock)."""

    kind: str
    """CLOSED or POISSON requests, TRAIN: steps without end, FINITE: so many steps."""
    start_s: float
    measure_s: float
    ramp_s: float = 0.0
    per_s: float = 0.0
    """Of POISSON."""
    seed: int = 0
    steps: int = 1
    """Of one request, between two syncs of training, or of all of FINITE."""
    sync_every: int = 4
    """Steps between two syncs of TRAIN and FINITE."""

    @property
    def end_s(self) -> float:
        return self.start_s + self.measure_s

    def message(self) -> dict[str, Any]:
        """As it travels."""
        return {"do": "measure", **asdict(self)}

    @classmethod
    def read(cls, message: dict[str, Any]) -> "Order":
        """From what travelled."""
        return cls(**{key: value for key, value in message.items() if key != "do"})


@dataclass(frozen=True, slots=True)
class Answer:
    """What one tenant did in one measurement."""

    done: int
    """Requests answered, or steps finished."""
    per_s: float
    latencies_ms: tuple[float, ...] = ()
    """From the scheduled arrival; in a closed loop from the request before."""
    unserved_ms: tuple[float, ...] = ()
    """How long the requests had waited that arrived in the window and were not answered in it."""
    first_s: float = 0.0
    """When the counted work began, on the monotonic clock."""
    last_s: float = 0.0
    """When its last work ended; of Poisson arrivals, when the window closed."""
    extra: dict[str, float] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        """As it is kept."""
        return {
            **asdict(self),
            "latencies_ms": [round(value, 3) for value in self.latencies_ms],
            "unserved_ms": [round(value, 3) for value in self.unserved_ms],
        }

    @classmethod
    def read(cls, data: dict[str, Any]) -> "Answer":
        """From what was kept."""
        return cls(
            **{
                **data,
                "latencies_ms": tuple(data.get("latencies_ms", ())),
                "unserved_ms": tuple(data.get("unserved_ms", ())),
            }
        )
