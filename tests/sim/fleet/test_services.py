"""Services in columns: requests, waits, queues, promises."""

from dataclasses import replace

import numpy as np
import pytest

from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import Fleet
from dure.domain.fleet.events import ServiceObserved
from dure.domain.fleet.instructions import PlaceWorkload
from dure.domain.fleet.policy import MINUTE_NS
from dure.domain.fleet.series import DAY_NS, HOUR_NS
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.workloads import Demand, Sla, Workload
from dure.domain.ids import ClusterId
from dure.domain.units import GIB
from dure.fleet.queueing import wait_p95_s
from dure.sim.fleet.billing import Books
from dure.sim.fleet.jobs import Run
from dure.sim.fleet.run import run
from dure.sim.fleet.services import GIVE_UP_S, Services
from dure.sim.fleet.setting import LoadCurves
from tests.sim.fleet.worlds import (
    START_NS,
    Script,
    cluster,
    flat_load,
    group,
    order,
    play,
    service,
    setting,
)


class _Bench:
    """One service in one or two clusters, without stages around it."""

    def __init__(self, workload: Workload, loads: LoadCurves, clusters: int = 1) -> None:
        names = [cluster(name) for name in "ab"[:clusters]]
        fleet = Fleet(tuple(names), latency_ms={("home", "a"): 20.0, ("home", "b"): 200.0})
        self.books = Books(fleet, START_NS)
        self.services = Services([workload], fleet, loads, START_NS)
        self.runs = []
        for number, name in enumerate("ab"[:clusters]):
            account = self.books.open(workload, number, True, START_NS)
            placed = order(workload, name, number + 1, 1)
            made = Run(placed, number, device_profile("a100"), account, START_NS)
            self.services.add(made, ClusterId(name), 250.0)
            self.runs.append(made)

    def warm(self, *counts: int) -> None:
        for each, count in zip(self.runs, counts, strict=True):
            each.warm = count
            self.services.set_warm(each)

    def minutes(self, first: int, last: int) -> None:
        """Rounds from one minute to a later one."""
        for minute in range(first, last + 1):
            self.services.advance(START_NS + minute * MINUTE_NS)
            self.services.refresh(START_NS + minute * MINUTE_NS)


def test_waiting_follows_the_rule_the_autoscaler_plans_by() -> None:
    bench = _Bench(service("s"), flat_load("s", [25.0]))
    bench.warm(3)
    bench.minutes(0, 5)
    expected_ms = 100.0 + 1000.0 * wait_p95_s(3, 25.0, 10.0)
    assert bench.services.rows.latency_ms[0] == pytest.approx(expected_ms)
    assert bench.services.violated_minutes[0] == 0.0
    assert bench.services.requests[0] == pytest.approx(25.0 * 300.0)


def test_requests_are_divided_by_warm_instances() -> None:
    bench = _Bench(service("s"), flat_load("s", [12.0]), clusters=2)
    bench.warm(3, 1)
    bench.minutes(0, 1)
    assert bench.services.rows.rate[:2].tolist() == [9.0, 3.0]


def test_a_queue_grows_while_overloaded_and_drains_when_there_is_room() -> None:
    bench = _Bench(service("s"), flat_load("s", [12.0]))
    bench.warm(1)
    bench.minutes(0, 3)
    assert bench.services.rows.queue[0] == pytest.approx(2.0 * 180.0)
    assert bench.services.violated_minutes[0] == 3.0
    bench.warm(3)
    bench.minutes(4, 4)  # until this round the old number has served
    assert bench.services.rows.queue[0] == pytest.approx(2.0 * 240.0)
    bench.minutes(5, 5)
    assert bench.services.rows.queue[0] == 0.0


def test_who_waits_too_long_goes_away() -> None:
    bench = _Bench(service("s"), flat_load("s", [30.0]))
    bench.warm(1)
    bench.minutes(0, 60)
    assert bench.services.rows.queue[0] == pytest.approx(30.0 * GIVE_UP_S)


def test_a_service_at_zero_is_told_of_the_requests_that_wait_for_it() -> None:
    bench = _Bench(service("s"), flat_load("s", [6.0]), clusters=2)
    bench.minutes(0, 1)
    told = {news.cluster: float(news.requests_per_s[0]) for news in bench.services.news(0.05)}
    assert told == {0: 3.0, 1: 3.0}


def test_the_way_to_the_user_counts_against_the_target() -> None:
    near = service("s", rate=2.0)
    assert near.service is not None
    promise = replace(near.service, users=(("home", 1.0),), target_latency_ms=250.0)
    bench = _Bench(replace(near, service=promise), flat_load("s", [1.0]), clusters=2)
    bench.warm(1, 0)
    bench.minutes(0, 10)
    assert bench.services.violated_minutes[0] == 0.0
    bench.warm(0, 1)
    bench.minutes(11, 21)
    assert bench.services.violated_minutes[0] == 10.0


def test_a_service_without_an_instance_is_violated_only_while_somebody_asks() -> None:
    bench = _Bench(service("s"), flat_load("s", [0.0, 4.0], step_ns=5 * MINUTE_NS))
    bench.minutes(0, 8)
    assert bench.services.violated_minutes[0] == 3.0
    assert bench.services.minutes[0] == 3.0


