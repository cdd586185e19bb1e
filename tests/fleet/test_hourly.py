"""What people are shown of a place: its slice in words, and an hour's price that is the bill's."""

import pytest

from dure.domain.fleet.amounts import MICRO
from dure.domain.fleet.clusters import Cluster, ClusterClass, NodeGroup, Tariff
from dure.domain.fleet.decisions import Placement
from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.fleet.money import ExchangeRates
from dure.domain.fleet.protocol.reports import InstanceStatus
from dure.domain.fleet.series import HOUR_NS, Series
from dure.domain.ids import ClusterId
from dure.domain.units import GIB
from dure.fleet.hourly import devices_of, hour_of, slices_of, spoken
from dure.server.links.pricing import Pricing, Use
from dure.stores.repos.jobs import Standing

GROUP = NodeGroup("gpus", 2, "h100", 8, 128_000, 1024 * GIB, 8)
RENTED = Tariff("USD", {"h100": 2.5})
OWNED = Tariff("USD", {})


def cluster(tariff: Tariff) -> Cluster:
    return Cluster(
        ClusterId("east"),
        "kr",
        "own",
        ClusterClass.ON_PREM,
        (GROUP,),
        tariff,
        Series.constant(400.0),
        Series.constant(120.0),
        1.3,
    )


def instance(template: str = "", milli: int = 1000, devices: int = 1) -> InstanceStatus:
    return InstanceStatus(
        0, "node", "pod", Placement(0, tuple(range(devices)), (), template, milli)
    )


@pytest.mark.parametrize("tariff", [RENTED, OWNED], ids=["rented", "owned"])
def test_an_hour_shown_is_an_hour_billed(tariff: Tariff) -> None:
    here = cluster(tariff)
    money, grams = hour_of(here, "gpus", 3.5, 0)
    job = Standing("j", "acme", "", "", JobPhase.RUNNING, 1, "east", 0, "")
    use = Use(job, 1, GROUP, round(3.5 * 3600 * MICRO), 0, HOUR_NS)
    (charge,) = Pricing(here, ExchangeRates()).charges(use)
    assert money == pytest.approx((charge.rent_micro + charge.energy_micro) / MICRO, abs=1e-6)
    assert grams == pytest.approx(charge.carbon_ug / MICRO, abs=1e-5)
    assert min(money, grams) > 0


def test_nothing_is_asked_for_what_the_cluster_does_not_have_or_nobody_holds() -> None:
    assert hour_of(cluster(RENTED), "gone", 1.0, 0) == (0.0, 0.0)
    assert hour_of(cluster(RENTED), "gpus", 0.0, 0) == (0.0, 0.0)


def test_slices_are_told_in_a_few_words_and_counted_by_their_shares() -> None:
    some = [instance("1g.10gb", 142), instance("1g.10gb", 142), instance(devices=4)]
    assert spoken(slices_of(some)) == "2 x 1g.10gb, 4 x whole"
    assert spoken(slices_of([instance()])) == "whole"
    assert devices_of(some) == pytest.approx(4.284)
