"""What use costs: in whole numbers, at the prices of its time, on the days it belongs to."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dure.domain.fleet.clusters import Cluster, ClusterClass, NodeGroup, Tariff
from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.fleet.money import ExchangeRates
from dure.domain.fleet.series import HOUR_NS, Series
from dure.domain.ids import ClusterId
from dure.domain.units import GIB
from dure.server.calendar import Calendar
from dure.server.links.pricing import Pricing, Use
from dure.stores.repos.jobs import Standing

GROUP = NodeGroup("gpus", 4, "a100-40gb", 8, 128_000, 1024 * GIB, 8)
JOB = Standing("j", "acme", "vision", "ocr", JobPhase.RUNNING, 1, "seoul", 0, "")
NOON_NS = 1_793_448_000 * 10**9
"""2026-10-31, 12:00 UTC."""
HOUR_US = 3600 * 10**6


def cluster(tariff: Tariff | None = None, **more: object) -> Cluster:
    chosen = tariff or Tariff(device_hour={"a100-40gb": 2.0})
    made = Cluster(ClusterId("seoul"), "kr", "p", ClusterClass.CLOUD, (GROUP,), chosen)
    return replace(made, **more)  # type: ignore[arg-type]


def use(device_us: int = HOUR_US, from_ns: int = NOON_NS, hours: float = 1.0) -> Use:
    return Use(JOB, 1, GROUP, device_us, from_ns, from_ns + round(hours * HOUR_NS))


@given(
    st.integers(0, 10**15),
    st.integers(NOON_NS - 10**17, NOON_NS + 10**17),
    st.floats(0, 2000),
    st.sampled_from(["UTC", "Asia/Seoul", "Europe/Vienna"]),
)
def test_the_days_of_a_use_add_up_to_it_exactly(
    device_us: int, from_ns: int, hours: float, zone: str
) -> None:
    pricing = Pricing(cluster(), ExchangeRates(), Calendar(zone))
    whole = use(device_us, from_ns, hours)
    charges = list(pricing.charges(whole, egress_micro=7))
    assert sum(each.device_us for each in charges) == device_us
    assert all(each.device_us >= 0 for each in charges)
    assert sum(each.egress_micro for each in charges) == 7
    assert (charges[0].from_ns, charges[-1].to_ns) == (whole.from_ns, whole.to_ns)
    # Every day is rounded to the millionth by itself.
    assert abs(sum(each.rent_micro for each in charges) - device_us * 2 / 3600) <= len(charges)


def test_a_use_over_the_end_of_a_month_is_billed_in_both() -> None:
    pricing = Pricing(cluster(), ExchangeRates())
    charges = list(pricing.charges(use(24 * HOUR_US, hours=24)))
    assert [(each.day, each.month, each.device_us // HOUR_US) for each in charges] == [
        ("2026-10-31", "2026-10", 12),
        ("2026-11-01", "2026-11", 12),
    ]
    assert [each.rent_micro for each in charges] == [24_000_000, 24_000_000]


def test_what_is_known_late_of_a_closed_month_goes_to_the_first_that_is_open() -> None:
    pricing = Pricing(cluster(), ExchangeRates(), closed_through="2026-12")
    days = [(each.day, each.month) for each in pricing.charges(use(24 * HOUR_US, hours=24))]
    assert days == [("2026-10-31", "2027-01"), ("2026-11-01", "2027-01")]


def test_an_hour_that_is_told_late_is_charged_at_the_prices_of_that_hour() -> None:
    carbon = Series(np.array([100.0, 300.0]), NOON_NS - HOUR_NS)
    calendar = tuple(2.0 if hour == 12 else 1.0 for hour in range(24))
    tariff = Tariff(device_hour={"a100-40gb": 2.0}, calendar=calendar)
    pricing = Pricing(cluster(tariff, carbon_g_per_kwh=carbon), ExchangeRates())
    (dear,) = pricing.charges(use())
    (cheap,) = pricing.charges(use(from_ns=NOON_NS - HOUR_NS))
    (both,) = pricing.charges(use(2 * HOUR_US, NOON_NS - HOUR_NS, hours=2))
    assert (dear.rent_micro, cheap.rent_micro) == (4_000_000, 2_000_000)
    assert both.rent_micro == 6_000_000
    assert dear.carbon_ug == 3 * cheap.carbon_ug
    assert abs(both.carbon_ug - dear.carbon_ug - cheap.carbon_ug) <= 1


def test_owned_devices_cost_their_energy_and_others_their_rent() -> None:
    power = Series.constant(100.0)
    owned = cluster(Tariff("KRW"), electricity_per_mwh=power)
    (paid,) = Pricing(owned, ExchangeRates("USD", {"KRW": 0.001})).charges(use())
    (in_won,) = Pricing(owned, ExchangeRates("KRW")).charges(use())
    (rented,) = Pricing(cluster(electricity_per_mwh=power), ExchangeRates()).charges(use())
    assert (paid.rent_micro, rented.energy_micro) == (0, 0)
    assert (paid.currency, in_won.currency) == ("USD", "KRW")
    assert abs(in_won.energy_micro - 1000 * paid.energy_micro) <= 1000
    assert in_won.energy_micro > 0


def test_nodes_that_are_gone_are_still_known_by_what_they_cost() -> None:
    gone = replace(GROUP, name="spot")
    pricing = Pricing(cluster(), ExchangeRates(), retired={"spot": gone})
    assert pricing.group("spot") == gone
    assert pricing.group("gpus") == GROUP
    assert pricing.group("never") is None
