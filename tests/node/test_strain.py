"""Risks foreseen for a GPU change who of its containers waits, for a bounded time, and are told."""

from dure.domain.containers import WorkState
from dure.domain.ids import ContainerId
from dure.domain.node_events import GpuRiskCleared, GpuRiskRaised
from dure.domain.node_instructions import Tell
from dure.domain.risks import Risk, RiskKind
from dure.node.strain import HEEDED_NS, Strains
from tests.node.factories import GPU, MS, OTHER_GPU, Host, container
from tests.node.strategies.hosts import LOCK, compute, host_with, known

THROTTLED = Risk("clock", RiskKind.THROTTLE, 0.9, "its clock fell to 900 MHz")
FULL = Risk("memory", RiskKind.MEMORY, 0.9, "full in about 60 s")


def raised(host: Host, risk: Risk) -> list[str]:
    said = host.send(GpuRiskRaised(host.now_ns, GPU, risk))
    return [each.text for each in said if isinstance(each, Tell)]


def cleared(host: Host, risk: Risk) -> list[str]:
    said = host.send(GpuRiskCleared(host.now_ns, GPU, risk.series, risk.kind))
    return [each.text for each in said if isinstance(each, Tell)]


def test_a_strain_is_told_with_its_reason_once_and_when_it_is_over() -> None:
    host = host_with(ways=LOCK)
    (said,) = raised(host, THROTTLED)
    assert "the shortest bursts first" in said
    assert "900 MHz" in said
    assert raised(host, THROTTLED) == []
    (over,) = cleared(host, THROTTLED)
    assert "the risk is over" in over


def test_short_bursts_queue_on_a_strained_gpu_and_run_beside_others_elsewhere() -> None:
    calm, strained = (host_with(known("job", 0.035), ways=LOCK) for _ in range(2))
    raised(strained, THROTTLED)
    for host in (calm, strained):
        for name in ("a", "b"):
            host.start(container(name, image="job"))
            host.work(name, share=1.0)
        host.run(60 * MS)
    assert ("pause", "b") not in [(what, name) for _, what, name in calm.story]
    assert ("pause", "b") in [(what, name) for _, what, name in strained.story]


def test_on_a_strained_gpu_the_shortest_burst_goes_first() -> None:
    def order(host: Host) -> list[str]:
        compute(host, "a", image="long")
        compute(host, "b", image="long")
        compute(host, "c", image="short")
        views = host.machine.view(host.now_ns).containers
        places = {view.name: view.queue_place for view in views if view.queue_place}
        return sorted(places, key=places.__getitem__)

    history = (known("long", 4.0), known("short", 1.0))
    calm, strained = (host_with(*history, ways=LOCK) for _ in range(2))
    raised(strained, THROTTLED)
    assert order(calm) == ["b", "c"]
    assert order(strained) == ["c", "b"]


def test_newcomers_wait_while_memory_is_about_to_be_full() -> None:
    host = host_with(ways=LOCK)
    compute(host, "x")
    raised(host, FULL)
    host.start(container("a", memory="1GiB"))
    view = next(v for v in host.machine.view(host.now_ns).containers if v.name == "a")
    assert view.state is WorkState.ADMISSION
    assert "full in about 60 s" in host.machine.why(ContainerId("a"), host.now_ns)[0]
    cleared(host, FULL)
    host.run(100 * MS)
    assert "a" not in host.paused


def test_a_risk_that_nobody_repeats_or_clears_is_forgotten() -> None:
    strains = Strains()
    assert strains.raised(0, GPU, THROTTLED) is not None
    assert list(strains.crowded()) == [GPU]
    assert strains.expire(HEEDED_NS - 1) == []
    assert len(strains.expire(HEEDED_NS)) == 1
    assert strains.crowded() == {}


def test_what_concerns_no_container_is_not_heeded() -> None:
    strains = Strains()
    odd = Risk("power", RiskKind.ANOMALY, 0.9, "odd")
    assert strains.raised(0, GPU, odd) is None
    assert not strains.crowded()
    assert not strains.filling()


def test_a_second_risk_of_the_kind_keeps_the_order_as_it_is_until_both_are_over() -> None:
    strains = Strains()
    promise = Risk("latency", RiskKind.LOAD, 0.9, "it grows")
    assert strains.raised(0, GPU, THROTTLED) is not None
    assert strains.raised(1, GPU, promise) is None
    assert strains.raised(1, OTHER_GPU, promise) is not None
    assert strains.cleared(GPU, "clock", RiskKind.THROTTLE) is None
    assert strains.cleared(GPU, "latency", RiskKind.LOAD) is not None
    assert list(strains.crowded()) == [OTHER_GPU]
