"""What the hours ahead cost at each site: tariff, electricity and carbon, as sums to take means of.

Tariffs are calendars and known. Electricity prices and carbon are known to the end of what is
published ahead; after that the forecast of the caller holds.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.clusters import HOURS_A_WEEK
from dure.domain.fleet.series import HOUR_NS, Floats, Series
from dure.fleet.cost_loops import means
from dure.fleet.sites import SiteBook

HOURS_AHEAD = 192
"""Eight days: longer runs are rated as if the last day of these repeated."""

Forecast = Callable[[Series, int, int], Floats]
"""A series, the hour it is and how many hours ahead: the expected values of these hours."""


def persist(series: Series, now_ns: int, hours: int) -> Floats:
    """The present value lasts: what is expected where nothing is predicted."""
    return np.full(hours, series.at(now_ns))


@dataclass(slots=True)
class Outlook:
    """Sums of the hourly rates from one hour on, by site; entry h sums the first h hours."""

    hour: int
    """Since the fleet's time zero."""
    rent: Floats
    """[M, H + 1], per device."""
    power: Floats
    """[M, H + 1], per kWh; 0 where rented."""
    carbon: Floats
    """[M, H + 1], g per kWh."""

    def mean(self, sums: Floats, start_h: Floats, run_h: Floats) -> Floats:
        """[J, M, T]: mean rates over runs of `run_h` [J, M] from each of `start_h` [T] on.

        Starts are counted in hours from the beginning of this hour.
        """
        return means(sums, start_h, np.ascontiguousarray(run_h))


def look_ahead(
    sites: SiteBook, now_ns: int, expect_carbon: Forecast, expect_price: Forecast
) -> Outlook:
    """Rates of all sites from the hour that it is."""
    hour = now_ns // HOUR_NS
    columns = sites.columns
    count = len(sites)
    hours = (hour + np.arange(HOURS_AHEAD)) % HOURS_A_WEEK
    rent = columns.rent[:, None] * columns.calendar[:, hours]
    power = np.zeros((count, HOURS_AHEAD))
    carbon = np.zeros((count, HOURS_AHEAD))
    for name, rows in sites.sites_of.items():
        cluster = sites.clusters[name]
        grams = expect_carbon(cluster.carbon_g_per_kwh, now_ns, HOURS_AHEAD)
        price = expect_price(cluster.electricity_per_mwh, now_ns, HOURS_AHEAD)
        price = price * sites.fleet.rates.to_base(1.0, cluster.tariff.currency) / 1000.0
        for row in rows:
            carbon[row] = grams
            power[row] = price if columns.owned[row] else 0.0
    return Outlook(hour, _sums(rent), _sums(power), _sums(carbon))


def _sums(rates: NDArray[np.float64]) -> Floats:
    sums = np.zeros((rates.shape[0], rates.shape[1] + 1))
    np.cumsum(rates, axis=1, out=sums[:, 1:])
    return sums
