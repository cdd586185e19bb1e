import numpy as np
import pytest

from dure.domain.errors import InputError
from dure.domain.ids import TenantId
from dure.fleet.fairness import Amounts, Claim, ShareBook, fill

ANN, BOB, CID = TenantId("ann"), TenantId("bob"), TenantId("cid")
TOTALS = Amounts(100.0, 1000.0, 100.0, 1000.0)
ALL = Claim(TOTALS)


def book(**weights: float) -> ShareBook:
    made = ShareBook(TOTALS)
    for name, weight in weights.items():
        made.set_tenant(TenantId(name), weight)
    return made


def test_the_dominant_share_is_the_largest_of_all_dimensions() -> None:
    made = book(ann=1)
    made.took(ANN, Amounts(10, 300, 20, 0))
    assert made.share(ANN) == pytest.approx(0.3)
    made.gave_back(ANN, Amounts(0, 250, 0, 0))
    assert made.share(ANN) == pytest.approx(0.2)


def test_shares_are_of_the_whole_fleet() -> None:
    made = book(ann=1)
    made.took(ANN, Amounts(10))
    made.totals = Amounts(200.0, 1000.0, 100.0, 1000.0)
    assert made.share(ANN) == pytest.approx(0.05)


def test_a_lone_tenant_may_use_everything() -> None:
    made = book(ann=1, bob=5)
    assert made.caps({ANN: ALL})[ANN] >= 1.0


def test_while_nobody_waits_nobody_is_limited() -> None:
    made = book(ann=1, bob=1)
    made.took(ANN, Amounts(90))
    assert made.caps({}) == {ANN: 1.0, BOB: 1.0}
    assert made.over_share({}) == []


def test_caps_go_by_weight_when_all_ask_for_everything() -> None:
    caps = book(ann=1, bob=3).caps({ANN: ALL, BOB: ALL})
    assert caps == {ANN: pytest.approx(0.25), BOB: pytest.approx(0.75)}


def test_what_one_does_not_ask_for_others_borrow() -> None:
    caps = book(ann=1, bob=1, cid=2).caps({ANN: ALL, BOB: ALL, CID: Claim(Amounts(10))})
    assert caps[ANN] == caps[BOB] == pytest.approx(0.45)
    assert caps[CID] == pytest.approx(0.5), "its fair share stays open to it"


def test_tenants_that_need_different_things_do_not_limit_each_other() -> None:
    devices, cores = Claim(Amounts(compute_milli=100)), Claim(Amounts(cpu_milli=100))
    caps = book(ann=1, bob=1).caps({ANN: devices, BOB: cores})
    assert caps == {ANN: pytest.approx(1.0), BOB: pytest.approx(1.0)}


def test_filling_stops_where_something_needed_is_used_up() -> None:
    # Both need 1.0 of dimension 0; the third needs dimension 1 only and may go on.
    wanted = np.array([[1.0, 0.2], [1.0, 0.2], [0.0, 1.0]])
    assert fill(wanted, np.ones(3)) == pytest.approx([0.5, 0.5, 0.8])


def test_the_one_that_borrowed_most_by_weight_gives_back_first() -> None:
    made = book(ann=1, bob=3, cid=1)
    made.took(ANN, Amounts(40))
    made.took(BOB, Amounts(60))
    above = made.over_share({CID: ALL})
    assert [each.tenant for each in above] == [ANN]
    assert above[0].cap == pytest.approx(0.2)
    made.gave_back(ANN, Amounts(40))
    made.took(BOB, Amounts(40))
    assert [each.tenant for each in made.over_share({CID: ALL})] == [BOB]


def test_a_gang_larger_than_the_share_may_run_when_its_tenant_is_below() -> None:
    made = book(ann=1, bob=1)
    gang = Amounts(80)
    assert made.caps({ANN: Claim(gang), BOB: ALL})[ANN] < 0.8
    assert made.caps({ANN: Claim(gang, first=gang), BOB: ALL})[ANN] == pytest.approx(0.8)
    made.took(ANN, Amounts(60))
    assert made.caps({ANN: Claim(gang, first=gang), BOB: ALL})[ANN] < 0.6, "it has its share"


def test_rests_of_rounding_do_not_make_a_tenant_active() -> None:
    made = book(ann=1, bob=1)
    for _ in range(10):
        made.took(ANN, Amounts(0.1))
    made.gave_back(ANN, Amounts(1.0 - 1e-12))
    assert made.fair_shares({BOB: ALL})[BOB] == 1.0


def test_an_unknown_tenant_and_a_weight_of_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="unknown"):
        book(ann=1).took(BOB, Amounts(1))
    with pytest.raises(InputError, match="weight"):
        book(ann=0)
