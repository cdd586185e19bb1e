"""What a member tells of use: all of it, until the centre has stored it."""

from dataclasses import replace

from dure.domain.fleet.protocol.reports import Outcome, Report, Usage
from dure.member.core.meters import BEHIND_NS
from dure.member.ports import Life
from tests.member.core.factories import (
    Bench,
    a_job,
    a_service,
    key,
    put_forward,
    released,
    seconds,
)


def told(bench: Bench, *, whole: bool = True) -> dict[str, Usage]:
    """What is told of use now, by job."""
    report = bench.desk.news(bench.now_ns, whole=whole)
    return {} if report is None else {each.key.job: each for each in report.usage}


def stored(bench: Bench, *usage: Usage) -> None:
    bench.desk.heard(Report(1, bench.now_ns, whole=False, usage=usage))
    bench.act()


def of_use(bench: Bench) -> set[str]:
    return {name for name in bench.memory if name.startswith("usage/")}


def test_use_of_an_attempt_that_is_wanted_no_more_is_told_until_it_is_stored() -> None:
    bench = Bench()
    bench.plan(a_job("a", devices=2))
    bench.run_all()
    began_ns = bench.now_ns
    bench.now_ns += seconds(3600)
    bench.plan()
    bench.finish_endings()
    bench.wait(1)
    assert not bench.desk.books.attempts
    first, again = told(bench)["a"], told(bench)["a"]
    assert first == again
    assert first.device_us >= 2 * 3600 * 10**6
    assert first.since_ns == began_ns
    assert of_use(bench) == {"usage/a/1"}
    stored(bench, first)
    assert told(bench) == {}
    assert of_use(bench) == set()


def test_a_program_that_nobody_saw_run_is_counted_by_its_cluster_s_stamps() -> None:
    bench = Bench()
    bench.plan(a_job("a"))
    (seen,) = bench.of("a")
    begin_ns = bench.now_ns
    bench.now_ns += seconds(5)
    stamps = {"started_ns": begin_ns, "ended_ns": begin_ns + seconds(2)}
    bench.become(seen.instance, Life.SUCCEEDED, **stamps)
    assert bench.status("a").outcome is Outcome.SUCCEEDED
    assert told(bench)["a"].device_us == 2 * 10**6
    assert told(bench)["a"].until_ns == begin_ns + seconds(2)


def test_what_ends_while_no_member_is_there_is_counted_by_the_next() -> None:
    bench = Bench()
    bench.plan(a_job("a"), a_job("b"))
    begin_ns = bench.now_ns
    for seen in list(bench.cluster.alive()):
        bench.become(seen.instance, Life.RUNNING, started_ns=begin_ns)
    bench.wait(10)
    (gone,), (on,) = bench.of("a"), bench.of("b")
    end_ns = begin_ns + seconds(1000)
    bench.cluster.become(gone.instance, Life.SUCCEEDED, ended_ns=end_ns)
    bench.now_ns = begin_ns + seconds(4000)
    bench.start()
    found = told(bench)
    assert found["a"].device_us == 1000 * 10**6
    assert found["b"].device_us == 4000 * 10**6 - BEHIND_NS // 1000
    bench.start()
    assert told(bench) == found
    # And what vanished without a trace is counted as far as anybody knows.
    stored(bench, *found.values())
    del bench.cluster.objects[on.instance]
    bench.now_ns += seconds(4000)
    bench.start()
    assert "b" not in told(bench)


def test_shares_of_devices_count_as_shares() -> None:
    bench = Bench()
    bench.plan(a_service("s"))
    bench.run_all()
    ((_, hand),) = bench.desk.books.hands()
    assert hand.placement is not None
    hand.placement = replace(hand.placement, compute_milli=250)
    bench.desk.books.meters.count(key("s"), hand, bench.now_ns)  # its share is another from now
    before = told(bench).get("s")
    bench.now_ns += seconds(1000)
    grown = told(bench)["s"].device_us - (0 if before is None else before.device_us)
    assert grown == (1000 * 10**6 - BEHIND_NS // 1000) // 4


def test_the_use_of_an_attempt_that_ended_is_told_within_a_second() -> None:
    bench = Bench()
    bench.plan(a_job("a"))
    bench.run_all()
    told(bench)
    bench.now_ns += seconds(3)
    bench.plan(released(a_job("a")))
    bench.finish_endings()
    bench.now_ns += seconds(1)
    assert told(bench, whole=False)["a"].device_us == 3 * 10**6


def test_what_runs_is_saved_now_and_then_in_case_it_vanishes() -> None:
    bench = Bench()
    bench.plan(a_job("a", devices=2))
    bench.run_all()
    for _ in range(2):
        bench.now_ns += seconds(301)
        assert told(bench, whole=False)
        bench.wait(1)
    assert int(bench.memory["usage/a/1"]["milli_ns"]) >= 2 * 1000 * seconds(590)


def test_that_the_fleet_s_time_is_put_forward_is_no_use_not_over_deaths_of_members_either() -> None:
    bench = Bench()
    bench.plan(a_job("a"))
    bench.run_all()
    bench.wait(100)
    put_forward(bench, 3600)
    bench.act()
    bench.wait(100)
    assert told(bench)["a"].device_us == 200 * 10**6 - BEHIND_NS // 1000
    bench.start()
    bench.wait(100)
    assert told(bench)["a"].device_us == 300 * 10**6 - BEHIND_NS // 1000


def test_what_runs_on_where_the_calendar_was_set_back_is_counted_from_there() -> None:
    bench = Bench()
    bench.plan(a_job("a"))
    bench.run_all()
    bench.wait(500)
    bench.wait(1)
    saved = int(bench.memory["usage/a/1"]["milli_ns"]) // 10**6
    assert saved == 490 * 10**6
    bench.ahead_ns += seconds(400)
    bench.start()
    assert bench.ahead_ns == 0
    put_forward(bench, 400)
    bench.wait(100)
    assert told(bench)["a"].device_us == saved + 100 * 10**6 - 2 * BEHIND_NS // 1000
