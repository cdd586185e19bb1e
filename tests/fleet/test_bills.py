from dataclasses import astuple

import numpy as np
import pytest

from dure.domain.fleet.workloads import Demand, Workload, WorkloadKind
from dure.domain.ids import TenantId, WorkloadId
from dure.fleet.bills import FLEET, Ledger, Level, Spend, Term


def work(name: str, tenant: str = "ann", team: str = "", service: str = "") -> Workload:
    return Workload(
        WorkloadId(name),
        TenantId(tenant),
        WorkloadKind.BATCH,
        Demand(),
        team=team,
        service_name=service,
    )


def accrue(ledger: Ledger, money: float, g_co2: float = 0.0, node: int = 0) -> None:
    ledger.accrue(np.array([node]), Term.RENT, np.array([money]), np.array([g_co2]))


def test_a_node_is_shared_by_compute_and_its_idle_part_with_it() -> None:
    ledger = Ledger()
    ann, bob = ledger.account(work("a", "ann")), ledger.account(work("b", "bob"))
    ledger.joined(0, ann, 3000)
    ledger.joined(0, bob, 1000)
    accrue(ledger, 8.0, 400.0)
    assert [(line.tenant, line.rent, line.g_co2) for line in ledger.bill()] == [
        ("ann", 6.0, 300.0),
        ("bob", 2.0, 100.0),
    ]


def test_each_pays_for_the_time_it_was_there() -> None:
    ledger = Ledger()
    ann, bob = ledger.account(work("a", "ann")), ledger.account(work("b", "bob"))
    ledger.joined(0, ann, 1000)
    accrue(ledger, 10.0)
    ledger.joined(0, bob, 1000)
    accrue(ledger, 10.0)
    ledger.left(0, ann)
    accrue(ledger, 10.0)
    bills = {line.tenant: line.money for line in ledger.bill()}
    assert bills == pytest.approx({"ann": 15.0, "bob": 15.0})


def test_an_account_that_grows_and_shrinks_pays_for_what_it_held() -> None:
    ledger = Ledger()
    ann, bob = ledger.account(work("a", "ann")), ledger.account(work("b", "bob"))
    ledger.joined(0, ann, 1000)
    ledger.joined(0, bob, 1000)
    ledger.joined(0, ann, 2000)
    accrue(ledger, 4.0)
    ledger.left(0, ann, 2000)
    accrue(ledger, 4.0)
    assert {line.tenant: line.money for line in ledger.bill()} == {"ann": 5.0, "bob": 3.0}


def test_what_nobody_uses_is_the_fleets() -> None:
    ledger = Ledger()
    accrue(ledger, 5.0, 70.0, node=12)
    (line,) = ledger.bill()
    assert (line.tenant, line.rent, line.g_co2) == (FLEET, 5.0, 70.0)


def test_terms_are_kept_apart() -> None:
    ledger = Ledger()
    row = ledger.account(work("a"))
    ledger.charge(row, Term.TRANSFER, 1.5)
    ledger.charge(row, Term.PENALTY, 2.5)
    ledger.charge_many(
        np.array([row, row]), Term.ENERGY, np.array([1.0, 2.0]), np.array([5.0, 6.0])
    )
    (line,) = ledger.bill()
    assert (line.rent, line.energy, line.transfer, line.penalty, line.g_co2) == (
        0.0,
        3.0,
        1.5,
        2.5,
        11.0,
    )


def test_a_bill_is_broken_down_as_far_as_asked() -> None:
    ledger = Ledger()
    for name, team, service in (("1", "x", "chat"), ("2", "x", "chat"), ("3", "y", "")):
        ledger.charge(ledger.account(work(name, "ann", team, service)), Term.RENT, 1.0)
    names = {
        level: [(line.team, line.service, line.workload, line.money) for line in ledger.bill(level)]
        for level in Level
    }
    assert names == {
        Level.TENANT: [("", "", "", 3.0)],
        Level.TEAM: [("x", "", "", 2.0), ("y", "", "", 1.0)],
        Level.SERVICE: [("x", "chat", "", 2.0), ("y", "", "", 1.0)],
        Level.WORKLOAD: [("x", "chat", "1", 1.0), ("x", "chat", "2", 1.0), ("y", "", "3", 1.0)],
    }


def test_spending_is_told_once() -> None:
    ledger = Ledger()
    row = ledger.account(work("a"))
    ledger.joined(0, row, 1000)
    accrue(ledger, 3.0, 9.0)
    assert ledger.spent() == [Spend(TenantId("ann"), 3.0, 9.0)]
    assert ledger.spent() == []
    accrue(ledger, 1.0)
    assert ledger.spent() == [Spend(TenantId("ann"), 1.0, 0.0)]


def test_a_new_period_starts_at_nothing_and_runs_on() -> None:
    ledger = Ledger()
    row = ledger.account(work("a"))
    ledger.joined(0, row, 1000)
    accrue(ledger, 3.0)
    assert [line.money for line in ledger.close_period()] == [3.0]
    assert ledger.bill() == []
    accrue(ledger, 4.0)
    assert [line.money for line in ledger.close_period()] == [4.0]


@pytest.mark.parametrize("seed", range(5))
def test_all_bills_together_are_what_was_paid(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ledger = Ledger()
    paid = np.zeros(5)
    rows = [ledger.account(work(f"w{n}", f"t{n % 4}", f"g{n % 3}")) for n in range(30)]
    on: set[tuple[int, int]] = set()
    for _ in range(400):
        nodes = rng.permutation(12)[: rng.integers(1, 12)]
        money, grams = rng.exponential(3.0, len(nodes)), rng.exponential(90.0, len(nodes))
        term = int(rng.integers(0, 2))
        ledger.accrue(nodes, list(Term)[term], money, grams)
        paid[term] += money.sum()
        paid[4] += grams.sum()
        node, row = int(rng.integers(0, 12)), rows[int(rng.integers(0, 30))]
        if (node, row) in on and rng.random() < 0.7:
            ledger.left(node, row)
            on.remove((node, row))
        else:
            ledger.joined(node, row, int(rng.integers(1, 8)) * 143)
            on.add((node, row))
        if rng.random() < 0.2:
            ledger.charge(row, Term.PENALTY, 2.0)
            paid[3] += 2.0
    total = astuple(ledger.total)[4:]
    assert total == pytest.approx(tuple(paid), rel=1e-12)
    for level in Level:
        lines = np.array([astuple(line)[4:] for line in ledger.bill(level)])
        assert lines.sum(axis=0) == pytest.approx(paid, rel=1e-9)


def test_what_was_spent_before_a_period_closed_is_still_told() -> None:
    ledger = Ledger()
    row = ledger.account(work("a"))
    ledger.charge_many(np.array([row, row]), Term.RENT, np.array([1.0, 2.0]), np.array([4.0, 5.0]))
    ledger.close_period()
    ledger.charge(row, Term.PENALTY, 0.5)
    assert ledger.spent() == [Spend(TenantId("ann"), 3.5, 9.0)]
