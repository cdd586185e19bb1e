"""Replicas follow load, queue and latency, up at once and down with patience."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import Tariff
from dure.domain.fleet.money import ExchangeRates
from dure.domain.fleet.policy import MINUTE_NS
from dure.domain.fleet.series import Series
from dure.domain.fleet.slices import ShareMode
from dure.fleet.fit import replicas_for
from dure.fleet.local.autoscale import latency_budget_ms, replica_hour_cost
from dure.fleet.local.settings import ScalingRules
from tests.fleet.local.factories import Rig, cluster, group, moved, order, rig, serving, training

CALM_MS = 120.0
NEAR_MS = 470.0
LATE_MS = 700.0


def served(**more: Any) -> Rig:
    """A service with two replicas in a roomy cluster."""
    it = rig(group(count=4), **more)
    it.give(order(serving("s", whole=True), 2))
    it.warm_all()
    return it


@pytest.mark.parametrize("rate", [15.0, 40.0, 75.0])
def test_replicas_are_what_the_queueing_rule_says_for_the_load_with_headroom(rate: float) -> None:
    it = served()
    it.load(("s", rate, 0.0, CALM_MS))
    workload = serving("s", whole=True)
    assert it.names()["s"] == replicas_for(workload, device_profile("a100"), rate * 1.1, 500.0)


def test_a_queue_asks_for_replicas_that_drain_it() -> None:
    short, long = served(), served()
    short.load(("s", 15.0, 0.0, CALM_MS))
    long.load(("s", 15.0, 1200.0, CALM_MS))
    assert long.names()["s"] >= short.names()["s"] + 2


def test_a_latency_warning_grows_capacity_for_a_while_then_it_shrinks_step_by_step() -> None:
    it = served()
    it.load(("s", 40.0, 0.0, CALM_MS))
    it.warm_all()
    base = it.names()["s"]
    it.load(("s", 40.0, 0.0, NEAR_MS))
    grown = it.names()["s"]
    assert grown >= base + 2
    sizes = []
    for _ in range(60):
        it.warm_all()
        it.load(("s", 40.0, 0.0, CALM_MS))
        sizes.append(it.names()["s"])
    assert sizes[8] == grown
    assert sizes[-1] == base
    steps = [before - after for before, after in pairwise(sizes)]
    assert min(steps) == 0
    assert max(steps) <= -(-grown // 4)


def test_growth_waits_until_what_was_started_is_warm() -> None:
    it = served()
    it.load(("s", 40.0, 0.0, CALM_MS))
    it.warm_all()
    it.load(("s", 40.0, 0.0, NEAR_MS))
    grown = it.names()["s"]
    it.load(("s", 40.0, 0.0, NEAR_MS))
    assert it.names()["s"] == grown
    it.warm_all()
    it.load(("s", 40.0, 0.0, NEAR_MS))
    assert it.names()["s"] > grown


def test_growth_by_warnings_is_bounded() -> None:
    it = served()
    for _ in range(20):
        it.load(("s", 20.0, 0.0, NEAR_MS))
        it.warm_all()
    base = replicas_for(serving("s", whole=True), device_profile("a100"), 22.0, 500.0)
    assert it.names()["s"] == 2 * base


def test_replicas_go_only_after_fewer_were_enough_for_a_while() -> None:
    it = served()
    it.load(("s", 60.0, 0.0, CALM_MS))
    high = it.names()["s"]
    for _ in range(5):
        it.load(("s", 5.0, 0.0, CALM_MS))
        assert it.names()["s"] == high
    it.load(("s", 5.0, 0.0, CALM_MS))
    assert it.names()["s"] == high - -(-high // 4)
    it.load(("s", 60.0, 0.0, CALM_MS))
    assert it.names()["s"] == high


def test_a_load_that_wavers_does_not_stop_and_start_replicas() -> None:
    it = served()
    sizes = set()
    for minute in range(120):
        it.load(("s", 40.0 if minute // 10 % 2 else 36.0, 0.0, CALM_MS))
        if minute > 20:
            sizes.add(it.names()["s"])
    assert len(sizes) == 1


def bursts(it: Rig, hours: int, late: bool = False) -> list[int]:
    """Every fourth step of five minutes brings twice the load; replicas in each."""
    sizes = []
    for step in range(12 * hours):
        burst = step % 4 == 3
        slow = burst and late
        it.load(("s", 40.0 if burst else 20.0, 0.0, LATE_MS if slow else CALM_MS), minutes=5)
        sizes.append(it.names()["s"])
        it.warm_all()
    return sizes


def test_a_steady_load_gets_the_headroom_alone_however_long_it_lasts() -> None:
    it = served()
    for _ in range(60):
        it.load(("s", 40.0, 0.0, CALM_MS), minutes=5)
        it.warm_all()
    workload = serving("s", whole=True)
    assert it.names()["s"] == replicas_for(workload, device_profile("a100"), 44.0, 500.0)


def test_bursts_that_come_again_find_their_replicas_running() -> None:
    it = served()
    carries = replicas_for(serving("s", whole=True), device_profile("a100"), 40.0, 500.0)
    missed = []
    for step in range(12 * 18):
        burst = step % 4 == 3
        late = it.names()["s"] < carries
        if burst:
            missed.append(late)
        latency_ms = LATE_MS if burst and late else CALM_MS
        it.load(("s", 40.0 if burst else 20.0, 0.0, latency_ms), minutes=5)
        it.warm_all()
    assert missed[0]
    assert sum(missed[len(missed) // 3 :]) <= 1


def test_late_answers_in_bursts_widen_the_margin_and_good_times_narrow_it_again() -> None:
    rules = ScalingRules(first_margin=0.0, learn_per_h=60.0, warn_share=1e9)
    calm, late = served(scaling=rules), served(scaling=rules)
    bursts(calm, 3)
    bursts(late, 3, late=True)
    assert min(bursts(late, 1, late=True)) > min(bursts(calm, 1))
    bursts(late, 24)
    assert min(bursts(late, 1)) == min(bursts(calm, 1))


def test_a_service_that_is_late_at_a_load_it_was_sized_for_learns_no_margin() -> None:
    rules = ScalingRules(first_margin=0.0, warn_share=1e9)
    it = served(scaling=rules)
    for step in range(60):
        it.load(("s", 40.0 - step % 2, 0.0, LATE_MS), minutes=5)
        it.warm_all()
    workload = serving("s", whole=True)
    assert it.names()["s"] <= replicas_for(workload, device_profile("a100"), 52.0, 500.0)


def test_a_replica_costs_its_part_of_the_rent_or_its_energy_in_the_fleets_currency() -> None:
    it = rig(group(mode=ShareMode.MIG))
    it.give(order(serving("s", memory_gib=15)))
    task = next(iter(it.machine.floor.tasks.values()))
    profile = device_profile("a100")
    share = task.footprint.device_share
    assert 0 < share < 1
    dollars = ExchangeRates()
    rented = cluster()
    assert replica_hour_cost(rented, dollars, profile, task) == pytest.approx(2.0 * share)
    won = replace(rented, tariff=Tariff("KRW", {"a100": 2700.0}))
    rates = ExchangeRates(worth={"KRW": 1 / 1350})
    assert replica_hour_cost(won, rates, profile, task) == pytest.approx(2.0 * share)
    owned = replace(cluster(owned=True), electricity_per_mwh=Series.constant(100.0), pue=1.5)
    energy = profile.power_w(1.0) / 1e6 * 1.5 * 100.0
    assert replica_hour_cost(owned, dollars, profile, task) == pytest.approx(energy * share)


def test_the_warm_minimum_stays_without_load() -> None:
    it = rig(group(count=4))
    it.give(order(serving("s", warm=2, whole=True), 3))
    for _ in range(120):
        it.load(("s", 0.0, 0.0, 0.0))
    assert it.names()["s"] == 2


def test_without_a_warm_minimum_it_scales_to_zero_and_back() -> None:
    it = rig(group(count=4))
    it.give(order(serving("s", warm=0, whole=True), 1))
    for _ in range(15):
        it.load(("s", 0.0, 0.0, 0.0))
    assert it.names()["s"] == 1
    for _ in range(10):
        it.load(("s", 0.0, 0.0, 0.0))
    assert it.names()["s"] == 0
    it.load(("s", 0.0, 0.0, 0.0))
    assert it.names()["s"] == 0
    it.load(("s", 2.0, 0.0, 0.0))
    assert it.names()["s"] == 1


def test_a_queue_alone_wakes_a_service() -> None:
    it = rig(group(count=1))
    it.give(order(serving("s", warm=0, whole=True), 1))
    for _ in range(30):
        it.load(("s", 0.0, 0.0, 0.0))
    assert not it.running
    it.load(("s", 0.0, 3.0, 0.0))
    assert it.names()["s"] == 1


def test_replicas_that_find_no_place_wait_and_start_when_there_is_room() -> None:
    it = rig(group(count=1))
    it.give(order(training("w", 2)))
    it.give(order(serving("s", whole=True), 1))
    it.load(("s", 28.0, 0.0, CALM_MS))
    assert it.names()["s"] == 2
    assert it.summary["gpus"].waiting_devices > 0
    it.end("w")
    assert it.names()["s"] == 4


def test_switched_off_it_keeps_what_was_ordered() -> None:
    it = served(autoscale=False)
    it.load(("s", 100.0, 500.0, 5000.0))
    assert it.names()["s"] == 2


def test_at_its_most_replicas_a_service_gets_larger_slices_and_gives_them_back() -> None:
    it = rig(group(count=2, mode=ShareMode.MIG))
    it.give(order(serving("s", most_replicas=2), 2))
    it.warm_all()
    assert {place.template for place in it.running.values()} == {"1g.10gb"}
    it.load(("s", 30.0, 0.0, NEAR_MS))
    larger = {place.compute_milli for place in it.running.values()}
    assert min(larger) > 142
    assert all(each.warm_first for each in moved(it.log))
    for _ in range(40):
        it.warm_all()
        it.load(("s", 4.0, 0.0, CALM_MS))
    assert {place.template for place in it.running.values()} == {"1g.10gb"}


def test_larger_slices_stay_while_smaller_ones_could_not_carry_the_load() -> None:
    it = rig(group(count=2, mode=ShareMode.MIG))
    it.give(order(serving("s", most_replicas=2), 2))
    it.warm_all()
    it.load(("s", 30.0, 0.0, NEAR_MS))
    for _ in range(40):
        it.warm_all()
        it.load(("s", 30.0, 0.0, CALM_MS))
    assert {place.template for place in it.running.values()} == {"2g.20gb"}


def test_larger_slices_can_be_switched_off() -> None:
    rules = ScalingRules(larger_slices=False)
    it = rig(group(count=2, mode=ShareMode.MIG), scaling=rules)
    it.give(order(serving("s", most_replicas=2), 2))
    it.warm_all()
    it.load(("s", 30.0, 0.0, NEAR_MS))
    assert not moved(it.log)


def test_the_way_of_the_users_is_taken_off_the_latency_budget() -> None:
    it = served()
    workload = serving("s", users=(("near", 3.0), ("far", 1.0)))
    task = replace(next(iter(it.machine.floor.tasks.values())))
    task.order = order(workload)
    assert latency_budget_ms(task, {"near": 10.0, "far": 90.0}) == pytest.approx(470.0)
    assert latency_budget_ms(task, {}) == pytest.approx(500.0)


def test_services_are_judged_by_name_whatever_the_rows() -> None:
    it = rig(group(count=4))
    it.give(order(serving("a", whole=True)), order(serving("b", whole=True)))
    it.load(("b", 45.0, 0.0, CALM_MS), ("gone", 99.0, 0.0, CALM_MS), ("a", 1.0, 0.0, CALM_MS))
    assert it.names()["a"] == 1
    assert it.names()["b"] > 4
    it.withdraw("a")
    it.load(("b", 1.0, 0.0, CALM_MS), minutes=6)
    it.load(("b", 1.0, 0.0, CALM_MS), minutes=6)
    assert it.names()["b"] < 8
    assert it.now_ns == 13 * MINUTE_NS


def test_a_report_without_services_is_no_news_of_those_that_came_since() -> None:
    it = served()
    it.load(("s", 15.0, 0.0, CALM_MS))
    it.give(order(serving("other", whole=True)))
    before = it.names()
    it.load()
    assert it.names() == before
