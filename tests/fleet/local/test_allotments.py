"""Leases: pools get their units back, guests use what is lent, dedicated nodes serve one."""

from typing import Any

from dure.domain.fleet.events import AllotmentsSet, NodeLost, TenantSet
from dure.domain.fleet.policy import HOUR_NS
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.tenancy import Allotment, FleetTenant, VNodePool
from dure.domain.ids import PoolId, TenantId
from tests.fleet.local.factories import (
    HERE,
    Rig,
    batch,
    group,
    order,
    rig,
    serving,
    started,
    stopped,
    training,
)

POOL = PoolId("p")


def leased(units: int, lent: int = 0, count: int = 2, **pool: Any) -> Rig:
    """Tenant t has pool p with so many units here."""
    it = rig(group(count=count), group("mig", 1, 2, ShareMode.MIG))
    fields = {"profile": "a100", **pool}
    it.tell(TenantSet(0, FleetTenant(TenantId("t")), (VNodePool(POOL, TenantId("t"), **fields),)))
    allot(it, units, lent)
    return it


def allot(
    it: Rig, units: int, lent: int = 0, revision: int = 1, until_ns: int | None = None
) -> list[Any]:
    """The centre changes the lease; a round follows."""
    lease = Allotment(POOL, HERE, units, lent, revision, until_ns)
    return it.tell(AllotmentsSet(it.now_ns, (lease,))) + it.round()


def test_others_leave_what_a_pool_has_leased() -> None:
    it = leased(units=3)
    it.give(*(order(training(f"o{index}", tenant="o")) for index in range(8)))
    assert len(it.running) == 5
    it.give(order(training("mine", 3, pool=POOL)))
    assert it.names()["mine"] == 3


def test_lent_units_are_for_others_until_the_pool_wants_them() -> None:
    it = leased(units=4, lent=4)
    it.give(*(order(training(f"o{index}", tenant="o", hours=9)) for index in range(8)))
    assert len(it.running) == 8
    answer = it.give(order(training("mine", 2, pool=POOL)))
    assert len(stopped(answer)) == 2
    assert all("takes its units back" in each.why for each in stopped(answer))
    assert it.names()["mine"] == 2
    assert it.summary["gpus"].waiting_devices == 2


def test_guests_go_cheapest_first() -> None:
    it = leased(units=4, lent=4)
    it.give(order(serving("service", tenant="o", whole=True)))
    it.give(order(training("precious", 1, tenant="o", priority=3)))
    it.give(order(training("fixed", 1, tenant="o", preemptible=False)))
    it.round(30)
    it.give(order(training("old", 1, tenant="o")))
    it.round(30)
    it.give(order(training("new", 4, tenant="o")))
    answer = it.give(order(training("mine", 1, pool=POOL)))
    assert {str(each.instance.workload) for each in stopped(answer)} == {"new"}
    answer = it.give(order(training("mine2", 3, pool=POOL)))
    assert stopped(answer) == []


def test_additional_workers_of_elastic_gangs_go_before_whole_gangs() -> None:
    it = leased(units=2, lent=2)
    it.give(order(training("stretch", 4, tenant="o", most_workers=8)))
    it.give(order(training("rest", 2, tenant="o")))
    it.rounds(20)
    assert it.names() == {"stretch": 6, "rest": 2}
    answer = it.give(order(training("mine", 2, pool=POOL)))
    assert {str(each.instance.workload) for each in stopped(answer)} == {"stretch"}
    assert it.names() == {"stretch": 4, "rest": 2, "mine": 2}


def test_a_gang_goes_whole_when_its_additional_workers_are_not_enough() -> None:
    it = leased(units=6, lent=6)
    it.give(order(training("stretch", 4, tenant="o", most_workers=6)))
    it.give(order(training("rest", 2, tenant="o", priority=1)))
    it.rounds(20)
    assert it.names() == {"stretch": 6, "rest": 2}
    it.give(order(training("mine", 4, pool=POOL)))
    assert it.names() == {"rest": 2, "mine": 4}


def test_a_pool_beyond_its_units_is_a_guest_like_others() -> None:
    it = leased(units=2, lent=0)
    it.give(order(training("mine", 4, pool=POOL)))
    assert it.names()["mine"] == 4
    assert it.machine.floor.leases.by_pool[POOL].used_milli == 2000
    it.give(*(order(training(f"o{index}", tenant="o")) for index in range(4)))
    assert len(it.running) == 8


