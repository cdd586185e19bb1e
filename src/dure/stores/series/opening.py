"""Which series store an address means."""

from pathlib import Path

from dure.domain.errors import InputError
from dure.stores.series.ports import SeriesStore
from dure.stores.series.prometheus import PrometheusSeries
from dure.stores.series.sqlite import SqliteSeries, SqliteSettings

OFF = "off"
EMBEDDED = "sqlite"


def open_series(address: str, file: Path, most_bytes: int, token: str = "") -> SeriesStore | None:
    """The store of an address: `sqlite` (a file of the process's own), the http address of a
    VictoriaMetrics or Prometheus, or `off`."""
    if address == OFF:
        return None
    if address == EMBEDDED:
        return SqliteSeries(file, SqliteSettings(most_bytes=most_bytes))
    if address.startswith(("http://", "https://")):
        return PrometheusSeries(address, token)
    raise InputError(
        f"'{address}' is no store of series",
        "write sqlite, off, or the http address of VictoriaMetrics or Prometheus",
        field="--series",
    )
