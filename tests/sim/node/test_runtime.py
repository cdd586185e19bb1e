"""Pausing in virtual time: how long it takes, when it fails, and who ends it."""

from dataclasses import dataclass, field

import pytest

from dure.domain.containers import PauseWay
from dure.domain.node_instructions import NEVER_NS, Pause
from dure.sim.node.containers import Holder
from dure.sim.node.model import HostModel
from dure.sim.node.runtime import DOCKER_AWAY, GONE, SimRuntime
from dure.sim.node.steps import Copy, HostWork, Kernel
from dure.sim.node.world import START_NS
from tests.sim.node.worlds import GB, MS, Bench, S, container

DOCKER, LOCK = PauseWay.DOCKER, PauseWay.CUDA_LOCK


@dataclass
class Hands:
    """Asks a runtime for things at given times, and keeps its answers."""

    bench: Bench
    runtime: SimRuntime
    answers: list[tuple[float, PauseWay, str | None]] = field(default_factory=list)

    def pause(
        self, at_ns: int, way: PauseWay, resume_by_ns: int = NEVER_NS, *, by_person: bool = False
    ) -> None:
        one = self.bench["a"]
        wish = Pause(one.id, way, resume_by_ns, "it is asked to", by_person=by_person)
        self.bench.at(at_ns, lambda now: self.runtime.pause(now, one, wish, self._answer))

    def resume(self, at_ns: int) -> None:
        one = self.bench["a"]
        self.bench.at(at_ns, lambda now: self.runtime.resume(now, one, self._answer))

    def _answer(self, now_ns: int, way: PauseWay, error: str | None) -> None:
        self.answers.append(((now_ns - START_NS) / MS, way, error))


def hands(*steps: object, host: HostModel | None = None) -> Hands:
    bench = Bench(container("a", *steps))  # type: ignore[arg-type]
    return Hands(bench, SimRuntime(bench.agenda, host or HostModel()))


def test_docker_takes_35_ms_each_way_and_the_lock_half_a_millisecond() -> None:
    for way, takes_ms in ((DOCKER, 35.0), (LOCK, 0.45)):
        one = hands(HostWork(1 * S), Kernel(MS))
        one.pause(100 * MS, way)
        one.resume(500 * MS)
        one.bench.run()
        assert [answer[0] for answer in one.answers] == pytest.approx(
            [100 + takes_ms, 500 + takes_ms]
        )
        assert [answer[1:] for answer in one.answers] == [(way, None), (way, None)]
        assert one.bench["a"].history.paused_ns == 400 * MS


def test_the_lock_answers_when_the_copy_under_way_is_over() -> None:
    one = hands(Copy(6_060_000_000, into_gpu=True), Kernel(100 * MS))
    one.pause(300 * MS, LOCK)
    one.resume(2 * S)
    one.bench.run()
    at_ms, way, error = one.answers[0]
    assert at_ms == pytest.approx(1200.0, abs=1)
    assert (way, error) == (LOCK, None)
    assert one.bench.ended_ms("a") == pytest.approx(2100.45, abs=0.1)


def test_what_is_asked_of_one_container_happens_in_that_order() -> None:
    one = hands(HostWork(200 * MS))
    one.pause(100 * MS, DOCKER)
    one.resume(101 * MS)
    one.pause(102 * MS, DOCKER)
    one.resume(103 * MS)
    one.bench.run()
    assert [answer[0] for answer in one.answers] == [135, 170, 205, 240]
    assert one.bench.ended_ms("a") == pytest.approx(200 + 70)


def test_without_the_cuda_lock_docker_is_used_and_the_answer_says_so() -> None:
    one = hands(HostWork(300 * MS), host=HostModel(lockable=False))
    one.pause(100 * MS, LOCK)
    one.resume(200 * MS)
    one.bench.run()
    assert [answer[1:] for answer in one.answers] == [(DOCKER, None), (DOCKER, None)]


def test_docker_that_is_away_fails_and_the_lock_works_on() -> None:
    one = hands(HostWork(1 * S), Kernel(MS))
    one.runtime.docker_away = True
    one.pause(100 * MS, DOCKER)
    one.pause(300 * MS, LOCK)
    one.resume(500 * MS)
    one.bench.run()
    assert [answer[2] for answer in one.answers] == [DOCKER_AWAY, None, None]
    assert one.runtime.failures == 1


def test_a_container_that_is_gone_cannot_be_paused_and_need_not_be_let_go() -> None:
    one = hands(HostWork(50 * MS))
    one.pause(100 * MS, DOCKER)
    one.resume(200 * MS)
    one.bench.run()
    assert [answer[2] for answer in one.answers] == [GONE, None]


def test_a_pause_past_its_deadline_is_ended_by_the_watchdog_and_counted() -> None:
    one = hands(HostWork(200 * MS))
    one.pause(100 * MS, DOCKER, START_NS + 1 * S)
    one.bench.run()
    assert one.runtime.overdue == 1
    assert one.bench["a"].history.longest_wait_ns == pytest.approx(1200 * MS - 135 * MS)
    assert one.bench.ended_ms("a") is not None


def test_the_watchdog_thaws_what_dure_holds_and_nothing_a_person_paused() -> None:
    bench = Bench(container("a", HostWork(1 * S)), container("b", Kernel(GB)))
    runtime = SimRuntime(bench.agenda, HostModel())
    bench.at(100 * MS, lambda now: bench["a"].keep(now, Holder.PERSON, DOCKER))
    bench.at(100 * MS, lambda now: bench["b"].keep(now, Holder.DURE, DOCKER))
    bench.at(200 * MS, lambda now: runtime.thaw_all(now, bench.world.containers))
    bench.run(300 * MS)
    assert bench["a"].frozen
    assert bench["b"].hold is None


def test_what_a_dead_agent_had_asked_for_does_not_happen_after_its_death() -> None:
    one = hands(HostWork(1 * S))
    one.pause(100 * MS, DOCKER)
    one.bench.at(120 * MS, lambda _: one.runtime.agent_died())
    one.bench.run()
    assert one.answers == []
    assert one.bench["a"].history.pauses == 0


def test_what_a_person_orders_takes_over_a_pause_of_dures_and_outlives_the_agent() -> None:
    one = hands(HostWork(200 * MS))
    one.pause(100 * MS, DOCKER, START_NS + 500 * MS)
    one.pause(200 * MS, DOCKER, by_person=True)
    one.bench.at(800 * MS, lambda now: one.runtime.thaw_all(now, one.bench.world.containers))
    one.bench.run(900 * MS)
    assert one.bench["a"].frozen
    assert one.runtime.overdue == 0
    one.resume(1 * S)
    one.bench.run()
    assert one.bench["a"].hold is None
    assert [answer[2] for answer in one.answers] == [None, None, None]
