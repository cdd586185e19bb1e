"""One measurement: when each container was done, how long its phases took; and its folder."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from dure.bench.common.shelf import Shelf

PHASES = ("setup_s", "allocate_s", "input_s", "kernel_s", "output_s", "free_s")
_NS = 1e9


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one container did."""

    name: str
    exit_code: int
    completion_s: float
    """From the release of the barrier (of the first one, where they go one after another)."""
    alone_s: float
    """From its own release: the same unless they go one after another."""
    phases: dict[str, float] = field(default_factory=dict)
    p95_ms: float | None = None
    """Of the requests, where it serves some."""
    waited_s: float | None = None
    """The longest wait that the agent reported of it."""

    @classmethod
    def of(cls, name: str, result: dict[str, Any], first_ns: int) -> "Outcome":
        """From what the program left at the barrier."""
        said = result.get("said") or {}
        done_ns = said.get("done_ns") or result["end_ns"]
        return cls(
            name,
            result["exit"],
            (done_ns - first_ns) / _NS,
            (done_ns - result["release_ns"]) / _NS,
            {phase: said[phase] for phase in PHASES if phase in said},
            said.get("p95_ms"),
        )


@dataclass(frozen=True, slots=True)
class Cell:
    """One round of one row at one count."""

    row: str
    count: int
    repeat: int
    outcomes: tuple[Outcome, ...]
    fresh: bool
    """Whether the agent was started for it alone, and so knew nothing of the containers."""
    agent_share: float | None = None
    """Of one core that agent and monitor used meanwhile."""

    @property
    def name(self) -> str:
        return cell_name(self.row, self.count, self.repeat)

    def data(self) -> dict[str, Any]:
        """As it is kept."""
        return asdict(self)

    @classmethod
    def read(cls, data: dict[str, Any]) -> "Cell":
        """From what was kept."""
        outcomes = tuple(Outcome(**outcome) for outcome in data["outcomes"])
        return cls(**{**data, "outcomes": outcomes})


def cell_name(row: str, count: int, repeat: int) -> str:
    """Under which a cell is kept."""
    return f"{row}-{count:02d}-{repeat}"


class Store(Shelf):
    """The folder of one set."""

    def has(self, row: str, count: int, repeat: int) -> bool:
        """Whether that cell was measured."""
        return self.holds(cell_name(row, count, repeat))

    def keep(self, cell: Cell) -> None:
        """Keep a cell."""
        self.put(cell.name, cell.row, cell.data())

    def cells(self) -> Iterator[Cell]:
        """All cells."""
        return map(Cell.read, self.all_cells())
