"""The book of sites: what summaries say, what orders take, what fits."""

import pytest

from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.money import ExchangeRates
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.workloads import Demand
from dure.domain.units import GIB
from dure.fleet.fit import Footprint, footprint
from dure.fleet.sites import DEVICES, SiteBook, usage_of
from tests.fleet.factories import cluster, fleet, group, summary


def shape(devices: int = 1) -> Footprint:
    demand = Demand(memory_bytes=10 * GIB, devices=devices, whole=True)
    found = footprint(demand, device_profile("a100"), ShareMode.WHOLE)
    assert found is not None
    return found


def test_a_joined_cluster_is_free_until_it_says_otherwise() -> None:
    member = cluster("east")
    book = SiteBook(fleet(member), 0.8)
    book.join(member)
    assert book.columns.free[0, DEVICES] == 16
    book.summarise(summary(member, used=5))
    assert book.columns.free[0, DEVICES] == 11
    assert book.columns.free_on_used[0] == 3


def test_what_was_ordered_counts_until_the_next_summary() -> None:
    member = cluster("east")
    book = SiteBook(fleet(member), 0.8)
    book.join(member)
    book.summarise(summary(member))
    book.take(0, usage_of(shape(4), 1))
    assert book.columns.free[0, DEVICES] == 12
    book.summarise(summary(member, used=4))
    assert book.columns.free[0, DEVICES] == 12


def test_an_order_that_came_to_nothing_is_given_back_once() -> None:
    member = cluster("east")
    book = SiteBook(fleet(member), 0.8)
    book.join(member)
    used = usage_of(shape(4), 1)
    told = int(book.columns.told[0])
    book.take(0, used)
    book.give_back(0, used, told)
    assert book.columns.free[0, DEVICES] == 16
    book.take(0, used)
    book.summarise(summary(member))
    book.give_back(0, used, told)
    assert book.columns.free[0, DEVICES] == 16


def test_devices_that_orders_wait_for_are_not_free() -> None:
    member = cluster("east")
    book = SiteBook(fleet(member), 0.8)
    book.join(member)
    book.summarise(summary(member, used=4, waiting=6))
    assert book.columns.free[0, DEVICES] == 6


def test_rents_are_in_the_base_currency() -> None:
    member = cluster("seoul", rent=2600.0)
    won = fleet(
        member.__class__(
            **{
                **{name: getattr(member, name) for name in member.__slots__},
                "tariff": member.tariff.__class__("KRW", {"a100": 2600.0}),
            }
        ),
        rates=ExchangeRates("USD", {"KRW": 1 / 1300}),
    )
    book = SiteBook(won, 0.8)
    book.join(won.clusters[0])
    assert book.columns.rent[0] == pytest.approx(2.0)
    assert not book.columns.owned[0]


def test_a_lost_cluster_is_down_until_it_joins_again() -> None:
    member = cluster("east", groups=(group("one"), group("two")))
    book = SiteBook(fleet(member), 0.8)
    book.join(member)
    book.lose(member.id)
    assert not book.columns.up.any()
    book.join(member)
    assert book.columns.up.all()
    assert len(book) == 2
