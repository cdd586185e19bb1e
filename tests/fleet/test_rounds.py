"""One round: who gets what when there is not enough, and what that says about prices."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dure.domain.fleet.events import ClusterJoined, ClusterSummarised
from dure.domain.fleet.workloads import Sla, Workload
from dure.fleet import rounds
from dure.fleet.costs import CostTable, cost_table
from dure.fleet.global_machine import GlobalMachine
from dure.fleet.global_settings import GlobalSettings
from dure.fleet.global_state import GlobalState
from dure.fleet.round_loops import Wants, look_again, missed_gains, take_turns
from dure.fleet.rounds import Choice, Room
from dure.fleet.sites import DEVICES, Floats, Integers
from tests.fleet.factories import cluster, fleet, group, job, patient, summary

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
    assert choice.missed.gain[0] > 1.0
    assert choice.missed.gain[1] == 0.0


def test_where_all_find_room_nothing_is_scarce() -> None:
    _, choice = decide(*(job(f"job-{n}") for n in range(6)))
    assert (choice.site == 0).all()
    assert not choice.missed.devices.any()


def test_what_a_place_is_worth_is_a_mean_over_device_hours() -> None:
    """A job of six minutes that saves a transfer does not set the price for one of ten hours."""
    cost = np.array([[1.0, 11.0], [10.0, 30.0]])
    wants = Wants(cost, np.full(2, 1e9), np.ones((2, 1, 1)), np.ones(2, dtype=np.int64))
    run_h = np.array([[0.1, 0.1], [10.0, 10.0]])
    kind, elsewhere = np.zeros(2, dtype=np.int64), np.ones(2, dtype=np.int64)
    missed = missed_gains(wants, cost, kind, run_h, elsewhere, 0.01)
    assert np.isclose(missed.gain[0], (10.0 + 20.0) / 10.1)
    assert missed.devices.tolist() == [2.0, 0.0]


@given(st.integers(0, 10_000))
def test_who_looks_again_never_pays_more_nor_takes_what_is_not_there(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, sites, slots = 8, 3, 2
    capacity = rng.integers(1, 6, (sites, slots, 1)).astype(np.float64)
    wants = Wants(
        rng.uniform(1.0, 9.0, (jobs, sites * slots)),
        np.full(jobs, 20.0),
        rng.integers(1, 3, (jobs, 1, 1)).astype(np.float64),
        rng.integers(1, 3, jobs),
    )
    kind = np.zeros(sites, dtype=np.int64)
    before = take_turns(wants, kind, capacity.copy(), rng.permutation(jobs))
    left = capacity.copy()
    after = look_again(wants, kind, left, before, 3)
    assert (_paid(wants, after) <= _paid(wants, before)).all()
    held = np.zeros_like(capacity)
    for number, option in enumerate(after):
        if option >= 0:
            site, slot = divmod(int(option), slots)
            held[site, slot : slot + wants.span[number]] += wants.usage[number, 0]
    assert (held <= capacity).all()
    assert np.allclose(left, capacity - held)


def _paid(wants: Wants, option: Integers) -> Floats:
    paid = wants.cost[np.arange(len(option)), np.maximum(option, 0)]
    return np.where(option >= 0, paid, wants.skip)


def test_who_looks_again_takes_a_cheaper_place_that_was_left_free() -> None:
    wants = Wants(np.array([[1.0, 5.0]]), np.full(1, 9.0), np.ones((1, 1, 1)), np.ones(1, np.int64))
    kind = np.zeros(2, dtype=np.int64)
    assert look_again(wants, kind, np.ones((2, 1, 1)), np.array([1]), 3).tolist() == [0]


def test_who_may_wait_gives_way_to_dear_hours_and_not_to_a_price_that_never_falls() -> None:
    known = state()
    slots = (0, 1, 4)
    tracks = [known.track(patient("patient", due_h=40.0)), known.track(job("at-once"))]
    around = known.around()
    table = cost_table(tracks, around, slots)
    room = Room(rounds.capacity(around, slots), rounds.fits_now(table, known.sites))
    known.adaptation.congestion.now[:] = (1.0, 0.0)
    crowding = rounds.decide(table, room, around).crowding
    assert not crowding[0].any()
    assert np.isclose(crowding[1, 0, 0], 1.0 * table.run_h[1, 0])


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
