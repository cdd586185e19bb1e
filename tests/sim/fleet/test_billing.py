"""What a simulated run costs, compared with sums made by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import Fleet
from dure.domain.fleet.instructions import PlaceWorkload
from dure.domain.fleet.series import HOUR_NS
from dure.domain.fleet.workloads import Artefact, Gang, Sla
from dure.domain.ids import ArtefactId, ClusterId, TenantId
from dure.fleet.bills import FLEET, Level
from dure.sim.fleet.billing import ClusterMeter, Holding, NodeMeter, tick_times
from dure.sim.fleet.collect import charge_unfinished
from dure.sim.fleet.run import run, run_world
from tests.sim.fleet.worlds import (
    BOOT_S,
    CONTAINER_S,
    START_NS,
    Script,
    at_s,
    cluster,
    group,
    job,
    order,
    play,
    service,
    setting,
)

POWER = device_profile("a100").power
PUE = 1.5
NODE_W = 400.0 + 4 * POWER.idle_w
"""Of a powered node with nothing running on it."""
BUSY_W = POWER.peak_w - POWER.idle_w
OPEN_S = BOOT_S + CONTAINER_S + 3600.0
"""From the order of an hour's job to its end, on a node that was off."""


def test_a_rented_node_is_paid_whole_from_the_first_start_to_the_last_end() -> None:
    result = run(setting([cluster("c")], [job("j")]), "first-fit")
    assert result.money.rent == pytest.approx(4 * 2.0 * OPEN_S / 3600.0)
    assert result.money.energy == 0.0


def test_the_tariff_calendar_is_followed_hour_by_hour() -> None:
    calendar = [1.0] * 24
    calendar[1] = 3.0
    result = run(setting([cluster("c", calendar=calendar)], [job("j")]), "first-fit")
    assert result.money.rent == pytest.approx(4 * 2.0 * (1.0 + 3.0 * (OPEN_S - 3600.0) / 3600.0))


def test_carbon_is_energy_of_the_site_at_the_intensity_of_each_hour() -> None:
    result = run(setting([cluster("c", carbon=[100.0, 500.0])], [job("j")], hours=2.0), "first-fit")
    late_s = OPEN_S - 3600.0
    ready_s = BOOT_S + CONTAINER_S
    first_kwh = (NODE_W * 3600.0 + BUSY_W * (3600.0 - ready_s)) / 3.6e6
    then_kwh = (NODE_W + BUSY_W) * late_s / 3.6e6
    grams = PUE * (100.0 * first_kwh + 500.0 * then_kwh)
    assert result.kg_co2 == pytest.approx(grams / 1000.0)
    assert result.kwh == pytest.approx(PUE * (first_kwh + then_kwh))


def test_owned_nodes_pay_energy_also_while_powered_and_empty() -> None:
    world, result = run_world(setting([cluster("c", price=None)], [job("j")]), "first-fit")
    idle_s = 600.0  # the local stage's patience with an empty node, by its rounds
    rest_s = 60.0 - OPEN_S % 60.0
    used_kwh = (NODE_W * OPEN_S + BUSY_W * 3600.0) / 3.6e6
    idle_kwh = NODE_W * (idle_s + rest_s) / 3.6e6
    assert result.money.rent == 0.0
    assert result.money.energy == pytest.approx(0.1 * PUE * (used_kwh + idle_kwh), rel=1e-3)
    bill = {line.tenant: line for line in world.books.ledger.bill()}
    assert bill[TenantId("ann")].energy == pytest.approx(0.1 * PUE * used_kwh)
    assert bill[FLEET].energy == pytest.approx(0.1 * PUE * idle_kwh, rel=1e-2)


def test_tenants_on_one_node_share_it_by_the_devices_they_hold() -> None:
    both = [
        job("small", tenant=TenantId("ann")),
        job("large", tenant=TenantId("bob"), gang=Gang(workers=3)),
    ]
    world, result = run_world(setting([cluster("c", [group(nodes=1)])], both), "first-fit")
    bill = {line.tenant: line for line in world.books.ledger.bill()}
    assert result.money.rent == pytest.approx(4 * 2.0 * OPEN_S / 3600.0)
    assert bill[TenantId("ann")].rent == pytest.approx(result.money.rent / 4)
    assert bill[TenantId("bob")].rent == pytest.approx(result.money.rent * 3 / 4)
    assert bill[TenantId("bob")].g_co2 == pytest.approx(3 * bill[TenantId("ann")].g_co2)


def test_data_is_paid_for_once_and_delays_the_start() -> None:
    data = Artefact(ArtefactId("d"), 625 * 10**9, frozenset({ClusterId("far")}))
    users = [job("a", data=(data.id,)), job("b", at_s=7200.0, data=(data.id,))]
    clusters = (cluster("c"), cluster("far", price=9.0))
    fleet = Fleet(clusters, egress_per_gb={("far", "c"): 0.02})
    made = setting(clusters, users, artefacts=(data,), fleet=fleet)
    script = Script(*((120.0 * n, PlaceWorkload(order(each, "c"))) for n, each in enumerate(users)))
    world = play(made, script)
    assert world.books.transfers == pytest.approx(625 * 0.02)
    fetched_s = 625e9 / 1.25e9
    first = world.jobs[users[0].id]
    assert at_s(first.started_ns) == pytest.approx(max(fetched_s, BOOT_S) + CONTAINER_S)
    again = world.jobs[users[1].id]
    assert at_s(again.started_ns) == pytest.approx(7200.0 + BOOT_S + CONTAINER_S)


