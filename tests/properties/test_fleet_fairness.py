"""Caps are fair: never below a fair share, never more than there is, in proportion to weights."""

from collections.abc import Mapping

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.domain.ids import TenantId
from dure.fleet.fairness import Amounts, Claim, ShareBook

TOTALS = Amounts(1000.0, 500.0, 2000.0, 4000.0)
ROUNDING = 1e-9

parts = st.floats(0.0, 1.5)
amounts = st.tuples(parts, parts, parts, parts).map(
    lambda shares: Amounts(*(s * t for s, t in zip(shares, TOTALS, strict=True)))
)


@st.composite
def books(draw: st.DrawFn) -> tuple[ShareBook, dict[TenantId, float]]:
    """Tenants with weights, some of which use something, together no more than there is."""
    weights = draw(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=6))
    tenants = {TenantId(f"t{number}"): weight for number, weight in enumerate(weights)}
    book = ShareBook(TOTALS)
    left = np.array(TOTALS)
    for tenant, weight in tenants.items():
        book.set_tenant(tenant, weight)
        part = np.array(draw(st.tuples(*[st.floats(0.0, 0.9)] * 4))) * draw(st.booleans())
        book.took(tenant, Amounts(*(part * left)))
        left = left * (1.0 - part)
    return book, tenants


def shares_wanted(
    book: ShareBook, claims: Mapping[TenantId, Claim], tenant: TenantId
) -> np.ndarray:
    claim = claims[tenant].amounts if tenant in claims else Amounts()
    return np.asarray((np.array(book.used(tenant)) + claim) / np.array(TOTALS))


@given(books(), st.data())
@settings(max_examples=150, deadline=None)
def test_no_cap_is_below_the_fair_share_of_who_has_demand(
    made: tuple[ShareBook, dict[TenantId, float]], data: st.DataObject
) -> None:
    book, tenants = made
    claims = {t: Claim(data.draw(amounts)) for t in tenants if data.draw(st.booleans())}
    caps, fair = book.caps(claims), book.fair_shares(claims)
    assert all(caps[tenant] >= fair[tenant] - ROUNDING for tenant in tenants)


@given(books(), st.data())
@settings(max_examples=150, deadline=None)
def test_what_caps_allow_of_what_is_asked_fits_in_every_dimension(
    made: tuple[ShareBook, dict[TenantId, float]], data: st.DataObject
) -> None:
    book, tenants = made
    claims = {tenant: Claim(data.draw(amounts)) for tenant in tenants}
    caps = book.caps(claims)
    granted = np.zeros(len(TOTALS))
    for tenant in tenants:
        wanted = shares_wanted(book, claims, tenant)
        if wanted.max() > 0:
            granted += wanted * min(1.0, caps[tenant] / wanted.max())
    assert np.all(granted <= 1.0 + 1e-6)


@given(st.lists(st.floats(0.1, 10.0), min_size=2, max_size=6), amounts)
@settings(max_examples=100, deadline=None)
def test_who_asks_for_the_same_gets_it_by_weight(weights: list[float], same: Amounts) -> None:
    book = ShareBook(TOTALS)
    tenants = [TenantId(f"t{number}") for number in range(len(weights))]
    for tenant, weight in zip(tenants, weights, strict=True):
        book.set_tenant(tenant, weight)
    claims = {tenant: Claim(same) for tenant in tenants}
    caps = book.caps(claims)
    short = [
        (caps[tenant], weight)
        for tenant, weight in zip(tenants, weights, strict=True)
        if caps[tenant] < shares_wanted(book, claims, tenant).max() - ROUNDING
    ]
    levels = [cap / weight for cap, weight in short]
    assert np.allclose(levels, levels[:1] * len(levels), rtol=1e-6)


@given(books(), st.data())
@settings(max_examples=100, deadline=None)
def test_somebody_below_its_cap_is_left_wanting_only_if_something_it_needs_is_used_up(
    made: tuple[ShareBook, dict[TenantId, float]], data: st.DataObject
) -> None:
    book, tenants = made
    claims = {tenant: Claim(data.draw(amounts)) for tenant in tenants}
    caps = book.caps(claims)
    wanted = {tenant: shares_wanted(book, claims, tenant) for tenant in tenants}
    part = {t: min(1.0, caps[t] / w.max()) if w.max() > 0 else 1.0 for t, w in wanted.items()}
    granted = sum((wanted[t] * part[t] for t in tenants), np.zeros(len(TOTALS)))
    for tenant in tenants:
        if part[tenant] < 1.0 - 1e-6:
            assert np.any((wanted[tenant] > 0) & (granted >= 1.0 - 1e-6))
