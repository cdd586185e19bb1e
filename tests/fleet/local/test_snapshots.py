"""A snapshot is plain data, and a machine made from it goes on as the original would."""

import json
from typing import Any

import pytest

from dure.domain.errors import InputError
from dure.domain.fleet.events import AllotmentsSet, NodeLost, PolicySet, RoundDue, TenantSet
from dure.domain.fleet.policy import HOUR_NS, FleetPolicy
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.tenancy import Allotment, FleetTenant, VNodePool
from dure.domain.ids import PoolId, TenantId
from dure.fleet.local.plain import from_plain, to_plain
from dure.fleet.local.settings import LocalSettings
from dure.fleet.local_machine import LocalMachine
from tests.fleet.local.factories import (
    HERE,
    Rig,
    batch,
    cluster,
    group,
    order,
    rig,
    serving,
    training,
)


def busy() -> Rig:
    """A cluster in the middle of everything."""
    it = rig(group(count=3), group("mig", 1, 2, ShareMode.MIG))
    pool = VNodePool(PoolId("p"), TenantId("t"), "a100")
    it.tell(TenantSet(0, FleetTenant(TenantId("t"), priority=1), (pool,)))
    it.tell(AllotmentsSet(0, (Allotment(PoolId("p"), HERE, 2, 1, 1, 9 * HOUR_NS),)))
    it.tell(PolicySet(0, FleetPolicy()))
    it.give(order(training("grow", 2, most_workers=4)), order(training("wide", 4)))
    it.give(order(serving("s"), group="mig"), order(batch("b"), group="mig"))
    it.give(order(training("blocked", 9)), order(training("later"), start_ns=3 * HOUR_NS))
    it.warm_all()
    it.load(("s", 30.0, 5.0, 480.0))
    it.rounds(70)
    return it


def test_a_snapshot_survives_json_and_saves_the_same_again() -> None:
    it = busy()
    state = json.loads(json.dumps(it.machine.snapshot()))
    twin = LocalMachine.restore(it.settings, state)
    assert twin.snapshot() == it.machine.snapshot() == state


def test_a_restored_machine_answers_as_the_original() -> None:
    it = busy()
    twin = LocalMachine.restore(it.settings, it.machine.snapshot())
    since = len(it.events), len(it.log)
    it.end("wide")
    it.load(("s", 80.0, 50.0, 900.0))
    it.tell(NodeLost(it.now_ns, 0))
    it.checkpoint("grow")
    it.rounds(200)
    answers = [each for event in it.events[since[0] :] for each in twin.handle(event)]
    assert answers == it.log[since[1] :]
    assert len(answers) > 10


def test_a_snapshot_of_another_cluster_or_version_is_refused() -> None:
    state = busy().machine.snapshot()
    for change in ({"version": 0}, {"cluster": "elsewhere"}):
        with pytest.raises(InputError, match="use one of version 4 of 'here'"):
            LocalMachine.restore(LocalSettings(cluster()), {**state, **change})


@pytest.mark.parametrize(
    "value", [None, 3, -0.5, "x", [1, [2]], (1, ("a",)), {"a": {1, 2}}, frozenset({"b"})]
)
def test_values_come_back_as_they_went(value: Any) -> None:
    assert from_plain(json.loads(json.dumps(to_plain(value)))) == value


def test_things_that_are_nothing_of_the_fleet_are_refused() -> None:
    with pytest.raises(InputError, match="no plain form"):
        to_plain(object())
    with pytest.raises(InputError, match="nothing of the fleet"):
        from_plain({"Path": {}})


def test_a_machine_that_heard_nothing_can_be_saved() -> None:
    settings = LocalSettings(cluster())
    twin = LocalMachine.restore(settings, LocalMachine(settings).snapshot())
    assert twin.handle(RoundDue(5)) == LocalMachine(settings).handle(RoundDue(5))