def test_workloads_without_a_pool_are_at_home_in_their_tenants_shared_pool() -> None:
    it = leased(units=2, lent=2)
    it.give(*(order(training(f"o{index}", tenant="o")) for index in range(8)))
    it.give(order(training("mine")))
    assert it.names()["mine"] == 1
    it.give(order(training("other", tenant="x")))
    assert it.names()["other"] == 0


def test_units_that_are_no_longer_lent_are_given_back_at_once() -> None:
    it = leased(units=4, lent=4)
    it.give(*(order(training(f"o{index}", tenant="o")) for index in range(8)))
    answer = allot(it, units=4, lent=1, revision=2)
    assert len(stopped(answer)) == 3
    assert it.summary["gpus"].free_devices == 3


def test_a_lower_revision_is_ignored_and_an_equal_one_says_nothing_new() -> None:
    it = leased(units=4)
    allot(it, units=6, revision=5)
    allot(it, units=0, revision=4)
    assert it.machine.floor.leases.by_pool[POOL].allotment.units == 6
    assert allot(it, units=6, revision=5) == []
    it.tell(AllotmentsSet(it.now_ns, ()))
    assert POOL not in it.machine.floor.leases.by_pool


def test_a_lease_ends_with_its_time() -> None:
    it = leased(units=8)
    allot(it, units=8, revision=2, until_ns=HOUR_NS)
    it.give(order(training("other", tenant="o")))
    assert it.names()["other"] == 0
    assert len(started(it.round(60))) == 1


def test_slice_pools_are_counted_in_their_slices() -> None:
    it = leased(units=7, template="1g.10gb", mode=ShareMode.MIG)
    it.give(*(order(batch(f"o{index}", tenant="o"), group="mig") for index in range(14)))
    others = len(it.running)
    assert others <= 8
    it.give(*(order(batch(f"m{index}", pool=POOL), group="mig") for index in range(6)))
    assert len(it.running) == others + 6


def test_dedicated_nodes_host_their_pool_alone() -> None:
    it = leased(units=4, dedicated=True)
    it.give(*(order(training(f"o{index}", tenant="o")) for index in range(8)))
    assert len(it.running) == 4
    it.give(order(training("mine", 2, pool=POOL)))
    others = {place.node for name, place in it.running.items() if name.workload != "mine"}
    assert it.names()["mine"] == 2
    assert not it.nodes("mine") & others


def test_a_dedicated_lease_clears_the_cheapest_node() -> None:
    it = leased(units=0, dedicated=True)
    it.give(order(training("big", 4, tenant="o", priority=5)))
    it.give(order(training("small", 1, tenant="o")))
    answer = allot(it, units=4, revision=2)
    assert {str(each.instance.workload) for each in stopped(answer)} == {"small"}
    it.give(order(training("mine", 4, pool=POOL)))
    assert it.names() == {"big": 4, "mine": 4}


def test_a_dedicated_pool_without_a_lease_here_waits() -> None:
    it = leased(units=0, dedicated=True)
    it.tell(AllotmentsSet(it.now_ns, ()))
    it.give(order(training("mine", pool=POOL)))
    assert not it.running
    allot(it, units=1, revision=2)
    assert it.names()["mine"] == 1


def test_nodes_that_are_no_longer_dedicated_are_open_to_all() -> None:
    it = leased(units=8, dedicated=True)
    it.give(order(training("other", 8, tenant="o")))
    assert not it.running
    allot(it, units=0, revision=2)
    assert it.names()["other"] == 8


def test_a_pool_nobody_described_still_admits_who_names_it() -> None:
    it = rig(group(count=1))
    allot(it, units=2)
    it.give(*(order(training(f"o{index}", tenant="o")) for index in range(4)))
    assert len(it.running) == 2
    it.give(order(training("mine", 2, pool=POOL)))
    assert it.names()["mine"] == 2


def test_a_tenants_priority_counts_for_its_workloads() -> None:
    it = rig(group(count=1))
    it.give(order(training("block", 4)))
    it.give(order(training("a", 4, tenant="a")))
    it.round(1)
    it.give(order(training("b", 4, tenant="b")))
    it.tell(TenantSet(it.now_ns, FleetTenant(TenantId("b"), priority=1)))
    it.end("block")
    assert it.names() == {"b": 4}


def test_leases_hold_without_the_centre_when_a_node_dies() -> None:
    it = leased(units=4, lent=4)
    it.give(*(order(training(f"o{index}", tenant="o")) for index in range(8)))
    it.give(order(training("mine", 4, pool=POOL)))
    (node, *_) = it.nodes("mine")
    it.tell(NodeLost(it.now_ns, node))
    it.round()
    assert it.names()["mine"] == 4
    assert len(it.running) == 4
