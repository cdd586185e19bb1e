"""Whom to nominate for what: one at a time, no more than three, again after an eviction."""

from typing import Any

import pytest

from dure.beside.desk import Desk, Ranked
from dure.beside.settings import KueueSettings
from dure.beside.workloads import Sight, Standing, clusters_by_check, read_sight
from dure.kube.resources import ObjectKey

KEY = ObjectKey("team", "one")
ALL = [Ranked("a", True), Ranked("b", True), Ranked("c", True), Ranked("d", True)]
OURS = frozenset({"dure"})


def desk(**settings: Any) -> Desk:
    return Desk(KueueSettings(widen_after="60s", review="15s", patience="10m", **settings))


def sight(standing: Standing = Standing.OPEN, reserved: str = "t1", **more: Any) -> Sight:
    return Sight(KEY, "uid", standing, "dure", reserved_at=reserved, **more)


def nominate(made: Desk, ranking: list[Ranked], now_s: float) -> tuple[str, ...]:
    nominees = made.rank(KEY, ranking, now_s)
    if nominees:
        made.nominated(KEY, nominees, now_s)
    return nominees


def test_the_best_is_nominated_alone_and_the_next_only_after_a_while() -> None:
    made = desk()
    made.see(sight(), 0.0)
    assert made.due(0.0)
    assert nominate(made, ALL, 0.0) == ("a",)
    made.see(sight(nominated=("a",)), 1.0)
    assert not made.due(59.0)
    assert made.due(60.0)
    assert nominate(made, ALL, 60.0) == ("a", "b")
    assert nominate(made, ALL, 120.0) == ("a", "b", "c")
    assert made.next_s() == float("inf"), "three are enough"


def test_all_nominees_at_once_where_the_settings_say_so() -> None:
    made = Desk(KueueSettings(widen_after="0s", nominees=2))
    made.see(sight(), 0.0)
    assert made.rank(KEY, ALL, 0.0) == ("a", "b")


def test_who_finds_no_room_waits_and_is_nominated_when_patience_is_over() -> None:
    made, full = desk(), [Ranked("a", False), Ranked("b", False)]
    made.see(sight(), 0.0)
    assert nominate(made, full, 0.0) == ()
    assert not made.due(14.0)
    assert made.due(15.0)
    assert nominate(made, full, 599.0) == ()
    assert nominate(made, full, 600.0) == ("a",)


def test_a_cluster_without_room_is_passed_over() -> None:
    made = desk()
    made.see(sight(), 0.0)
    assert nominate(made, [Ranked("a", False), Ranked("b", True)], 0.0) == ("b",)


def test_a_new_reservation_is_ranked_anew_whatever_was_nominated_before() -> None:
    made = desk()
    made.see(sight(), 0.0)
    nominate(made, ALL, 0.0)
    made.see(sight(reserved="t2", nominated=("a",)), 5.0)
    assert made.due(5.0)
    assert nominate(made, ALL[1:], 5.0) == ("b",)


def test_hands_off_what_has_a_cluster() -> None:
    made = desk()
    made.see(sight(), 0.0)
    nominate(made, ALL, 0.0)
    made.see(sight(Standing.PLACED, cluster="a"), 1.0)
    assert not made.due(1e9)


def test_a_restarted_dispatcher_keeps_to_what_is_nominated() -> None:
    made = desk()
    made.see(sight(nominated=("b",)), 0.0)
    assert not made.due(1.0)
    assert made.assumed((), 1.0) == [(KEY, "b")]


def test_what_had_its_cluster_before_a_restart_is_not_counted_twice() -> None:
    made = desk()
    made.see(sight(Standing.PLACED, cluster="a"), 100.0)
    assert made.assumed((), 100.0) == []


def test_room_is_assumed_taken_until_the_member_surely_counts_it() -> None:
    made = desk(settle="60s")
    made.see(sight(), 0.0)
    nominate(made, ALL, 0.0)
    assert made.assumed((), 0.0) == [(KEY, "a")]
    assert made.assumed([KEY], 0.0) == []
    made.see(sight(Standing.PLACED, cluster="a"), 10.0)
    assert made.assumed((), 69.0) == [(KEY, "a")]
    assert made.assumed((), 70.0) == []


def test_a_nomination_that_was_taken_away_is_made_anew() -> None:
    made = desk()
    made.see(sight(), 0.0)
    nominate(made, ALL, 0.0)
    made.see(sight(), 5.0)  # an older sight, on its way when the nomination was written
    assert not made.due(6.0)
    made.see(sight(), 30.0)
    assert made.due(30.0)


# --- reading -------------------------------------------------------------------------------


def workload(**status: Any) -> dict[str, Any]:
    plain = {
        "conditions": [
            {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "t1"},
            *status.pop("conditions", ()),
        ],
        "admissionChecks": [{"name": "dure", "state": "Pending"}],
    }
    metadata = {"namespace": "team", "name": "one", "uid": "uid", "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {}, "status": plain | status}


@pytest.mark.parametrize(
    ("status", "standing"),
    [
        ({}, Standing.OPEN),
        ({"clusterName": "a"}, Standing.PLACED),
        ({"admissionChecks": [{"name": "other", "state": "Pending"}]}, Standing.NOT_OURS),
        ({"admissionChecks": [{"name": "dure", "state": "Retry"}]}, Standing.PLACED),
        ({"admissionChecks": [{"name": "dure", "state": "Ready"}]}, Standing.PLACED),
        (
            {
                "admissionChecks": [
                    {"name": "dure", "state": "Pending"},
                    {"name": "other", "state": "Pending"},
                ]
            },
            Standing.NOT_YET,
        ),
        ({"conditions": [{"type": "Finished", "status": "True"}]}, Standing.OVER),
        ({"conditions": [{"type": "Evicted", "status": "True"}]}, Standing.OVER),
        ({"conditions": [{"type": "QuotaReserved", "status": "False"}]}, Standing.NOT_YET),
    ],
)
def test_only_a_pending_workload_with_quota_is_open(
    status: dict[str, Any], standing: Standing
) -> None:
    assert read_sight(workload(**status), OURS).standing is standing


def test_checks_of_multikueue_have_the_clusters_of_their_config() -> None:
    def check(controller: str, config: str) -> dict[str, Any]:
        return {"spec": {"controllerName": controller, "parameters": {"name": config}}}

    checks = {
        ObjectKey("", "dure"): check("kueue.x-k8s.io/multikueue", "all"),
        ObjectKey("", "second"): check("kueue.x-k8s.io/multikueue", "none"),
        ObjectKey("", "other"): check("example.com/other", "all"),
    }
    configs = {ObjectKey("", "all"): {"spec": {"clusters": ["a", "b"]}}}
    assert clusters_by_check(checks, configs, None) == {"dure": ("a", "b"), "second": ()}
    assert clusters_by_check(checks, configs, frozenset({"dure"})) == {"dure": ("a", "b")}
