"""The watch over the fleet: sees clusters fill, promises fail, requests grow and data come back."""

from dataclasses import replace

from dure.domain.fleet.decisions import Site, SiteSummary
from dure.domain.fleet.events import (
    ClusterSummarised,
    RoundDue,
    ServiceObserved,
    WorkloadSubmitted,
)
from dure.domain.fleet.signals import FleetSignal, FleetSignalKind
from dure.domain.ids import ArtefactId, ClusterId, WorkloadId
from dure.telemetry.fleet_watch import FleetWatch
from tests.fleet.factories import job

MINUTE_NS = 60 * 10**9


def summary(now_ns: int, free: int, total: int = 100) -> ClusterSummarised:
    site = SiteSummary(
        Site(ClusterId("seoul"), "h200"), "h200", 10, 10, total, free, free, 0, 0, 0, 0, 8
    )
    return ClusterSummarised(now_ns, (site,))


def signals(watch: FleetWatch, *events: object) -> list[FleetSignal]:
    return [seen.signal for event in events for seen in watch.observe(event)]  # type: ignore[arg-type]


def observed(now_ns: int, violated: float, rate: float = 10.0) -> ServiceObserved:
    return ServiceObserved(now_ns, WorkloadId("web"), ClusterId("seoul"), rate, 2, violated)


def test_a_cluster_that_fills_is_signalled_before_it_is_full() -> None:
    watch = FleetWatch()
    events = [summary(minute * MINUTE_NS, 60 - 4 * minute) for minute in range(15)]
    found = signals(watch, *events)
    assert found[0].kind is FleetSignalKind.CONGESTION
    assert found[0].about == "seoul"
    assert found[0].strength >= 0.5
    assert "will be full" in found[0].reason


def test_a_cluster_whose_use_stays_or_swings_is_not_signalled() -> None:
    steady = [summary(minute * MINUTE_NS, 30) for minute in range(40)]
    swinging = [summary(minute * MINUTE_NS, 30 + 10 * (minute % 2)) for minute in range(40)]
    assert signals(FleetWatch(), *steady) == []
    assert signals(FleetWatch(), *swinging) == []


def test_promises_that_fail_are_signalled_and_cleared_when_they_are_kept_again() -> None:
    watch = FleetWatch()
    broken = signals(watch, *(observed(n * MINUTE_NS, 0.4) for n in range(10)))
    assert broken[-1].kind is FleetSignalKind.LATENCY
    assert broken[-1].strength >= 0.5
    kept = signals(watch, *(observed((10 + n) * MINUTE_NS, 0.0) for n in range(40)))
    assert kept[-1].strength == 0.0


def test_one_bad_look_is_no_signal() -> None:
    watch = FleetWatch()
    assert signals(watch, *(observed(n * MINUTE_NS, 0.0) for n in range(20))) == []
    assert signals(watch, observed(21 * MINUTE_NS, 0.3)) == []


def test_requests_that_grow_steeply_are_signalled_while_promises_still_hold() -> None:
    watch = FleetWatch()
    found = signals(watch, *(observed(n * MINUTE_NS, 0.0, 10.0 + 3.0 * n) for n in range(14)))
    assert found
    assert "will have grown" in found[0].reason


def test_submissions_that_want_the_same_data_speak_for_locality() -> None:
    watch = FleetWatch()
    wanted = replace(job("a"), data=(ArtefactId("corpus"),))
    found = signals(watch, *(WorkloadSubmitted(n, wanted) for n in range(20)))
    assert found[-1].kind is FleetSignalKind.LOCALITY
    assert found[-1].strength >= 0.5
    others = FleetWatch()
    apart = [replace(job("a"), data=(ArtefactId(f"set-{n}"),)) for n in range(20)]
    assert signals(others, *(WorkloadSubmitted(n, each) for n, each in enumerate(apart))) == []


def test_what_tells_nothing_of_the_fleet_is_passed_over() -> None:
    assert FleetWatch().observe(RoundDue(1)) == []