def test_a_late_job_pays_by_the_hour_to_its_cap() -> None:
    deadline_ns = START_NS + 1800 * 10**9
    late_h = (OPEN_S - 1800.0) / 3600.0
    for cap, paid in ((100.0, 6.0 * late_h), (2.0, 2.0)):
        late = job("j", sla=Sla(deadline_ns, penalty_per_hour_late=6.0, penalty_cap=cap))
        result = run(setting([cluster("c")], [late]), "first-fit")
        assert result.money.late_jobs == pytest.approx(paid)
        assert result.jobs.on_time_share == 0.0


def test_unfinished_work_is_paid_at_the_dearest_price_that_could_run_it() -> None:
    clusters = [cluster("cheap", price=1.0), cluster("dear", price=5.0), cluster("own", price=None)]
    long = job("j", runs_s=10 * 3600.0, gang=Gang(workers=2))
    world = play(
        setting(clusters, [long], hours=2.0), Script((0.0, PlaceWorkload(order(long, "cheap"))))
    )
    done = (7200.0 - BOOT_S - CONTAINER_S) / 36_000.0
    charge_unfinished(world)
    assert sum(world.books.unfinished.values()) == pytest.approx((1.0 - done) * 10 * 2 * 5.0)


def test_bills_add_up_to_what_was_paid_at_every_level() -> None:
    loads = [job(f"j{n}", at_s=400.0 * n, tenant=TenantId(f"t{n % 3}")) for n in range(20)]
    made = setting([cluster("c"), cluster("own", price=None)], [*loads, service("s")], hours=3.0)
    world, result = run_world(made, "least-loaded")
    for level in Level:
        lines = world.books.ledger.bill(level)
        assert sum(line.money for line in lines) == pytest.approx(result.money.total)
        assert sum(line.g_co2 for line in lines) == pytest.approx(1000.0 * result.kg_co2)
    assert sum(each.money.total for each in result.tenants) == pytest.approx(result.money.total)
    assert sum(result.hourly.money) + result.money.unfinished == pytest.approx(result.money.total)


def test_prices_change_at_every_edge_of_a_series_and_at_tariff_hours() -> None:
    plain = cluster("c", carbon=[1.0, 2.0, 3.0], calendar=[1.0] * 24)
    times = tick_times(setting([plain], []).fleet, START_NS + 1, START_NS + 2 * HOUR_NS)
    assert times == [START_NS + HOUR_NS, START_NS + HOUR_NS + 1, START_NS + 2 * HOUR_NS]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 50), st.sampled_from([0.125, 0.5, 1.0])),
        min_size=1,
        max_size=8,
    )
)
def test_holders_of_a_node_pay_exactly_what_it_cost(stays: list[tuple[int, int, float]]) -> None:
    """Against a sum over every minute."""
    clear = cluster("c", price=4.0, carbon=[100.0])
    fleet = setting([clear], []).fleet
    meter = ClusterMeter(clear, fleet, START_NS)
    node = NodeMeter(meter, 16.0, 1000.0)
    node.read(START_NS)
    minute = 60 * 10**9
    accounts = [_Owed() for _ in stays]
    holdings: dict[int, Holding] = {}
    for now in range(102):
        for number, (begin, length, share) in enumerate(stays):
            if now == begin + length:
                holdings[number].end(accounts[number], START_NS + now * minute)  # type: ignore[arg-type]
            if now == begin:
                holdings[number] = Holding(node, share, START_NS + now * minute)
    owed = np.zeros(len(stays))
    for now in range(101):
        there = {n: s[2] for n, s in enumerate(stays) if s[0] <= now < s[0] + s[1]}
        for number, share in there.items():
            owed[number] += 16.0 / 60.0 * share / sum(there.values())
    assert [account.rent for account in accounts] == pytest.approx(owed.tolist())
    assert meter.rent == pytest.approx(owed.sum())


class _Owed:
    """Stands in for an account."""

    def __init__(self) -> None:
        self.rent = self.energy = self.g_co2 = self.device_h = 0.0


def test_a_period_closes_with_its_bill_and_work_that_runs_on_is_in_both() -> None:
    made = setting([cluster("c")], [job("j", runs_s=3 * 3600.0)], hours=6.0)
    made = replace(made, policy=replace(made.policy, period_ns=2 * HOUR_NS))
    result = run(made, "first-fit")
    whole = run(setting([cluster("c")], [job("j", runs_s=3 * 3600.0)], hours=6.0), "first-fit")
    assert [(each.end_ns - each.start_ns) // HOUR_NS for each in result.periods] == [2, 2, 2]
    rents = [sum(line.rent for line in each.lines) for each in result.periods]
    assert rents[0] == pytest.approx(4 * 2.0 * 2.0)
    assert rents[1] > 0.0
    assert rents[2] == 0.0
    assert sum(rents) == pytest.approx(whole.money.rent)
    assert [each.money.total for each in result.tenants] == pytest.approx(
        [each.money.total for each in whole.tenants]
    )
