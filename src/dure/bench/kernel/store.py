"""What is kept of one measurement of tenants, and the folder of a scenario's measurements."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from dure.bench.common.shelf import Shelf
from dure.bench.kernel.orders import Answer

CALIBRATION = "calibration"
PARTS = "parts"
"""All that was found by a shard that is no scenario, kept anew after each part."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement of one row."""

    row: str
    repeat: int
    seconds: float
    ramp_s: float
    tenants: dict[str, Answer]
    targets_ms: dict[str, float] = field(default_factory=dict)
    """What the tenants were promised while it ran."""
    status: dict[str, Any] = field(default_factory=dict)
    """What the agent said at its end."""

    def data(self) -> dict[str, Any]:
        """As it is kept."""
        found = asdict(self)
        found["tenants"] = {name: answer.data() for name, answer in self.tenants.items()}
        return found

    @classmethod
    def read(cls, data: dict[str, Any]) -> "Cell":
        """From what was kept."""
        tenants = {name: Answer.read(answer) for name, answer in data["tenants"].items()}
        return cls(**{**data, "tenants": tenants})


class Store(Shelf):
    """The folder of one scenario."""

    def has(self, row: str, repeat: int) -> bool:
        """Whether that cell was measured."""
        return self.holds(f"{row}-{repeat}")

    def keep(self, cell: Cell) -> None:
        """Keep a cell; what failed of its row before is forgotten."""
        self.put(f"{cell.row}-{cell.repeat}", cell.row, cell.data())

    def cells(self) -> Iterator[Cell]:
        """All cells, by row and repeat."""
        return map(Cell.read, self.all_cells())

    def of_row(self, row: str) -> list[Cell]:
        """The cells of a row, by repeat."""
        return sorted(
            (cell for cell in self.cells() if cell.row == row), key=lambda cell: cell.repeat
        )
