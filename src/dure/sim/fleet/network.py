"""Transfer prices between regions: square matrices in USD per gigabyte, one file a provider."""

from dataclasses import dataclass
from pathlib import Path

from dure.domain.errors import InputError
from dure.kit.words import nearest
from dure.sim.fleet.csv_files import read_csv

FOLDER = "network-cost"
"""Below the data folder."""
CURRENCY = "USD"
_SUFFIX = "_transmission_cost_matrix.csv"


@dataclass(frozen=True, slots=True)
class EgressMatrix:
    """Prices of one provider."""

    path: Path
    prices: dict[tuple[str, str], float]
    regions: tuple[str, ...]

    def per_gb(self, source: str, target: str) -> float:
        """USD for a gigabyte from one region to another."""
        for region in (source, target):
            if region not in self.regions:
                raise InputError(
                    f"there is no region '{region}'",
                    nearest(region, self.regions),
                    file=str(self.path),
                )
        return self.prices[source, target]


def matrix_file(data: Path, provider: str) -> Path:
    """Where a provider's matrix is; raises `InputError` for one there is none of."""
    path = data / FOLDER / f"{provider}{_SUFFIX}"
    if not path.exists():
        known = sorted(
            each.name.removesuffix(_SUFFIX) for each in (data / FOLDER).glob(f"*{_SUFFIX}")
        )
        raise InputError(
            f"there are no transfer prices of '{provider}'",
            nearest(provider, known) if known else "check --data",
            file=str(data / FOLDER),
        )
    return path


def read_egress(path: Path) -> EgressMatrix:
    """Read a matrix: regions as columns and, in the same order or not, as rows."""
    file = read_csv(path)
    regions = file.header[1:]
    if not regions:
        raise InputError("has no regions", "give one column for each", file=str(path))
    seen: dict[str, int] = {}
    for row, cells in enumerate(file.rows):
        region = cells[0].strip()
        if region not in regions:
            raise file.wrong(
                row, file.header[0], f"'{region}' is no column", "name rows as columns"
            )
        if region in seen:
            raise file.wrong(row, file.header[0], f"'{region}' is there twice", "keep one row")
        seen[region] = row
    missing = [region for region in regions if region not in seen]
    if missing:
        raise InputError(f"has no row for '{missing[0]}'", "make it square", file=str(path))
    prices = {}
    for target in regions:
        column = file.numbers(target, least=0.0)
        for source, row in seen.items():
            prices[source, target] = column[row]
    return EgressMatrix(path, prices, regions)
