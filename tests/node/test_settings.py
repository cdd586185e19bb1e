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


def test_a_burst_of_an_8192_product_is_worth_a_lock_and_a_freeze() -> None:
    settings = NodeSettings()
    burst_ns = 240 * NS_PER_MS
    locked_ns, frozen_ns = (
        settings.handover_ns[way] for way in (PauseWay.CUDA_LOCK, PauseWay.DOCKER)
    )
    assert burst_ns >= settings.pays_times * locked_ns
    assert burst_ns >= 1.5 * settings.freeze_pays_times * frozen_ns
