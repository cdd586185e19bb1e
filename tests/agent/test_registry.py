from pathlib import Path

import pytest

from dure.agent import state
from dure.agent.registry import ForbiddenError, Holder, Registry
from dure.client.schema import LatencyPromise, TenantSpec

TRAIN = TenantSpec(command=("python", "train.py"))


def _declared(registry: Registry, name: str, uid: int, spec: TenantSpec) -> None:
    registry.tenants[name] = registry.declare(name, uid, spec, 0)


def test_history_of_a_command_predicts_its_next_run() -> None:
    registry = Registry()
    _declared(registry, "a", 5, TRAIN)
    assert registry.learn_run(registry.tenants["a"], 60_000_000_000)
    _declared(registry, "b", 5, TRAIN)
    assert registry.tenant(registry.tenants["b"], 0, 0).expected_ns == 60_000_000_000
    assert registry.tenants["b"].expected_from_history
    _declared(registry, "other-user", 6, TRAIN)
    assert registry.tenant(registry.tenants["other-user"], 0, 0).expected_ns is None
    stated = TRAIN.model_copy(update={"expected_ns": 7})
    _declared(registry, "stated", 5, stated)
    assert registry.tenant(registry.tenants["stated"], 0, 0).expected_ns == 7
    server = TRAIN.model_copy(update={"latency_slo": LatencyPromise(target_ns=10**7)})
    _declared(registry, "server", 5, server)
    assert registry.tenant(registry.tenants["server"], 0, 0).expected_ns is None


def test_a_run_without_work_to_speak_of_teaches_nothing() -> None:
    registry = Registry()
    _declared(registry, "a", 5, TRAIN)
    assert not registry.learn_run(registry.tenants["a"], 1000)
    assert registry.history == {}


def test_only_its_owner_and_root_may_change_a_tenant() -> None:
    registry = Registry()
    _declared(registry, "a", 5, TRAIN)
    with pytest.raises(ForbiddenError):
        registry.find_for("a", 6)
    with pytest.raises(ForbiddenError):
        registry.declare("a", 6, TRAIN, 0)
    assert registry.find_for("a", 0).uid == 5
    assert registry.declare("a", 0, TRAIN, 0).uid == 5


def test_a_deadline_keeps_its_moment_over_a_restart(tmp_path: Path) -> None:
    registry = Registry()
    spec = TRAIN.model_copy(update={"deadline_in_ns": 50})
    registry.tenants["a"] = registry.declare("a", 5, spec, unix_ns=1000)
    registry.tenants["a"].holders.add(Holder(7, 8))
    registry.learn_run(registry.tenants["a"], 2_000_000_000)
    file = tmp_path / "state.json"
    policies = {"GPU-x": state.PolicyState(policy="jct", parameters={"starvation_s": 2.0})}
    state.save(file, registry, policies)
    again, kept = state.load(file)
    assert kept == policies
    assert again.history == registry.history
    assert again.tenants["a"].holders == {Holder(7, 8)}
    tenant = again.tenant(again.tenants["a"], monotonic_ns=500, unix_ns=1020)
    assert tenant.deadline_ns == 530


def test_an_unreadable_state_is_put_aside_and_the_agent_starts(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text("{ half a fi")
    registry, policies = state.load(file)
    assert (registry.tenants, policies) == ({}, {})
    assert (tmp_path / "state.json.unreadable").read_text() == "{ half a fi"
