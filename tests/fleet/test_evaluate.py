"""A question of what would be decided is answered as a round decides, and leaves nothing behind."""

import json
import random

import pytest

from dure.domain.fleet.events import RoundDue, TenantSet
from dure.domain.fleet.tenancy import FleetTenant, VNodePool
from dure.domain.fleet.workloads import Workload
from dure.domain.ids import ClusterId, PoolId, TenantId
from dure.fleet.evaluate import Assumed, evaluate
from dure.fleet.global_machine import GlobalMachine
from tests.fleet.factories import cluster, group, job, service
from tests.fleet.machines import machine, orders, submit


def three() -> GlobalMachine:
    return machine(
        cluster("cheap", rent=1.0, groups=(group(nodes=3),)),
        cluster("middle", rent=1.5, groups=(group(nodes=3),)),
        cluster("dear", rent=4.0, groups=(group(nodes=8),)),
    )


def some_jobs(seed: int, count: int = 50) -> list[Workload]:
    chance = random.Random(seed)
    return [
        job(
            f"job-{number:03d}",
            hours=chance.choice((0.5, 2.0, 8.0)),
            devices=chance.choice((1, 1, 2, 4)),
            priority=chance.choice((0, 0, 1)),
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_fifty_jobs_go_where_a_round_would_send_them(seed: int) -> None:
    jobs = some_jobs(seed)
    verdicts = evaluate(three().state, jobs)
    placing = three()
    submit(placing, *jobs)
    placed = orders(placing.handle(RoundDue(0)))
    assert {each.workload: each.choice for each in verdicts if each.choice} == {
        name: order.site for name, order in placed.items()
    }
    assert len(placed) > 20


def test_a_question_leaves_the_books_as_they_were() -> None:
    asked = three()
    submit(asked, job("there"))
    asked.handle(RoundDue(0))
    before = json.dumps(asked.snapshot(), sort_keys=True)
    evaluate(
        asked.state,
        [*some_jobs(1), service("web")],
        [Assumed(job("assumed", devices=4), ClusterId("cheap"))],
    )
    asked.validate()
    assert json.dumps(asked.snapshot(), sort_keys=True) == before


def test_what_is_assumed_takes_its_room() -> None:
    asked = machine(cluster("cheap", rent=1.0, groups=(group(nodes=1),)), cluster("dear", rent=4.0))
    [alone] = evaluate(asked.state, [job("late", devices=8)])
    [beside] = evaluate(
        asked.state, [job("late", devices=8)], [Assumed(job("early"), ClusterId("cheap"))]
    )
    assert alone.choice is not None
    assert beside.choice is not None
    assert (alone.choice.cluster, beside.choice.cluster) == ("cheap", "dear")
    rooms = {option.site.cluster: option.has_room for option in beside.options}
    assert rooms == {"dear": True, "cheap": False}


def test_options_are_ranked_and_say_what_they_cost() -> None:
    [verdict] = evaluate(three().state, [job("one")])
    assert [each.site.cluster for each in verdict.options] == ["cheap", "middle", "dear"]
    totals = [each.explanation.total for each in verdict.options]
    assert totals == sorted(totals)
    assert all(each.has_room and each.explanation.g_co2 > 0 for each in verdict.options)


def test_a_cluster_that_could_never_take_it_says_why() -> None:
    asked = machine(
        cluster("big"), cluster("small", groups=(group(profile="t4", devices=1, nodes=1),))
    )
    [verdict] = evaluate(asked.state, [job("wide", devices=8)])
    assert [each.site.cluster for each in verdict.options] == ["big"]
    [(name, why)] = verdict.refusals
    assert name == "small"
    assert "it asks for 8" in why


def test_a_job_that_finds_no_room_is_told_what_it_would_wait_for() -> None:
    asked = machine(cluster("only", groups=(group(nodes=1),)))
    [verdict] = evaluate(
        asked.state,
        [job("late", devices=8)],
        [Assumed(job("early", devices=8), ClusterId("only"))],
    )
    assert verdict.choice is None
    assert "room" in verdict.why
    assert [each.has_room for each in verdict.options] == [False]


def test_a_service_is_ranked_too() -> None:
    [verdict] = evaluate(three().state, [service("web")])
    assert verdict.choice is not None
    assert verdict.options[0].site == verdict.choice
    assert len(verdict.options) == 3


def test_without_clusters_everything_would_wait() -> None:
    [one, web] = evaluate(machine().state, [job("one"), service("web")])
    assert one.choice is None
    assert web.choice is None
    assert "joined" in one.why


def test_pools_lend_no_more_to_questions_than_to_jobs() -> None:
    bob = TenantId("bob")
    pool = VNodePool(PoolId("bobs"), bob, "a100", guaranteed=8, lendable=3)

    def lending() -> GlobalMachine:
        made = machine(cluster("east", groups=(group(nodes=1),)))
        made.handle(TenantSet(0, FleetTenant(TenantId("ann")), ()))
        made.handle(TenantSet(0, FleetTenant(bob), (pool,)))
        made.handle(RoundDue(0))
        return made

    jobs = [job(f"ann-{n}") for n in range(6)]
    asked = lending()
    before = json.dumps(asked.snapshot(), sort_keys=True)
    verdicts = evaluate(asked.state, jobs)
    assert json.dumps(asked.snapshot(), sort_keys=True) == before
    placing = lending()
    submit(placing, *jobs)
    placed = orders(placing.handle(RoundDue(0)))
    assert len(placed) == 3
    assert {each.workload for each in verdicts if each.choice} == set(placed)
    # What a pool kept for its owner is not lent because somebody asked.
    assert [each.choice for each in evaluate(asked.state, jobs[:3])].count(None) == 0


def test_a_tenant_without_a_pool_is_told_of_pools_only_where_these_keep_it_away() -> None:
    bob = TenantId("bob")

    def told(lendable: int, guaranteed: int = 8, used: int = 8) -> str:
        made = machine(cluster("only", groups=(group(nodes=1),)))
        pool = VNodePool(PoolId("bobs"), bob, "a100", guaranteed=guaranteed, lendable=lendable)
        made.handle(TenantSet(0, FleetTenant(bob), (pool,)))
        made.handle(RoundDue(0))
        mine = [job(f"bob-{n}", tenant=bob, pool=PoolId("bobs")) for n in range(used)]
        submit(made, *mine)
        assert len(orders(made.handle(RoundDue(0)))) == used
        [verdict] = evaluate(made.state, [job("anns")])
        return verdict.why

    kept = "the devices that could run it belong to pools it may not use"
    full = "no site it may use has room for it now"
    assert told(lendable=0) == kept
    assert told(lendable=2) == full
    assert told(lendable=0, guaranteed=4) == full
    assert told(lendable=2, used=0) == ""
