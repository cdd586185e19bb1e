"""Defaults that others count on."""

from dure.domain.containers import PauseWay
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.node.settings import NodeSettings


def test_bounds_on_waiting_are_what_the_documents_say() -> None:
    settings = NodeSettings()
    assert settings.strategy == "dure"
    assert settings.ways == (PauseWay.DOCKER,)
    assert settings.max_pause_ns < 480 * NS_PER_S, "NCCL's heartbeat aborts then"
    assert settings.max_freeze_checked_ns < 30 * NS_PER_S, "common probes give up then"
    assert settings.idle_bound_ns == 2 * NS_PER_S
    assert settings.fast_poll_ns == 10 * NS_PER_MS


def test_a_burst_of_an_8192_product_is_worth_a_lock_but_not_a_freeze() -> None:
    settings = NodeSettings()
    burst_ns = 330 * NS_PER_MS
    for way, pays in ((PauseWay.CUDA_LOCK, True), (PauseWay.DOCKER, False)):
        assert (burst_ns >= settings.pays_times * settings.handover_ns[way]) is pays
