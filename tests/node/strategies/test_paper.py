"""The paper's Algorithm 2, line by line, and its variant that waits for NVML."""

import itertools

import pytest

from dure.domain.containers import PauseWay
from dure.domain.units import GIB
from dure.node.settings import NodeSettings
from dure.node.strategies.registry import STRATEGIES
from tests.node.factories import BOTH, MS, TOTAL, Host

VARIANTS = ["paper", "paper-window"]


def all_at_once(host: Host, count: int) -> list[str]:
    names = [host.start(f"c{number}") for number in range(count)]
    for name in names:
        host.work(name, 4.0)
        host.now_ns += 1
    host.look()
    return names


def test_both_variants_are_there() -> None:
    assert set(VARIANTS) < set(STRATEGIES)


@pytest.mark.parametrize("strategy", VARIANTS)
def test_the_first_goes_and_the_others_are_paused_when_their_memory_rises(strategy: str) -> None:
    host = Host(NodeSettings(strategy=strategy))
    all_at_once(host, 4)
    assert host.free == {"c0"}
    assert {pause.way for pause in host.paused.values()} == {PauseWay.DOCKER}


def test_it_freezes_even_where_the_lock_is_there() -> None:
    host = Host(NodeSettings(strategy="paper", ways=BOTH))
    all_at_once(host, 2)
    assert host.paused["c1"].way is PauseWay.DOCKER


@pytest.mark.parametrize(("strategy", "rounds_ms"), [("paper", 60), ("paper-window", 1000)])
def test_one_more_is_let_in_each_round_while_the_gpu_is_not_full(
    strategy: str, rounds_ms: int
) -> None:
    host = Host(NodeSettings(strategy=strategy))
    all_at_once(host, 4)
    host.work("c0", 4.0, 0.4)
    host.run((rounds_ms - 10) * MS)
    assert host.free == {"c0"}
    host.run(20 * MS)
    assert host.free == {"c0", "c1"}
    host.run(rounds_ms * MS)
    assert host.free == {"c0", "c1", "c2"}


@pytest.mark.parametrize("strategy", VARIANTS)
def test_at_full_use_newcomers_are_paused_and_nobody_is_let_in(strategy: str) -> None:
    host = Host(NodeSettings(strategy=strategy))
    all_at_once(host, 1)
    host.work("c0", 4.0, 1.0)
    host.run(50 * MS)
    host.start("new")
    host.work("new", 4.0)
    host.run(1500 * MS)
    assert host.free == {"c0"}


@pytest.mark.parametrize("strategy", VARIANTS)
def test_when_memory_is_0_the_next_goes_in_order_of_start(strategy: str) -> None:
    host = Host(NodeSettings(strategy=strategy))
    names = all_at_once(host, 3)
    host.utilization = 1.0  # the samples lag
    for name, following in itertools.pairwise(names):
        host.run(200 * MS)
        assert name in host.free
        assert following in host.paused
        host.work(name, 0.0)
        host.look()
        assert following in host.free


def test_above_95_percent_of_memory_the_last_one_is_paused() -> None:
    host = Host(NodeSettings(strategy="paper"))
    all_at_once(host, 3)
    host.work("c0", 4.0, 0.4)
    host.run(70 * MS)
    assert host.free == {"c0", "c1"}
    host.used_bytes = int(0.96 * TOTAL)
    host.run(120 * MS)
    assert host.free == {"c0"}
    host.used_bytes = 8 * GIB
    host.run(120 * MS)
    assert "c1" in host.free


def test_newcomers_below_full_use_run_until_it_is_full() -> None:
    host = Host(NodeSettings(strategy="paper-window"))
    all_at_once(host, 1)
    host.work("c0", 4.0, 0.5)
    host.run(50 * MS)
    host.start("new")
    host.work("new", 4.0, 0.1)
    host.run(100 * MS)
    assert "new" in host.free
    host.work("c0", 4.0, 1.0)
    host.look()
    assert "new" in host.paused
