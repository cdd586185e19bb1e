"""One round: who gets what when there is not enough, and what that says about prices."""

import numpy as np

from dure.domain.fleet.events import ClusterJoined, ClusterSummarised
from dure.domain.fleet.workloads import Sla, Workload
from dure.fleet import rounds
from dure.fleet.costs import CostTable, cost_table
from dure.fleet.global_machine import GlobalMachine
from dure.fleet.global_settings import GlobalSettings
from dure.fleet.global_state import GlobalState
from dure.fleet.rounds import Choice, Room
from dure.fleet.sites import DEVICES
from tests.fleet.factories import cluster, fleet, group, job, summary

OWN = cluster("own", rent=None, groups=(group(nodes=1),))
CLOUD = cluster("cloud")


def state() -> GlobalState:
    made = GlobalMachine(GlobalSettings(fleet(OWN, CLOUD)))
    for member in (OWN, CLOUD):
        made.handle(ClusterJoined(0, member))
        made.handle(ClusterSummarised(0, (summary(member),)))
    return made.state


def decide(*workloads: Workload) -> tuple[CostTable, Choice]:
    known = state()
    tracks = [known.track(workload) for workload in workloads]
    around = known.around()
    table = cost_table(tracks, around, (0,))
    room = Room(rounds.capacity(around, (0,)), rounds.fits_now(table, known.sites))
    return table, rounds.decide(table, room, around)


def used(table: CostTable, choice: Choice, site: int) -> float:
    return float(table.usage[choice.site == site][:, 0, DEVICES].sum())


def test_nothing_is_given_out_twice() -> None:
    table, choice = decide(*(job(f"job-{n}", devices=1 + n % 4) for n in range(12)))
    assert used(table, choice, 0) <= 8
    assert used(table, choice, 1) <= 16


def test_scarce_cheap_devices_go_to_those_who_gain_most_per_device_hour() -> None:
    small = [job(f"small-{n}", hours=1.0, devices=1) for n in range(8)]
    fast = [job(f"fast-{n}", hours=4.0, devices=1) for n in range(8)]
    _, choice = decide(*small, *fast)
    rented = choice.site == 1
    assert rented[:8].sum() >= rented[8:].sum()


def test_who_found_no_room_says_what_the_place_is_worth() -> None:
    _, choice = decide(*(job(f"job-{n}") for n in range(12)))
    assert choice.missed[0] > 1.0
    assert choice.missed[1] == 0.0


def test_where_all_find_room_nothing_is_scarce() -> None:
    _, choice = decide(*(job(f"job-{n}") for n in range(6)))
    assert (choice.site == 0).all()
    assert not choice.missed.any()


def test_when_all_is_full_the_important_and_urgent_come_first() -> None:
    late = Sla(deadline_ns=0, penalty_per_hour_late=50.0)
    crowd = [job(f"job-{n}", devices=8, hours=3.0) for n in range(4)]
    _, choice = decide(*crowd, job("vip", devices=8, hours=3.0, sla=late, priority=9))
    assert choice.site[4] >= 0
    assert (choice.site >= 0).sum() == 3


def test_costs_are_the_sum_of_their_terms() -> None:
    table, _ = decide(job(), job("other", devices=4, hours=7.0))
    assert np.allclose(table.total, sum(table.parts))


def test_terms_of_one_place_are_those_of_the_table() -> None:
    table, _ = decide(job(), job("other", devices=4, hours=7.0))
    for index in np.ndindex(table.total.shape):
        found = [part[index[0], index[1], index[2] % part.shape[2]] for part in table.parts]
        assert np.allclose(table.terms_at(*index), found)


def test_rent_is_of_devices_whose_nodes_are_kept_on() -> None:
    table, _ = decide(job(hours=3.0, devices=8))
    assert np.isclose(table.rent[0, 1, 0], 8 * 2.0 * 3.0)
    assert table.rent[0, 0, 0] == 0.0
    assert table.energy[0, 0, 0] > 0.0
    assert np.allclose(table.spend, table.rent + table.energy)
