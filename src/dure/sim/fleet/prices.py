"""Price lists of rented machines (SkyPilot's catalogue): what a device costs in a region.

A list has a row for each machine type and region with `AcceleratorName`, `AcceleratorCount`,
`Price` and `SpotPrice` of the whole machine, in USD an hour.
"""

from dataclasses import dataclass, field
from pathlib import Path

from dure.domain.errors import InputError
from dure.kit.words import nearest
from dure.sim.fleet.csv_files import CsvFile, read_csv

FOLDER = "skypilot-catalog"
"""Below the data folder."""
CURRENCY = "USD"
_SUFFIX = "_accelerator_vms.csv"
_COLUMNS = ("AcceleratorName", "AcceleratorCount", "Price", "SpotPrice", "Region")

_LISTED_AS = {
    "h200": ("H200",),
    "h100": ("H100", "H100-80G-SXM5"),
    "a100": ("A100-80GB", "A100-80G-PCIe-NVLink", "A100-80G-PCIe"),
    "a100-40gb": ("A100",),
    "l40s": ("L40S",),
    "l4": ("L4",),
    "t4": ("T4",),
    "v100": ("V100-32GB",),
    "v100-16gb": ("V100",),
    "p100": ("P100",),
    "inferentia2": ("Inferentia2",),
    "trainium": ("Trainium",),
}
"""Names of the lists, the best match first, by the profile of our catalogue."""


@dataclass(frozen=True, slots=True)
class PriceLists:
    """The lists of one data folder, read when first asked for."""

    folder: Path
    _read: dict[str, CsvFile] = field(default_factory=dict, repr=False)

    @property
    def providers(self) -> list[str]:
        """Whose prices there are."""
        return sorted(_files(self.folder))

    def device_hour(
        self, provider: str, region: str, profile: str, *, devices: int = 0, spot: bool = False
    ) -> float:
        """USD an hour for one device: the cheapest machine of the region that has it.

        Machines with exactly `devices` of them are preferred, since prices can depend on that.
        """
        names = _LISTED_AS.get(profile)
        if names is None:
            raise InputError(
                f"price lists do not know '{profile}'", "write its price in `device_hour`"
            )
        file = self._list(provider)
        column = "SpotPrice" if spot else "Price"
        counts = file.numbers("AcceleratorCount", least=0.0)
        prices = file.numbers(column, least=0.0, empty=0.0)
        name, place = file.index("AcceleratorName"), file.index("Region")
        for wanted in names:
            offers = [
                (counts[row] != devices, prices[row] / counts[row])
                for row, cells in enumerate(file.rows)
                if cells[name] == wanted
                and cells[place] == region
                and prices[row] > 0
                and counts[row] > 0
            ]
            if offers:
                return min(offers)[1]
        raise self._nothing(file, region, profile, names)

    def _list(self, provider: str) -> CsvFile:
        if provider not in self._read:
            files = _files(self.folder)
            if provider not in files:
                known = nearest(provider, sorted(files)) if files else "check --data"
                raise InputError(
                    f"there is no price list of '{provider}'", known, file=str(self.folder)
                )
            self._read[provider] = read_csv(files[provider], _COLUMNS)
        return self._read[provider]

    @staticmethod
    def _nothing(file: CsvFile, region: str, profile: str, names: tuple[str, ...]) -> InputError:
        name, place = file.index("AcceleratorName"), file.index("Region")
        regions = sorted({cells[place] for cells in file.rows})
        if region not in regions:
            return InputError(
                f"there is no region '{region}'", nearest(region, regions), file=str(file.path)
            )
        having = sorted({cells[place] for cells in file.rows if cells[name] in names})
        return InputError(
            f"'{region}' has no {profile} with a price",
            f"it is sold in {', '.join(having)}" if having else "write a price in `device_hour`",
            file=str(file.path),
        )


def _files(folder: Path) -> dict[str, Path]:
    """Price lists by provider; names are `v8_gcp_accelerator_vms.csv`, the newest list wins."""
    found = {}
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        _, _, provider = path.name.removesuffix(_SUFFIX).partition("_")
        if provider:
            found[provider] = path
    return found
