"""The contextual bandit: learns which arm pays where, tries what it does not know, stays finite."""

import numpy as np

from dure.telemetry.bandit import LinearBandit


def pays(arm: int, context: tuple[float, float]) -> float:
    """Arm 0 is best where the second feature is low, arm 2 where it is high."""
    return (0.5 - context[1]) * (1 - arm)


def trained(rounds: int, seed: int = 1) -> LinearBandit:
    bandit, rng = LinearBandit(3, 2, doubt=1.0), np.random.default_rng(seed)
    for _ in range(rounds):
        context = (1.0, float(rng.random()))
        for arm in bandit.rank(context, 1):
            bandit.update(context, arm, pays(arm, context) + float(rng.normal(0.0, 0.02)))
    return bandit


def test_the_arm_that_pays_best_depends_on_the_context() -> None:
    bandit = trained(300)
    assert bandit.rank((1.0, 0.05), 1) == (0,)
    assert bandit.rank((1.0, 0.95), 1) == (2,)


def test_every_arm_is_tried_before_one_is_preferred() -> None:
    bandit, context, tried = LinearBandit(4, 1), (1.0,), set()
    for _ in range(4):
        (arm,) = bandit.rank(context, 1)
        tried.add(arm)
        bandit.update(context, arm, 0.0)
    assert tried == {0, 1, 2, 3}


def test_what_was_learned_goes_on_in_another_and_another_shape_is_refused() -> None:
    known, fresh = trained(100), LinearBandit(3, 2)
    assert fresh.restore(known.state())
    context = (1.0, 0.3)
    assert np.allclose(fresh.expected(context), known.expected(context))
    assert not LinearBandit(2, 2).restore(known.state())
    assert not fresh.restore({})


def test_what_is_no_number_teaches_nothing() -> None:
    bandit = LinearBandit(2, 2)
    bandit.update((1.0, 0.0), 0, float("nan"))
    bandit.update((1.0, float("inf")), 0, 1.0)
    assert np.isfinite(bandit.expected((1.0, 1.0))).all()
    assert (bandit.expected((1.0, 1.0)) == 0.0).all()
