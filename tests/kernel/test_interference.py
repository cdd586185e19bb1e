import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.domain.kernel import KernelClass
from dure.domain.plan import SmSet
from dure.kernel.interference import ClassMix, Interference
from tests.kernel.factories import A, B, C

ALONE_IN = {
    KernelClass.COMPUTE: (1.0, 0.0, 0.0, 0.0),
    KernelClass.MEMORY: (0.0, 1.0, 0.0, 0.0),
    KernelClass.SMALL: (0.0, 0.0, 1.0, 0.0),
    KernelClass.LONG: (0.0, 0.0, 0.0, 1.0),
}
WHOLE = SmSet(0, 132)


def described(**mixes: ClassMix) -> Interference:
    model = Interference()
    for name, mix in mixes.items():
        model.describe({"a": A, "b": B, "c": C}[name], mix)
    return model


def feed(model: Interference, rho: float, times: int, noise: float = 0.1) -> None:
    """Noisy slow-downs of `a` beside `b`, which takes ρ of its speed."""
    rng = np.random.default_rng(0)
    for _ in range(times):
        model.observe(A, ((B, 1.0),), float(rng.lognormal(0.0, noise)) / (1.0 - rho))


@pytest.mark.parametrize("rho", [0.0, 0.1, 0.3, 0.6, 0.9])
def test_a_known_factor_is_learned_from_noisy_observations(rho: float) -> None:
    model = Interference()
    feed(model, rho, 200)
    assert model.rho(A, B) == pytest.approx(rho, abs=0.05)


def test_factors_of_two_companions_are_told_apart() -> None:
    model = Interference()
    for _ in range(200):
        model.observe(A, ((B, 1.0),), 1.0 / 0.5)
        model.observe(A, ((B, 1.0), (C, 1.0)), 2.0 + 0.25)
    assert model.rho(A, B) == pytest.approx(0.5, abs=0.05)
    assert model.rho(A, C) == pytest.approx(0.2, abs=0.05)


def test_the_factors_of_a_pair_have_a_direction() -> None:
    model = Interference()
    before = model.rho(B, A)
    feed(model, 0.9, 100)
    assert model.rho(B, A) == before


def test_the_prediction_error_falls_as_a_pair_is_learned() -> None:
    model = Interference()
    feed(model, 0.85, 5, noise=0.0)
    early = model.error
    feed(model, 0.85, 300, noise=0.0)
    assert model.error < 0.5 * early


def test_a_change_of_behaviour_is_followed() -> None:
    model = Interference()
    feed(model, 0.2, 300)
    feed(model, 0.7, 600)
    assert model.rho(A, B) == pytest.approx(0.7, abs=0.1)


@pytest.mark.parametrize("victim", KernelClass)
def test_before_measurements_a_small_neighbour_harms_least_and_a_long_one_most(
    victim: KernelClass,
) -> None:
    factors = {
        kind: described(a=ALONE_IN[victim], b=ALONE_IN[kind]).rho(A, B) for kind in KernelClass
    }
    assert min(factors, key=factors.__getitem__) is KernelClass.SMALL
    assert max(factors, key=factors.__getitem__) is KernelClass.LONG


def test_a_mixed_tenant_starts_between_its_classes() -> None:
    small = described(a=ALONE_IN[KernelClass.COMPUTE], b=ALONE_IN[KernelClass.SMALL])
    long = described(a=ALONE_IN[KernelClass.COMPUTE], b=ALONE_IN[KernelClass.LONG])
    mixed = described(a=ALONE_IN[KernelClass.COMPUTE], b=(0.0, 0.0, 0.5, 0.5))
    assert small.rho(A, B) < mixed.rho(A, B) < long.rho(A, B)


def test_what_a_pair_teaches_its_classes_helps_the_next_pair() -> None:
    model = described(a=ALONE_IN[KernelClass.COMPUTE], b=ALONE_IN[KernelClass.MEMORY])
    before = model.class_rho(KernelClass.COMPUTE, KernelClass.MEMORY)
    feed(model, 0.9, 200)
    assert model.class_rho(KernelClass.COMPUTE, KernelClass.MEMORY) > before
    model.describe(C, ALONE_IN[KernelClass.COMPUTE])
    assert model.rho(C, B) > before


def test_a_tenant_that_left_is_forgotten() -> None:
    model = Interference()
    before = model.rho(A, B)
    feed(model, 0.95, 50)
    model.forget(B)
    assert model.rho(A, B) == before


@given(
    st.lists(
        st.tuples(
            st.floats(0.0, 1.0), st.floats(allow_nan=False, allow_infinity=True, min_value=0.0)
        ),
        max_size=50,
    )
)
def test_factors_stay_between_0_and_1_whatever_is_observed(
    observed: list[tuple[float, float]],
) -> None:
    model = Interference()
    for phi, slowdown in observed:
        model.observe(A, ((B, phi), (C, 1.0)), slowdown)
    for other in (B, C):
        assert 0.0 <= model.rho(A, other) < 1.0
    assert 0.0 <= model.spill <= 1.0
    assert math.isfinite(model.error)


sets = st.tuples(st.integers(0, 15), st.integers(1, 16)).map(
    lambda groups: SmSet(8 * groups[0], 8 * min(groups[1], 16 - groups[0]))
)


@given(sets, st.floats(1.0, 132.0), sets)
def test_contest_is_a_part(own: SmSet, width: float, other: SmSet) -> None:
    assert 0.0 <= Interference().contest(own, width, other) <= 1.0


def test_the_same_units_are_wholly_contested_and_others_only_by_what_spills_over() -> None:
    model = Interference()
    assert model.contest(WHOLE, 132.0, WHOLE) == 1.0
    assert model.contest(SmSet(0, 64), 64.0, SmSet(64, 64)) == pytest.approx(model.spill)


def test_a_narrow_tenant_with_room_beside_its_neighbour_is_not_contested() -> None:
    model = Interference()
    assert model.contest(WHOLE, 60.0, SmSet(0, 64)) == pytest.approx(model.spill)


def test_equal_tenants_that_fill_the_device_each_get_their_part_of_it() -> None:
    """Crowding: with odds of 1, two run at a half and three at a third, not at a quarter."""
    model = Interference()
    for _ in range(500):
        model.observe(A, ((B, 1.0),), 2.0)
        model.observe(A, ((C, 1.0),), 2.0)
    assert model.factor(A, ((B, 1.0),)) == pytest.approx(1 / 2, abs=0.02)
    assert model.factor(A, ((B, 1.0), (C, 1.0))) == pytest.approx(1 / 3, abs=0.02)


def test_doubt_speaks_in_favour_of_a_pair_until_it_is_measured() -> None:
    model = Interference()
    assert model.hopeful_odds(A, B) < model.odds(A, B)
    feed(model, 0.5, 300)
    certain = model.odds(A, B) - model.hopeful_odds(A, B)
    for _ in range(1000):
        model.age()
    assert model.odds(A, B) - model.hopeful_odds(A, B) > certain


@given(st.lists(st.tuples(st.sampled_from([B, C]), st.floats(0.0, 1.0)), max_size=4))
def test_company_never_makes_anybody_faster(company: list[tuple[str, float]]) -> None:
    model = Interference()
    feed(model, 0.3, 10)
    assert 0.0 < model.factor(A, ((B if who == B else C, phi) for who, phi in company)) <= 1.0