def test_penalties_stop_at_the_cap_of_each_day() -> None:
    bad = service("s", sla=Sla(penalty_per_violated_minute=1.0, penalty_cap=100.0))
    bench = _Bench(bad, flat_load("s", [4.0]))
    for hour in range(1, 31):
        bench.services.refresh(START_NS + (hour - 1) * HOUR_NS)
        bench.services.advance(START_NS + hour * HOUR_NS)
    assert START_NS % DAY_NS == 0
    assert bench.services.penalty[0] == 200.0


def test_instances_draw_power_as_they_are_used() -> None:
    bench = _Bench(service("s"), flat_load("s", [15.0]))
    bench.warm(3)
    bench.minutes(0, 60)
    bench.services.pay_energy()
    kwh = 250.0 * 1.5 / 1000.0  # 15 of 3 x 10 requests a second: one and a half instances' worth
    assert bench.books.clusters[0].kwh == pytest.approx(kwh)


def test_larger_slices_serve_faster_by_their_share_of_compute() -> None:
    workload = service("s", rate=15.0)
    made = _Bench(workload, LoadCurves.none())
    made.warm(2)
    made.minutes(0, 1)
    before = made.services.rows.latency_ms[0]
    made.services.set_warm(made.runs[0], (2.0, 2.0))
    made.minutes(2, 2)
    wait_ms = wait_p95_s(2, 15.0, 20.0) * 1000.0
    assert made.services.rows.latency_ms[0] == pytest.approx(50.0 + wait_ms)
    made.services.set_warm(made.runs[0])
    made.minutes(3, 3)
    assert made.services.rows.latency_ms[0] == pytest.approx(before)


def test_a_service_at_its_most_replicas_is_helped_by_larger_slices() -> None:
    sliced = cluster("c", [group(mode=ShareMode.MIG)])
    small = Demand(memory_bytes=GIB, cpu_milli=1000, host_memory_bytes=GIB)
    busy = service("s", rate=24.0, demand=small)
    assert busy.service is not None
    busy = replace(busy, service=replace(busy.service, most_replicas=2, load_s=0.0))
    script = Script((0.0, PlaceWorkload(order(busy, "c", 1, 2))))
    world = play(setting([sliced], [busy], hours=3.0), script)
    assert world.services.rows.speed[0] > 1.0
    assert not world.services.service_slow[0]
    assert world.history.hours.service_within_target[-1] == 1.0


def test_a_service_without_stated_users_has_no_way_to_go_for_anybody() -> None:
    near = service("s", rate=2.0)
    assert near.service is not None
    near = replace(near, service=replace(near.service, target_latency_ms=120.0))
    made = setting([cluster("c")], [near], hours=2.0)
    assert made.fleet.latency_default_ms > 20.0
    result = run(made, "dure")
    assert [sample.sla_risk for sample in result.explanations] == [0.0]
    assert result.hourly.service_within_target[-1] == 1.0


def test_clusters_hear_of_loads_that_changed_and_of_no_others() -> None:
    rates = [10.0, 10.1, 14.0, 14.0]
    bench = _Bench(service("s"), flat_load("s", rates, step_ns=MINUTE_NS))
    bench.warm(3)
    heard = []
    for minute in range(4):
        bench.minutes(minute, minute)
        heard.append([float(n.requests_per_s[0]) for n in bench.services.news(0.05)])
    assert heard == [[10.0], [], [14.0], []]


def test_rows_are_used_again_without_mixing_services_up() -> None:
    workload = service("s")
    bench = _Bench(workload, flat_load("s", [9.0]))
    bench.warm(1)
    bench.minutes(0, 2)
    bench.services.remove(bench.runs[0])
    left = bench.services.refresh(START_NS + 2 * MINUTE_NS)
    assert left == bench.runs
    account = bench.books.open(workload, 0, True, START_NS)
    run = Run(order(workload, "a", 2, 1), 0, device_profile("a100"), account, START_NS)
    row = bench.services.add(run, ClusterId("a"), 250.0)
    assert np.flatnonzero(bench.services.rows.live).tolist() == [row]
    assert bench.services.rows.queue[row] == 0.0


def test_the_centre_hears_of_violations_every_quarter_of_an_hour() -> None:
    slow = service("s", rate=95.0)
    script = Script((0.0, PlaceWorkload(order(slow, "c", 1, 1))))
    made = setting([cluster("c")], [slow], hours=1.0)
    play(made, script)
    reports = script.all_of(ServiceObserved)
    assert [(report.now_ns - START_NS) // MINUTE_NS for report in reports] == [15, 30]
    assert reports[-1].violated_share == 1.0  # as it stays: the third would be no news
    assert reports[-1].replicas == 8


def test_load_curves_need_a_row_for_every_service() -> None:
    with pytest.raises(Exception, match="shape"):
        LoadCurves((service("s").id,), np.zeros((2, 3)), START_NS)
    with pytest.raises(Exception, match="gap"):
        LoadCurves((service("s").id,), np.array([[np.nan]]), START_NS)
