"""The strategy `dure`: who queues, and who runs beside those who do."""

from dataclasses import replace

import pytest

from dure.domain.units import NS_PER_S
from dure.node.settings import NodeSettings
from tests.node.factories import BOTH, MS, Host, container
from tests.node.strategies.hosts import DOCKER, LOCK, compute, host_with, known


def test_short_bursts_are_not_worth_a_freeze_but_worth_a_lock() -> None:
    for ways, waits in ((DOCKER, set()), (LOCK, {"b", "c"})):
        history = (known("job", 0.3),)
        host = Host(NodeSettings(ways=ways, history=history, freeze_pays_times=6.0))
        for name in ("a", "b", "c"):
            compute(host, name)
        assert set(host.paused) == waits


def test_long_bursts_wait_by_either_way() -> None:
    for ways in (DOCKER, LOCK, BOTH):
        host = host_with(known("job", 1.2), ways=ways)
        for name in ("a", "b", "c"):
            compute(host, name)
        assert set(host.paused) == {"b", "c"}


def test_a_label_states_the_length_of_bursts_beforehand() -> None:
    host = host_with()
    compute(host, "a")
    host.start(container("b", expect="10ms"))
    host.work("b", share=0.3)
    host.run(500 * MS)
    assert not host.paused


def test_who_uses_part_of_the_gpu_runs_beside_a_long_burst() -> None:
    host = host_with(known("server", 60.0, share=0.2))
    compute(host, "trainer")
    compute(host, "server", image="server")
    compute(host, "second")
    assert set(host.paused) == {"second"}
    (shown,) = [c for c in host.machine.view(host.now_ns).containers if c.name == "server"]
    assert "20%" in shown.reason


def test_an_unknown_container_that_publishes_ports_and_uses_little_is_a_service_at_once() -> None:
    host = host_with(known("job", 3.0), ways=LOCK)
    compute(host, "trainer")
    compute(host, "second")
    host.start(replace(container("web"), publishes=True))
    host.work("web", share=0.0)
    host.run(300 * MS)
    host.work("web", share=0.15)
    host.run(2 * NS_PER_S)
    assert ("pause", "web") not in {(what, name) for _, what, name in host.story}
    assert "second" in host.paused
    (shown,) = [c for c in host.machine.view(host.now_ns).containers if c.name == "web"]
    assert "publishes ports" in shown.reason


def test_one_that_publishes_ports_and_computes_all_the_time_queues_and_is_held_once() -> None:
    host = host_with(known("job", 30.0), ways=LOCK)
    compute(host, "trainer")
    host.start(replace(container("notebook"), publishes=True))
    host.work("notebook", share=0.0)
    host.run(300 * MS)
    assert not host.paused, "it may be a service"
    host.work("notebook", share=0.5)
    host.run(100 * MS)
    host.work("notebook", share=0.0)  # nothing runs while it is held
    host.run(3 * NS_PER_S)
    assert [(what, name) for _, what, name in host.story] == [("pause", "notebook")]


def test_a_label_counts_more_than_published_ports() -> None:
    host = host_with(known("job", 3.0), ways=LOCK)
    compute(host, "trainer")
    host.start(replace(container("batch", expect="5s"), publishes=True))
    host.work("batch", share=0.0)
    host.run(700 * MS)
    assert set(host.paused) == {"batch"}


def test_a_service_learned_on_the_spot_is_no_longer_held() -> None:
    host = host_with()
    host.start("server")
    host.work("server", share=0.2)
    host.run(2500 * MS)
    host.start("trainer")
    host.work("trainer", share=0.8)
    host.run(2 * NS_PER_S)
    host.start("second")
    host.work("second", share=0.0)
    host.run(1 * NS_PER_S)
    assert set(host.paused) == {"second"}


@pytest.mark.parametrize(("service", "waits"), [(False, set()), (True, {"b"})])
def test_a_service_that_may_not_be_touched_is_spared_a_crowd(
    service: bool, waits: set[str]
) -> None:
    history = (known("server", 60.0, share=0.2), known("job", 0.3))
    host = Host(NodeSettings(history=history, freeze_pays_times=6.0))
    if service:
        host.start(container("server", image="server", exempt="true"))
        host.work("server", share=0.2)
        host.run(60 * MS)
    compute(host, "a")
    compute(host, "b")
    assert set(host.paused) == waits
