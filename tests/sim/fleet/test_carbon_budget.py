"""A carbon budget in a small simulated fleet: held by its price, by waiting, and never silently."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dure.domain.fleet.policy import HOUR_NS, MINUTE_NS, FleetPolicy
from dure.domain.fleet.workloads import Gang, Sla, Workload, WorkloadKind
from dure.sim.fleet.results import FleetResult
from dure.sim.fleet.run import run_world
from dure.sim.fleet.setting import Setting
from tests.sim.fleet.worlds import START_NS, cluster, group, job, setting

DAYS = 6
HOLD = 1.01
"""What a budget may be missed by."""


def made_work(seed: int) -> list[Workload]:
    """Jobs of a few hours at random moments, half of them with a day to spare."""
    rng = np.random.default_rng(seed)
    work = []
    for number in range(DAYS * 24):
        at_s = float(rng.uniform(0, (DAYS - 1.5) * 86400))
        hours = float(rng.uniform(0.5, 6.0))
        patient = bool(rng.random() < 0.5)
        slack_h = 30.0 if patient else 4.0
        due_ns = START_NS + round((at_s / 3600 + hours + slack_h) * HOUR_NS)
        work.append(
            job(
                f"job-{number}",
                at_s,
                hours * 3600.0,
                kind=WorkloadKind.BATCH,
                gang=Gang(checkpoint_s=900.0),
                sla=Sla(deadline_ns=due_ns, penalty_per_hour_late=1.0, penalty_cap=50.0),
                delay_tolerant=patient,
            )
        )
    return work


def made(budget_g: float | None, *, clean: bool = True) -> Setting:
    """Cheap devices on coal and, where asked for, dear ones on water."""
    night_and_day = [900.0 - 300.0 * (8 <= hour % 24 < 18) for hour in range(24 * DAYS)]
    clusters = [cluster("coal", [group(nodes=3)], price=1.0, carbon=night_and_day)]
    if clean:
        clusters.append(cluster("water", [group(nodes=3)], price=4.0, carbon=[40.0] * 24 * DAYS))
    policy = FleetPolicy(carbon_budget_g=budget_g, period_ns=DAYS * 24 * HOUR_NS)
    return replace(
        setting(clusters, made_work(1), hours=24.0 * DAYS),
        policy=policy,
        round_ns=15 * MINUTE_NS,
        validate=False,
    )


@cache
def outcome(share: float | None, *, clean: bool = True) -> tuple[FleetResult, tuple[str, ...]]:
    """A run with this share of the grams that an unlimited one emits; with its warnings."""
    budget_g = None
    if share is not None:
        budget_g = share * outcome(None, clean=clean)[0].kg_co2 * 1000.0
    world, result = run_world(made(budget_g, clean=clean), "dure")
    return result, tuple(world.history.warnings)


@pytest.mark.parametrize("share", [0.95, 0.85, 0.6, 0.3])
def test_a_budget_that_can_be_held_is_held_and_all_work_is_done(share: float) -> None:
    free, _ = outcome(None)
    held, _ = outcome(share)
    assert held.kg_co2 <= HOLD * share * free.kg_co2
    assert held.jobs.ended == free.jobs.ended
    assert held.jobs.on_time_share >= free.jobs.on_time_share - 0.02


def test_a_budget_is_not_hoarded() -> None:
    free, _ = outcome(None)
    held, _ = outcome(0.85)
    assert held.kg_co2 >= 0.65 * 0.85 * free.kg_co2


def test_who_says_when_work_stops_coming_uses_more_of_a_budget_at_less_cost() -> None:
    free, _ = outcome(None)
    blind, _ = outcome(0.85)
    told = made(0.85 * free.kg_co2 * 1000.0)
    policy = replace(told.policy, submissions_ns=round((DAYS - 1.5) * 24) * HOUR_NS)
    _, informed = run_world(replace(told, policy=policy), "dure")
    assert blind.kg_co2 < informed.kg_co2 <= HOLD * 0.85 * free.kg_co2
    assert informed.money.total < blind.money.total
    assert informed.jobs.on_time_share >= blind.jobs.on_time_share


def test_a_budget_that_cannot_be_held_holds_work_back_and_says_so() -> None:
    free, _ = outcome(None, clean=False)
    held, warnings = outcome(0.6, clean=False)
    assert held.kg_co2 <= HOLD * 0.6 * free.kg_co2
    assert held.jobs.unfinished > free.jobs.unfinished
    assert any("held back" in each for each in warnings)


def test_every_gram_of_the_fleet_counts_against_the_budget() -> None:
    world, result = run_world(made(1e12), "dure")
    world.agenda.run_until(world.now_ns)
    counted = world.centre.state.adaptation.pacer.used_g  # type: ignore[attr-defined]
    # Reported by the hour: what the last one emitted is not known yet.
    assert counted == pytest.approx(result.kg_co2 * 1000.0, rel=0.01)
