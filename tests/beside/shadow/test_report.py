"""What Dure would have done is decided by its own machines, and counted as what was."""

from dataclasses import replace

import pytest

from dure.beside.shadow.prices import ShadowPrices
from dure.beside.shadow.records import WorkloadRecord
from dure.beside.shadow.report import make_report
from dure.domain.errors import InputError
from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.slices import ShareMode
from tests.beside.shadow.logs import HOUR_NS, PRICES, PROFILE, START_NS, node, pod, watched


def test_what_dure_would_have_done_alike_costs_alike() -> None:
    report = make_report(
        watched([node("dear", "a")], [pod("one", "a", hours=2.0), pod("two", "a", came_h=1.0)]),
        PRICES,
    )
    assert report.dure.model_dump() == pytest.approx(report.observed.model_dump())
    assert report.same_cluster == 2
    assert report.saved_money == pytest.approx(0.0)
    # A whole node of eight at 4 for the two hours in which anything is on it.
    assert report.observed.money == pytest.approx(64.0)


def test_a_cheaper_cluster_with_room_would_have_been_taken() -> None:
    nodes = [node("cheap", "c"), node("dear", "d")]
    report = make_report(watched(nodes, [pod("one", "d", hours=2.0)]), PRICES)
    assert report.elsewhere == 1
    assert report.saved_money == pytest.approx(64.0 - 16.0)
    assert report.saved_g_co2 > 0
    [line] = report.lines
    assert (line.cluster, line.dure_cluster) == ("dear", "cheap")


def test_jobs_spread_over_nodes_would_have_been_packed() -> None:
    nodes = [node("dear", name) for name in ("a", "b", "c", "d")]
    pods = [pod(f"p-{each.name}", each.name, hours=3.0) for each in nodes]
    report = make_report(watched(nodes, pods), PRICES)
    assert report.observed.node_hours == pytest.approx(12.0)
    assert report.dure.node_hours == pytest.approx(3.0)
    assert report.dure.fragmentation < report.observed.fragmentation
    assert report.dure.device_hours == pytest.approx(report.observed.device_hours)


def test_a_gang_that_waited_beside_a_free_cluster_would_have_started_at_once() -> None:
    nodes = [node("dear", "a"), node("cheap", "x"), node("cheap", "y")]
    gang = [pod(f"rank-{n}", "a", gpus=4, bound_h=4.0, hours=2.0, gang="gang") for n in range(2)]
    filler = pod("filler", "a", gpus=8, hours=4.0)
    report = make_report(watched(nodes, [*gang, filler]), PRICES)
    assert report.jobs == 2
    lines = {line.job: line for line in report.lines}
    assert lines["rank-0"].waited_s == pytest.approx(4 * 3600)
    assert lines["rank-0"].dure_waited_s == pytest.approx(0.0)
    assert report.saved_mean_wait_s == pytest.approx(2 * 3600)


def test_under_kueue_a_wait_begins_when_the_workload_came() -> None:
    admitted = replace(pod("one", "a", came_h=3.0, hours=1.0), workload="job-one")
    log = watched([node("dear", "a")], [admitted])
    copies = [
        WorkloadRecord(cluster, "team", "job-one", START_NS + hour * HOUR_NS)
        for cluster, hour in (("dear", 2), ("manager", 1))
    ]
    [line] = make_report(replace(log, workloads=tuple(copies)), PRICES).lines
    assert line.waited_s == pytest.approx(2 * 3600)
    assert line.dure_waited_s == pytest.approx(0.0)


def test_a_workload_that_still_waits_counts_with_the_pods_it_will_have() -> None:
    gang = "dear/team/job-one"
    waiting = [
        replace(pod(f"w/main/{n}", gpus=4, gang=gang), workload="job-one", expected=True)
        for n in range(2)
    ]
    filler = pod("filler", "a", gpus=8, hours=10.0)
    nodes = [node("dear", "a"), node("cheap", "c")]
    report = make_report(watched(nodes, [*waiting, filler]), PRICES)
    lines = {line.job: line for line in report.lines}
    assert (lines["job-one"].pods, lines["job-one"].dure_cluster) == (2, "cheap")
    admitted = [replace(each, ended_ns=START_NS + HOUR_NS) for each in waiting]
    assert make_report(watched(nodes, [*admitted, filler]), PRICES).jobs == 1


def test_what_ran_before_keeps_its_devices_on_both_sides() -> None:
    before = pod("before", "a", cluster="dear", gpus=8, came_h=-1.0, hours=6.0)
    late = pod("late", "a", cluster="dear", gpus=8, bound_h=5.0, hours=1.0)
    report = make_report(watched([node("dear", "a")], [before, late]), PRICES)
    assert report.jobs == 1
    [line] = report.lines
    assert line.dure_waited_s == pytest.approx(5 * 3600)
    assert report.dure.money == pytest.approx(report.observed.money)


def test_nothing_is_ever_promised_twice() -> None:
    nodes = [node("dear", "a"), node("dear", "b")]
    pods = [
        pod(f"p-{n:02d}", "a" if n % 2 else "b", gpus=1 + n % 4, came_h=n / 10, hours=2.0)
        for n in range(40)
    ]
    report = make_report(watched(nodes, pods, hours=40.0), PRICES)
    assert report.dure.started == 40
    assert report.dure.device_hours == pytest.approx(sum(2.0 * (1 + n % 4) for n in range(40)))


def test_slices_scattered_over_devices_would_have_been_packed() -> None:
    """Eight slices of a seventh, one on each node: Dure puts them on two."""
    nodes = [replace(node("dear", f"n{n}", devices=1), mode=ShareMode.MIG) for n in range(8)]
    pods = [
        replace(
            pod(f"slice-{n}", f"n{n}", hours=4.0),
            resource="nvidia.com/mig-1g.5gb",
            whole=False,
            memory_bytes=device_profile(PROFILE).slice("1g.5gb").memory_bytes,
        )
        for n in range(8)
    ]
    report = make_report(watched(nodes, pods), PRICES)
    assert report.dure.started == 8
    assert report.observed.node_hours == pytest.approx(32.0)
    assert report.dure.node_hours == pytest.approx(8.0)
    assert report.dure.device_hours == pytest.approx(report.observed.device_hours)


def test_a_pod_that_never_got_a_node_waits_to_the_end() -> None:
    report = make_report(
        watched([node("dear", "a", devices=2)], [pod("huge", gpus=8)], hours=3.0), PRICES
    )
    [line] = report.lines
    assert line.waited_s == line.dure_waited_s == pytest.approx(3 * 3600)
    assert "can never run" in line.why


def test_without_prices_money_says_nothing_and_the_report_says_so() -> None:
    report = make_report(watched([node("dear", "a")], [pod("one", "a")]), ShadowPrices())
    assert not report.priced
    assert report.observed.money == 0.0


def test_a_log_without_accelerators_cannot_be_compared() -> None:
    with pytest.raises(InputError, match="no node with accelerators"):
        make_report(watched([], []), PRICES)
