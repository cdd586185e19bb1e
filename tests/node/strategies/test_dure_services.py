"""The strategy `dure`: jobs beside a service of a higher class, and what is known of an image."""

from dataclasses import replace

from dure.domain.ids import ContainerId
from dure.domain.units import NS_PER_S
from dure.node.units import Unit
from tests.node.factories import MS, Host, container
from tests.node.strategies.hosts import DOCKER, LOCK, compute, host_with, known


def unit_of(host: Host, name: str) -> Unit:
    return host.machine.state.unit_of(host.machine.state.tracks[ContainerId(name)])


def served(host: Host, image: str = "app", priority: str = "high") -> None:
    """A service that has been at work for a while."""
    host.start(container("web", image=image, priority=priority))
    host.work("web", 0.5)
    host.run(100 * MS)
    host.work("web", 0.5, share=0.2)
    host.run(4 * NS_PER_S, every_ns=50 * MS)


def test_beside_a_service_of_a_higher_class_nobody_brings_its_input_ahead() -> None:
    for priority, primed in (("high", False), ("normal", True)):
        host = host_with(ways=LOCK)
        served(host, priority=priority)
        compute(host, "a")
        host.start(container("b", image="job"))
        host.work("b", 0.3)
        host.run(20 * MS)
        host.work("b", 4.0)
        host.run(1000 * MS)
        assert "b" in host.paused
        assert unit_of(host, "b").primed is primed


def test_one_job_at_a_time_computes_beside_a_service_that_samples_do_not_show() -> None:
    host = host_with(known("job", 3.0), ways=DOCKER)
    served(host)
    for name in ("a", "b", "c"):
        compute(host, name)
    host.work("web", 0.5, share=0.0)  # each window shows one of those who share the GPU
    host.run(2500 * MS, every_ns=50 * MS)
    assert set(host.paused) == {"b", "c"}
    host.end("a")
    host.run(2 * NS_PER_S, every_ns=50 * MS)
    assert set(host.paused) == {"c"}


def test_after_a_turn_a_service_of_a_higher_class_has_the_gpu_to_itself_for_a_while() -> None:
    for priority, waits in (("high", {"b"}), ("normal", set())):
        host = host_with(known("job", 3.0), ways=LOCK)
        served(host, priority=priority)
        compute(host, "a")
        compute(host, "b")
        host.run(2 * NS_PER_S, every_ns=50 * MS)
        host.end("a")
        host.run(300 * MS)
        assert set(host.paused) == waits
        host.run(1750 * MS)
        assert not host.paused


def test_what_a_service_uses_says_nothing_of_jobs_of_its_image() -> None:
    host = host_with(known("app", 60.0, gib=0.5, share=0.2), ways=LOCK)
    host.start(container("trainer", image="app"))
    host.work("trainer", 0.5)
    host.run(100 * MS)
    host.work("trainer", 0.5, share=0.9)
    host.run(400 * MS)
    assert unit_of(host, "trainer").heavy
    host.start(container("next", image="app"))
    host.work("next", 0.5)
    host.run(1 * NS_PER_S)
    assert "next" in host.paused, "its memory says only that it has a context"
    assert host.order("pause") == ["next"]


def test_who_computes_with_less_memory_than_any_known_task_of_its_image_is_none_of_those() -> None:
    host = host_with(known("app", 0.2, gib=4.0), ways=LOCK)
    compute(host, "big", image="job")
    host.start(container("small", image="app"))
    host.work("small", 2.0, share=1.0)
    host.run(500 * MS)
    host.end("big")
    host.run(100 * MS)
    assert unit_of(host, "small").record(host.machine.state.history) is None


def test_the_time_for_an_input_is_learned_in_proportion_from_larger_tasks() -> None:
    record = replace(known("app", 3.0, gib=8.5), inputs_ns=(800 * MS,))
    host = host_with(record, ways=DOCKER)
    compute(host, "a")
    host.start(container("b", image="app"))
    host.work("b", 2.5)
    host.look()
    began_ns = host.now_ns
    while "b" not in host.paused:
        host.run(10 * MS)
    assert host.now_ns - began_ns <= 200 * MS, "a quarter of the input takes a quarter of the time"


def test_those_who_launched_together_are_left_together() -> None:
    host = host_with(ways=DOCKER)
    for name in ("a", "b", "c"):
        compute(host, name)
    assert set(host.paused) == {"b", "c"}
    host.launched = {"b"}
    host.run(2 * NS_PER_S)
    assert set(host.paused) == {"c"}
    host.end("a")
    host.run(100 * MS)
    assert set(host.paused) == {"c"}, "who runs on has a turn like any other"
    host.end("b")
    host.run(100 * MS)
    assert not host.paused


def test_who_was_locked_after_its_set_up_keeps_the_turn_it_is_given() -> None:
    host = host_with(ways=LOCK)
    compute(host, "a")
    for name in ("b", "c"):
        host.start(container(name, image="job"))
        host.work(name, 0.5)
    while set(host.paused) != {"b", "c"}:
        host.run(10 * MS)
    host.end("a")
    host.run(100 * MS)
    assert unit_of(host, "b").turn_ns is not None
    assert host.order("resume").count("c") <= 1
    assert unit_of(host, "c").turn_ns is None
