"""Company found by predicted worth."""

from collections.abc import Callable

import numpy as np
import pytest

from dure.domain.ids import TenantId
from dure.domain.tenant import Tenant
from dure.domain.units import NS_PER_S
from dure.kernel.interference import Interference
from dure.kernel.policies.base import Appraisal, Worth
from dure.kernel.policies.registry import POLICIES
from dure.kernel.squads import SEARCH_EVERY_NS, Company, Evaluation, SquadSearch
from dure.kernel.track import Track
from dure.sim.kernel.benches.made import MadeTenants
from tests.kernel.factories import H200, A, B, C

Slowdown = Callable[[TenantId, TenantId], float]


def made_evaluation(policy: str, count: int, seed: int) -> Evaluation:
    """What a machine judges by after some made ticks."""
    made = MadeTenants(np.random.default_rng([seed, count]), H200, count)
    machine = made.machine(policy)
    for event in made.ticks(20):
        machine.handle(event)
    tracks = tuple(machine.tracks.values())
    return Evaluation(H200, machine.interference, tracks, machine.policy.appraise(tracks, NS_PER_S))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(5))
def test_the_bounded_search_finds_nearly_all_of_what_trying_every_set_finds(
    policy: str, seed: int
) -> None:
    evaluation = made_evaluation(policy, 5, seed)
    nothing_kept = np.zeros((5, 5), np.bool_)
    every = evaluation.best(nothing_kept, exhaustive=True)
    bounded = evaluation.best(nothing_kept, exhaustive=False)
    assert (bounded.scores >= 0.9 * every.scores).all()
    assert (bounded.scores <= every.scores * (1 + 1e-9)).all()


@pytest.mark.parametrize("exhaustive", [False, True])
def test_no_lead_is_in_its_own_company(exhaustive: bool) -> None:
    found = made_evaluation("hybrid", 5, 1).best(np.zeros((5, 5), np.bool_), exhaustive=exhaustive)
    assert not found.sets.diagonal().any()


def busy(*names: TenantId) -> dict[TenantId, Track]:
    tracks = {name: Track.start(Tenant(name), H200, 0) for name in names}
    for track in tracks.values():
        track.busy = True
    return tracks


def certain(names: tuple[TenantId, ...], slowdown: Slowdown) -> Interference:
    """A model that has seen every pair often: the first slowed by the second."""
    model = Interference()
    for _ in range(300):
        for one in names:
            for other in names:
                if one != other:
                    model.observe(one, ((other, 1.0),), slowdown(one, other))
    return model


def judged(*names: TenantId, **values: float) -> Appraisal:
    worth = {name: Worth(values.get(name, 1.0)) for name in names}
    return Appraisal(order=names, worth=worth)


def company_of(slowdown: Slowdown, names: tuple[TenantId, ...]) -> dict[TenantId, Company]:
    search = SquadSearch(H200, certain(names, slowdown))
    return search.companies(busy(*names), judged(*names), 0)


def test_who_does_not_disturb_is_everybodys_company() -> None:
    found = company_of(lambda one, other: 1.0, (A, B, C))
    assert all(set(found[name].members) == {A, B, C} - {name} for name in (A, B, C))
    assert all(found[name].member_sms is None for name in (A, B, C))


def test_who_ruins_the_others_is_in_nobodys_company() -> None:
    found = company_of(lambda one, other: 100.0 if C in (one, other) else 1.0, (A, B, C))
    assert found[A].members == (B,)
    assert found[B].members == (A,)
    assert found[C].members == ()


def test_kernels_that_cannot_overlap_have_no_company() -> None:
    names = (A, B)
    search = SquadSearch(H200, certain(names, lambda one, other: 1.0), side_by_side=False)
    assert search.companies(busy(*names), judged(*names), 0) == {A: Company(), B: Company()}


def test_who_has_no_work_is_in_nobodys_company() -> None:
    tracks = busy(A, B, C)
    tracks[C].busy, tracks[C].demand = False, 0.0
    search = SquadSearch(H200, certain((A, B, C), lambda one, other: 1.0))
    found = search.companies(tracks, judged(A, B, C), 0)
    assert (found[A].members, found[B].members, found[C].members) == ((B,), (A,), ())


def test_what_is_learned_takes_effect_with_the_next_search() -> None:
    names = (A, B)
    model = certain(names, lambda one, other: 1.0)
    search = SquadSearch(H200, model)
    tracks, appraisal = busy(*names), judged(*names)
    assert search.companies(tracks, appraisal, 0)[A].members == (B,)
    for _ in range(3000):
        model.observe(A, ((B, 1.0),), 150.0)
        model.observe(B, ((A, 1.0),), 150.0)
        model.age()
    assert search.companies(tracks, appraisal, SEARCH_EVERY_NS - 1)[A].members == (B,)
    assert search.companies(tracks, appraisal, SEARCH_EVERY_NS)[A].members == ()


def test_a_newcomer_is_judged_at_once() -> None:
    search = SquadSearch(H200, certain((A, B, C), lambda one, other: 1.0))
    search.companies(busy(A, B), judged(A, B), 0)
    assert set(search.companies(busy(A, B, C), judged(A, B, C), 1)[A].members) == {B, C}


def test_what_a_search_begun_anew_finds_leaves_the_first_alone() -> None:
    search = SquadSearch(H200, certain((A, B), lambda one, other: 1.0))
    before = search.companies(busy(A, B), judged(A, B), 0)
    search.anew().companies(busy(A), judged(A), 1)
    assert search.companies(busy(A, B), judged(A, B), 2) is before


def test_left_free_everybody_is_beside_everybody_on_the_whole_device() -> None:
    free = SquadSearch(H200, Interference()).everybody_free(busy(A, B, C))
    assert free == {A: Company((B, C)), B: Company((A, C)), C: Company((A, B))}
