"""Which attempt of a service gets how many requests."""

from dataclasses import replace
from typing import Any

import pytest

from dure.domain.fleet.decisions import Placement
from dure.domain.fleet.lifecycle import AttemptState
from dure.domain.fleet.protocol.desired import AttemptKey
from dure.domain.fleet.protocol.reports import AttemptStatus, InstanceStatus, RunPhase
from dure.domain.ids import WorkloadId
from dure.domain.units import NS_PER_S
from dure.server.handover import Pace, shares
from dure.server.records import REPLACES
from dure.server.rest.routes.endpoints import endpoints_of
from dure.stores.rows import Attempt
from dure.wire.plain import pack

PACE = Pace(shift_s=10.0, drain_s=5.0)
RAN_NS = 1_000 * NS_PER_S


def attempt(number: int, state: AttemptState, *ready: bool, **more: Any) -> Attempt:
    instances = tuple(
        InstanceStatus(index, "n", "i", Placement(0, (0,)), each, f"h{number}:{index}")
        for index, each in enumerate(ready)
    )
    key = AttemptKey(WorkloadId("chat"), number)
    made = Attempt("chat", number, f"c{number}", 1, 1, False, state=state, running_ns=RAN_NS)
    return replace(
        made, status=pack(AttemptStatus(key, RunPhase.RUNNING, instances=instances)), **more
    )


OLD = attempt(1, AttemptState.RUNNING, True, True)
NEW = attempt(2, AttemptState.RUNNING, True, spec={REPLACES: 1})


def parts(*attempts: Attempt, after_s: float = 0.0) -> dict[int, float]:
    return shares(attempts, RAN_NS + round(after_s * NS_PER_S), PACE)


def test_until_one_attempt_is_whole_any_instance_serves() -> None:
    half = attempt(1, AttemptState.COMMITTED, True, False)
    assert parts(half) == {1: 1.0}
    assert parts(OLD, attempt(2, AttemptState.COMMITTED, True, spec={REPLACES: 1})) == {1: 2.0}


def test_parts_of_a_service_in_several_clusters_serve_as_many_as_they_have_instances() -> None:
    assert parts(OLD, attempt(2, AttemptState.RUNNING, True)) == {1: 2.0, 2: 1.0}


@pytest.mark.parametrize(("after_s", "new"), [(0, 0.1), (4, 0.1), (5, 0.5), (9, 0.5), (10, 1.0)])
def test_requests_pass_in_steps(after_s: float, new: float) -> None:
    assert parts(OLD, NEW, after_s=after_s) == pytest.approx({1: 2 * (1 - new), 2: 2 * new})


def test_the_old_place_gets_everything_while_the_new_one_does_not_answer() -> None:
    limping = attempt(2, AttemptState.RUNNING, True, False, spec={REPLACES: 1})
    assert parts(OLD, limping, after_s=12) == {1: 2.0, 2: 0.0}
    assert parts(OLD) == {1: 2.0}


def test_all_requests_have_passed_after_the_last_step() -> None:
    assert not PACE.shifted(round(9.9 * NS_PER_S))
    assert PACE.shifted(10 * NS_PER_S)


def test_a_new_place_gets_requests_once_it_has_as_many_instances_as_were_ordered() -> None:
    few = attempt(2, AttemptState.RUNNING, True, spec={REPLACES: 1, "instances": 2})
    assert parts(OLD, few, after_s=12) == {1: 2.0, 2: 0.0}


def test_weights_are_spread_over_instances_and_who_leaves_gets_none() -> None:
    leaving = attempt(3, AttemptState.RELEASING, True)
    found = endpoints_of((OLD, NEW, leaving), parts(OLD, NEW, leaving, after_s=6))
    assert {each.address: each.weight for each in found} == {
        "h1:0": 500,
        "h1:1": 500,
        "h2:0": 1000,
        "h3:0": 0,
    }
