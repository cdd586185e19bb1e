"""Services at the centre: replicas for the peak, room kept for it, parts where one is too small."""

from dataclasses import replace

from dure.domain.fleet.clusters import Cluster
from dure.domain.fleet.events import (
    PolicySet,
    RoundDue,
    ServiceObserved,
    WorkloadStarted,
    WorkloadStopped,
)
from dure.domain.fleet.instructions import PreemptWorkload
from dure.domain.fleet.policy import FleetPolicy
from dure.domain.fleet.series import HOUR_NS
from dure.domain.ids import ClusterId, WorkloadId
from dure.fleet.global_machine import GlobalMachine
from tests.fleet.factories import cluster, group, job, service
from tests.fleet.machines import machine, of_kind, orders, submit, tell

CHAT = WorkloadId("chat")
QUARTER_NS = HOUR_NS // 4


def serving(*members: Cluster, rate: float = 8.0) -> GlobalMachine:
    """A machine whose service runs with the instances it was placed with."""
    made = machine(*members)
    submit(made, service(rate=rate))
    for order in orders(made.handle(RoundDue(0))).values():
        made.handle(WorkloadStarted(0, CHAT, order.attempt))
    return made


def seen(
    made: GlobalMachine, where: str, rate: float, replicas: int, now_ns: int, violated: float = 0.0
) -> None:
    made.handle(ServiceObserved(now_ns, CHAT, ClusterId(where), rate, replicas, violated))


def test_the_peak_that_was_seen_decides_how_many_replicas_a_place_needs() -> None:
    made = serving(cluster("east"))
    (place,) = made.state.tracks[CHAT].places.values()
    seen(made, "east", 95.0, place.instances, QUARTER_NS)
    seen(made, "east", 20.0, place.instances, 2 * QUARTER_NS)
    track = made.state.tracks[CHAT]
    assert track.rate == 95.0
    assert place.instances + place.kept >= 10
    made.handle(PolicySet(2 * QUARTER_NS, FleetPolicy(forecast=False)))
    seen(made, "east", 20.0, place.instances, 3 * QUARTER_NS)
    assert track.rate == 20.0
    assert place.instances + place.kept < 5


def test_jobs_do_not_take_what_a_service_will_need_at_its_peak() -> None:
    east = cluster("east", groups=(group(nodes=1),))
    made = serving(east)
    seen(made, "east", 55.0, 2, QUARTER_NS)
    tell(made, east, used=2, now_ns=QUARTER_NS)
    kept = made.state.sites.columns.kept[0, 0]
    assert kept >= 4
    submit(made, *(job(f"job-{n}") for n in range(6)), now_ns=QUARTER_NS)
    assert len(orders(made.handle(RoundDue(QUARTER_NS)))) == 6 - kept
    seen(made, "east", 55.0, 6, 2 * QUARTER_NS)
    assert made.state.sites.columns.kept[0, 0] <= kept - 4 + 1


def test_a_service_whose_site_is_too_small_gets_a_part_in_another_cluster_and_gives_it_back() -> (
    None
):
    small, large = cluster("small", rent=1.0, groups=(group(nodes=1),)), cluster("large", rent=9.0)
    made = serving(small, large)
    assert made.state.tracks[CHAT].places[1].site == 0
    seen(made, "small", 120.0, 8, QUARTER_NS, violated=1.0)
    tell(made, small, used=8, now_ns=QUARTER_NS)
    seen(made, "small", 120.0, 8, 2 * QUARTER_NS, violated=1.0)
    order = orders(made.handle(RoundDue(2 * QUARTER_NS)))[CHAT]
    assert order.site.cluster == "large"
    assert "beside small/" in order.explanation.note
    assert "no room there for all of its load" in order.explanation.note
    made.handle(WorkloadStarted(2 * QUARTER_NS, CHAT, order.attempt))
    # Days later the load is low again: one cluster is enough, and the dearer part ends.
    stopped: list[object] = []
    now_ns = 2 * QUARTER_NS
    while not stopped and now_ns < 200 * HOUR_NS:
        now_ns += HOUR_NS
        seen(made, "small", 5.0, 2, now_ns)
        seen(made, "large", 5.0, 2, now_ns)
        tell(made, small, used=2, now_ns=now_ns)
        stopped = list(of_kind(made.handle(RoundDue(now_ns)), PreemptWorkload))
    (stop,) = stopped
    assert isinstance(stop, PreemptWorkload)
    assert (stop.cluster, stop.attempt) == ("large", order.attempt)
    made.handle(WorkloadStopped(now_ns, CHAT, order.attempt, 0.0, "no longer needed"))
    assert orders(made.handle(RoundDue(now_ns))) == {}
    assert list(made.state.tracks[CHAT].places) == [1]


def test_a_service_goes_where_there_is_room_for_its_peak_even_if_that_is_dearer() -> None:
    small, large = cluster("small", rent=1.0, groups=(group(nodes=1),)), cluster("large", rent=3.0)
    made = machine(small, large)
    tell(made, small, used=6)
    submit(made, service(rate=40.0))
    order = orders(made.handle(RoundDue(0)))[CHAT]
    assert order.site.cluster == "large"
    cheaper = order.explanation.runner_up
    assert cheaper is not None
    assert cheaper.total < order.explanation.total
    assert cheaper.why.startswith("cheaper, but it has room for 2 of ")


def test_room_that_was_kept_is_free_again_when_the_service_is_gone() -> None:
    made = serving(cluster("east"))
    free = made.state.sites.columns.free[0].copy()
    seen(made, "east", 60.0, 2, QUARTER_NS)
    track = made.state.tracks[CHAT]
    assert made.state.sites.columns.kept[0, 0] > 0
    made.state.forget(track)
    assert made.state.sites.columns.kept[0, 0] == 0.0
    assert (made.state.sites.columns.free[0] >= free).all()


def test_the_ablation_without_forecast_provides_for_the_last_load_alone() -> None:
    made = serving(cluster("east"))
    made.handle(PolicySet(0, replace(FleetPolicy(), forecast=False)))
    for hour in range(1, 60):
        seen(made, "east", 60.0 if hour % 24 == 12 else 6.0, 2, hour * HOUR_NS)
    assert made.state.tracks[CHAT].rate == 6.0
