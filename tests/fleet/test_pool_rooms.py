"""What pools leave to whom, kept up to date place by place."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dure.fleet.pool_rooms import Tables, View, look

PLACES, POOLS, TENANTS = 4, 3, 2
FOUND = ("idle", "over", "spare", "loans", "lent_idle", "loose_over", "commons")


def tables(rng: np.random.Generator) -> Tables:
    """Two tenants with three pools, one of them dedicated."""
    made = Tables()
    for _ in range(PLACES):
        made.add_place()
    for _ in range(TENANTS):
        made.add_tenant()
    for number in range(POOLS):
        pool = made.add_pool(number % TENANTS)
        made.unit[pool] = float(rng.choice([1.0, 0.5]))
        made.dedicated[pool] = number == POOLS - 1
    made.capacity[:] = rng.integers(8, 32, PLACES)
    made.units[:] = rng.integers(0, 8, (POOLS, PLACES))
    made.lent[:] = rng.integers(0, made.units + 1)
    use(made, rng, range(PLACES))
    return made


def use(made: Tables, rng: np.random.Generator, places: range) -> None:
    for place in places:
        made.pool_use[:, place] = rng.integers(0, 10, POOLS) / 2.0
        made.loose_use[:, place] = rng.integers(0, 10, TENANTS) / 2.0


def found(view: View) -> list[list[float]]:
    return [np.asarray(getattr(view, name)).ravel().tolist() for name in FOUND]


@given(st.integers(0, 10_000), st.integers(0, PLACES))
def test_a_view_put_right_where_use_changed_is_as_if_found_anew(seed: int, changed: int) -> None:
    rng = np.random.default_rng(seed)
    made = tables(rng)
    held = np.ceil((made.units * np.array(made.unit)[:, None]).sum(axis=0))
    view = look(made, held)
    use(made, rng, range(changed))
    for place in range(changed):
        view.look_again(held, place)
    anew = look(made, held)
    assert found(view) == found(anew)
    for place in range(PLACES):
        for tenant in range(TENANTS):
            assert view.loose_room(tenant, place) == anew.loose_rooms(tenant)[place]
