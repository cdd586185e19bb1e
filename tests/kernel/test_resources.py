from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dure.domain.accelerator import AcceleratorProfile
from dure.domain.catalogue import CATALOGUE
from dure.domain.errors import InputError
from dure.domain.ids import TenantId
from dure.domain.plan import Allotment
from dure.domain.tenant import MemoryClaim, Tenant
from dure.domain.units import GIB
from dure.kernel.resources import Allotments, behind, disjoint, front, whole
from tests.kernel.factories import H200, A, B

profiles = st.sampled_from(list(CATALOGUE.values()))


@given(profiles, st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20))
def test_disjoint_sets_never_overlap_and_cover_the_device(
    profile: AcceleratorProfile, shares: list[float]
) -> None:
    least = -(-profile.sm_minimum // profile.sm_granule)
    assume(len(shares) * least <= profile.sm_groups)
    sets = disjoint(profile, tuple(shares))
    assert len(sets) == len(shares)
    assert sets[0].first == 0
    assert sets[-1].end == profile.sms
    for one, other in pairwise(sets):
        assert one.end == other.first
    for part in sets:
        assert part.count >= profile.sm_minimum
        assert part.first % profile.sm_granule == 0


def test_more_sets_than_the_device_offers_are_refused() -> None:
    with pytest.raises(InputError, match="at most 16 tenants"):
        disjoint(H200, (1.0,) * 17)


def test_a_larger_share_gets_no_fewer_units() -> None:
    small, large = disjoint(H200, (1.0, 3.0))
    assert small.count == 32
    assert large.count == 100


@given(profiles, st.floats(0.0, 0.99))
def test_a_front_set_and_what_is_behind_it_make_up_the_device(
    profile: AcceleratorProfile, share: float
) -> None:
    first = front(profile, share)
    assume(first.count < profile.sms)
    rest = behind(profile, first)
    assert first.overlap(rest) == 0
    assert first.count + rest.count == profile.sms


def test_the_whole_share_is_the_whole_device() -> None:
    assert front(H200, 1.0) == whole(H200)


tenants = st.builds(
    Tenant,
    id=st.sampled_from([TenantId(name) for name in "abcd"]),
    memory=st.builds(MemoryClaim, st.none() | st.integers(0, 200 * GIB), st.integers(0, 100 * GIB)),
    copy_bytes_per_s=st.none() | st.floats(0.0, 1e12),
)


@given(st.lists(tenants | st.sampled_from([TenantId(name) for name in "abcd"]), max_size=20))
def test_memory_and_copy_bandwidth_are_never_promised_twice(
    history: list[Tenant | TenantId],
) -> None:
    allotments = Allotments(H200)
    given_out: dict[TenantId, Allotment] = {}
    for step in history:
        if isinstance(step, Tenant):
            try:
                changed = allotments.give(step)
            except InputError:
                continue
        else:
            changed = allotments.take_back(step)
            given_out.pop(step, None)
        given_out |= {allotment.tenant: allotment for allotment in changed}
        reserved = sum(allotment.memory_reserve_bytes for allotment in given_out.values())
        assert reserved == allotments.reserved_bytes <= H200.memory_bytes
        assert allotments.copy_bytes_per_s <= H200.copy_bytes_per_s * (1 + 1e-9)
        for allotment in given_out.values():
            others = reserved - allotment.memory_reserve_bytes
            assert allotment.memory_limit_bytes + others <= H200.memory_bytes
            assert 0.0 <= allotment.copy_bytes_per_s <= H200.copy_bytes_per_s * (1 + 1e-9)


def claim(tenant: TenantId, reserve: int, limit: int | None = None) -> Tenant:
    return Tenant(tenant, memory=MemoryClaim(limit, reserve))


def test_a_reserve_that_does_not_fit_is_refused_and_nothing_changes() -> None:
    allotments = Allotments(H200)
    allotments.give(claim(A, 100 * GIB))
    with pytest.raises(InputError, match="tenant 'b' reserves 50 GiB"):
        allotments.give(claim(B, 50 * GIB))
    assert allotments.reserved_bytes == 100 * GIB
    assert allotments.give(claim(A, 100 * GIB)) == ()


def test_a_limit_below_the_reserve_is_refused() -> None:
    with pytest.raises(InputError, match="limit below its reserve"):
        Allotments(H200).give(claim(A, 2 * GIB, 1 * GIB))


def test_a_new_reserve_lowers_what_others_may_take() -> None:
    allotments = Allotments(H200)
    allotments.give(claim(A, 0))
    changed = {allotment.tenant: allotment for allotment in allotments.give(claim(B, 40 * GIB))}
    assert changed[A].memory_limit_bytes == H200.memory_bytes - 40 * GIB
    assert changed[B].memory_reserve_bytes == 40 * GIB


def test_a_tenant_may_raise_its_own_reserve_into_free_memory() -> None:
    allotments = Allotments(H200)
    allotments.give(claim(A, 100 * GIB))
    allotments.give(claim(A, 120 * GIB))
    assert allotments.reserved_bytes == 120 * GIB


def test_memory_of_a_tenant_that_left_is_free_again() -> None:
    allotments = Allotments(H200)
    allotments.give(claim(A, 100 * GIB))
    allotments.take_back(A)
    allotments.give(claim(B, 120 * GIB))
    assert allotments.reserved_bytes == 120 * GIB


def test_claims_beyond_the_link_share_it_in_proportion() -> None:
    allotments = Allotments(H200)
    allotments.give(Tenant(A, copy_bytes_per_s=64e9))
    shared = allotments.give(Tenant(B, copy_bytes_per_s=192e9))
    assert [allotment.copy_bytes_per_s for allotment in shared] == [16e9, 48e9]


def test_a_claim_of_no_bandwidth_is_a_claim() -> None:
    allotments = Allotments(H200)
    (nothing,) = allotments.give(Tenant(A, copy_bytes_per_s=0.0))
    (unclaimed,) = allotments.give(Tenant(B))
    assert nothing.copy_bytes_per_s == 0.0
    assert unclaimed.copy_bytes_per_s == H200.copy_bytes_per_s
    assert allotments.copy_bytes_per_s == 0.0
