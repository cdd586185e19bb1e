"""The strategy `dure`: turns, inputs ahead, classes, deadlines, memory."""

from dataclasses import replace
from itertools import pairwise

from dure.domain.containers import PauseWay, WorkState
from dure.domain.ids import ContainerId
from dure.domain.node_events import PauseEnded
from dure.domain.node_instructions import Pause
from dure.domain.units import GIB, NS_PER_S
from dure.node.settings import NodeSettings
from dure.node.units import Unit
from tests.node.factories import BOTH, GPU, MS, OTHER_GPU, Host, container
from tests.node.strategies.hosts import DOCKER, LOCK, compute, host_with, known


def test_the_next_is_let_go_shortly_before_the_predicted_end() -> None:
    host = host_with(known("job", 2.0), ways=LOCK)
    compute(host, "a")
    began_ns = host.now_ns
    compute(host, "b")
    assert set(host.paused) == {"b"}
    host.run(1200 * MS)
    assert set(host.paused) == {"b"}
    host.run(began_ns + 1990 * MS - host.now_ns)
    assert not host.paused


def test_the_predicted_end_is_kept_though_no_table_comes() -> None:
    host = host_with(known("job", 2.0), ways=LOCK)
    compute(host, "a")
    compute(host, "b")
    host.until(host.now_ns + 2 * NS_PER_S)
    assert not host.paused


def test_an_unknown_burst_is_waited_for_to_its_end() -> None:
    host = host_with(ways=LOCK)
    compute(host, "a")
    compute(host, "b")
    host.run(4 * NS_PER_S, every_ns=20 * MS)
    assert set(host.paused) == {"b"}
    host.end("a")
    assert not host.paused


def test_the_length_learned_from_one_serves_the_next() -> None:
    host = host_with(ways=LOCK)
    for name in ("a", "b", "c"):
        compute(host, name)
    host.run(1 * NS_PER_S)
    host.end("a")
    host.work("b", share=1.0)
    began_ns = host.now_ns
    host.run(1300 * MS)
    released_ns = [at for at, what, name in host.story if (what, name) == ("resume", "c")]
    assert released_ns
    assert began_ns + 300 * MS < released_ns[-1] < began_ns + 1200 * MS


def test_the_lock_is_asked_for_during_the_input_copy_and_counts_as_ready_when_it_was_over() -> None:
    host = host_with(known("job", 3.0), ways=LOCK)
    host.prompt = False
    compute(host, "a")
    host.start(container("b", image="job"))
    host.work("b", 0.4)
    host.run(100 * MS)
    assert not host.paused, "its context alone is no input"
    host.work("b", 4.0)
    host.run(350 * MS)
    (pause,) = [asked for asked in host.due if isinstance(asked, Pause)]
    assert (pause.container, pause.way) == ("b", PauseWay.CUDA_LOCK)
    host.due.clear()
    host.run(100 * MS)
    host.send(PauseEnded(host.now_ns, ContainerId("b"), PauseWay.CUDA_LOCK))
    assert host.machine.state.unit_of(host.machine.state.tracks[ContainerId("b")]).primed
    host.run(500 * MS)
    assert host.order("resume") == []


def test_while_one_copies_its_input_those_behind_are_frozen_and_brought_in_one_by_one() -> None:
    host = host_with(known("job", 3.0), ways=BOTH)
    for name in ("a", "b", "c", "d"):
        host.start(container(name, image="job"))
        host.work(name, 4.0)
    host.run(20 * MS)
    frozen = {name for name, pause in host.paused.items() if pause.way is PauseWay.DOCKER}
    assert frozen == {"c", "d"}
    host.work("a", share=1.0)
    host.run(1500 * MS)
    assert {name: pause.way for name, pause in host.paused.items()} == dict.fromkeys(
        ("b", "c", "d"), PauseWay.CUDA_LOCK
    )


def test_a_higher_class_goes_first_and_interrupts() -> None:
    host = host_with(known("job", 30.0), ways=LOCK)
    compute(host, "low")
    compute(host, "waits")
    host.start(container("urgent", image="job", priority="high"))
    host.work("urgent", share=1.0)
    host.run(200 * MS)
    assert host.free == {"urgent"}
    host.end("urgent")
    host.run(20 * MS)
    assert host.free == {"low"}, "who was interrupted keeps its place"


def test_a_burst_that_is_almost_over_is_not_interrupted() -> None:
    host = host_with(known("job", 0.6))
    compute(host, "low")
    host.run(300 * MS)
    host.start(container("urgent", image="job", priority="high"))
    host.work("urgent", share=1.0)
    host.run(100 * MS)
    assert "low" not in host.paused


def test_waiting_lifts_a_class_in_the_end() -> None:
    host = Host(NodeSettings(ways=LOCK, ageing_ns=4 * NS_PER_S, turn_ns=3 * NS_PER_S))
    for number in range(2):
        host.start(container(f"high-{number}", priority="high"))
        host.work(f"high-{number}", share=1.0)
    host.start(container("low", priority="low"))
    host.work("low", share=1.0)
    had_turn = False
    for _ in range(40):
        host.run(500 * MS, every_ns=50 * MS)
        had_turn = had_turn or "low" in host.free
    assert had_turn


def test_a_turn_ends_where_others_wait_and_a_weight_makes_it_longer() -> None:
    settings = NodeSettings(ways=LOCK, turn_ns=1 * NS_PER_S)
    host = Host(settings)
    host.start(container("heavy", weight="3"))
    host.start("plain")
    spent = dict.fromkeys(("heavy", "plain"), 0)
    for _ in range(400):
        for name in spent:
            host.work(name, share=1.0 if name in host.free else 0.0)
        host.run(50 * MS)
        for name in host.free:
            spent[name] += 1
    assert 2.0 < spent["heavy"] / spent["plain"] < 4.0


def test_who_would_miss_its_deadline_goes_before_its_class() -> None:
    host = host_with(known("job", 2.0), ways=LOCK)
    for name in ("a", "b", "c"):
        compute(host, name)
    host.start(container("due", image="job", deadline="5s"))
    host.work("due", share=0.0)
    host.run(200 * MS)
    places = {c.name: c.queue_place for c in host.machine.view(host.now_ns).containers}
    assert places == {"a": None, "due": 1, "b": 2, "c": 3}


def test_who_can_make_its_deadline_in_order_does_not_jump() -> None:
    host = host_with(known("job", 2.0), ways=LOCK)
    for name in ("a", "b", "c"):
        compute(host, name)
    host.start(container("due", image="job", deadline="60s"))
    host.work("due", share=0.0)
    host.run(200 * MS)
    places = {c.name: c.queue_place for c in host.machine.view(host.now_ns).containers}
    assert places == {"a": None, "b": 1, "c": 2, "due": 3}


def test_a_place_in_the_queue_is_kept_through_a_short_gap() -> None:
    host = host_with(known("job", 5.0), known("loop", 5.0), ways=LOCK)
    host.start(container("loop", image="loop"))
    host.work("loop", share=1.0)
    host.run(200 * MS)
    compute(host, "b")
    compute(host, "c")
    host.work("loop", 0.0)
    host.run(100 * MS)
    assert "b" in host.free
    host.work("loop", 4.0)
    host.run(700 * MS)
    places = {c.name: c.queue_place for c in host.machine.view(host.now_ns).containers}
    assert places["loop"] == 1
    assert places["c"] == 2


def bursts(host: Host, burst_ns: int, time_ns: int, *, programs: bool) -> list[str]:
    """Four that compute whenever they may, free their memory after each burst and come back 0.1 s
    later (`programs`: as a new process); whose bursts ended, in order."""
    names, step_ns = ("a", "b", "c", "d"), 20 * MS
    for name in names:
        compute(host, name)
    left_ns, ended = dict.fromkeys(names, float(burst_ns)), list[str]()
    for _ in range(time_ns // step_ns):
        going = [name for name in names if name in host.free and host.tasks[name].memory_bytes]
        for name in names:
            left_ns[name] -= step_ns / len(going) if name in going else 0
            if name in going:
                host.work(name, share=1 / len(going))
            elif host.tasks[name].memory_bytes:
                host.work(name, share=0.0)
            else:
                left_ns[name] -= step_ns
                if left_ns[name] <= burst_ns:
                    host.tasks[name].program += programs
                    host.work(name)
            if left_ns[name] <= 0:
                ended.append(name)
                host.work(name, 0.0)
                left_ns[name] = burst_ns + 100 * MS
        host.run(step_ns, every_ns=step_ns)
    return ended


def test_programs_that_are_started_anew_queue_up_anew() -> None:
    host = host_with(known("job", 0.8), ways=LOCK)
    ended = bursts(host, 800 * MS, 14 * NS_PER_S, programs=True)
    counts = [ended.count(name) for name in "abcd"]
    assert sum(counts) >= 14
    assert max(counts) - min(counts) <= 1, ended


def test_one_program_keeps_its_place_for_one_turn_in_all() -> None:
    settings = NodeSettings(ways=LOCK, history=(known("job", 0.8),), turn_ns=3 * NS_PER_S)
    ended = bursts(Host(settings), 800 * MS, 24 * NS_PER_S, programs=False)
    assert set(ended[:4]) == {"a", "b"}, "who comes back at once keeps its place"
    assert min(ended.index(name) for name in "cd") <= 10, "two of them kept the others waiting"
    counts = [ended.count(name) for name in "abcd"]
    assert min(counts) >= 4, ended


def test_two_may_share_where_the_host_says_so() -> None:
    host = Host(NodeSettings(sharers=2, history=(known("job", 3.0),)))
    for name in ("a", "b", "c"):
        compute(host, name)
    assert set(host.paused) == {"c"}


def test_a_gpu_with_gaps_takes_one_more() -> None:
    host = host_with(known("job", 60.0), ways=LOCK)
    compute(host, "a")
    compute(host, "b")
    host.work("b", share=0.0)
    for _ in range(8):
        host.work("a", share=1.0)
        host.run(500 * MS)
        host.work("a", share=0.3)
        host.run(300 * MS)
    assert "b" in host.free


def test_gpus_have_queues_of_their_own() -> None:
    host = host_with(known("job", 3.0))
    for name, gpu in (("a", GPU), ("b", OTHER_GPU), ("c", GPU), ("d", OTHER_GPU)):
        host.start(container(name, image="job", gpus=(gpu,)))
        host.work(name, share=1.0)
        host.run(60 * MS)
    assert host.free == {"a", "b"}


def test_a_container_that_would_not_fit_waits_from_its_start_and_then_goes() -> None:
    host = host_with()
    host.start(container("a", memory="50GiB"))
    host.work("a", 50.0, 1.0)
    host.run(100 * MS)
    host.start(container("b", memory="40GiB"))
    assert set(host.paused) == {"b"}, "held by its start event, before it allocates"
    (shown,) = [c for c in host.machine.view(host.now_ns).containers if c.name == "b"]
    assert shown.state is WorkState.ADMISSION
    assert "40 GiB" in shown.reason
    host.run(5 * NS_PER_S, every_ns=100 * MS)
    assert set(host.paused) == {"b"}
    host.end("a")
    host.run(20 * MS)
    assert not host.paused


def test_memory_is_predicted_from_the_image() -> None:
    host = host_with(known("job", 3.0, gib=60.0))
    host.start(container("a", image="job"))
    host.work("a", 60.0, 1.0)
    host.run(100 * MS)
    host.start(container("b", image="job"))
    host.start(container("c", image="unknown"))
    assert set(host.paused) == {"b"}


def test_what_can_never_fit_does_not_wait() -> None:
    host = host_with()
    host.start("a")
    host.work("a", 50.0, 1.0)
    host.run(100 * MS)
    host.start(container("b", memory="500GiB"))
    host.run(100 * MS)
    assert not host.paused


def test_the_longest_wait_wins_over_memory_with_a_message() -> None:
    host = host_with()
    host.start("a")
    host.work("a", 50.0, 1.0)
    host.run(100 * MS)
    host.start(container("b", memory="40GiB", max_wait="2s"))
    assert set(host.paused) == {"b"}
    host.run(2 * NS_PER_S, every_ns=50 * MS)
    assert not host.paused
    (text,) = host.told()
    assert "'b'" in text
    assert "dure.max-wait" in text
    assert "out-of-memory" in text


def test_a_smaller_one_may_pass_who_waits_for_memory_but_not_for_ever() -> None:
    host = Host(NodeSettings(ageing_ns=3 * NS_PER_S))
    host.start("a")
    host.work("a", 50.0, 1.0)
    host.run(100 * MS)
    host.start(container("large", memory="60GiB"))
    host.start(container("small", memory="5GiB"))
    assert set(host.paused) == {"large"}
    host.run(4 * NS_PER_S, every_ns=100 * MS)
    host.start(container("late", memory="5GiB"))
    assert {"large", "late"} <= set(host.paused)


def test_a_container_found_running_is_past_its_admission() -> None:
    host = host_with()
    host.start("a")
    host.work("a", 50.0, 1.0)
    host.run(100 * MS)
    host.start(container("b", memory="60GiB"), found=True)
    host.run(100 * MS)
    assert not host.paused


def test_a_program_outside_containers_counts_for_memory() -> None:
    host = host_with()
    host.used_bytes = 60 * GIB
    host.start("a")
    host.run(100 * MS)
    host.start(container("b", memory="40GiB"))
    assert set(host.paused) == {"b"}


def test_waits_for_memory_and_for_a_turn_count_together() -> None:
    host = Host(NodeSettings(history=(known("job", 60.0, gib=1.0),)))
    host.start(container("a", image="other"))
    host.work("a", 10.0, 1.0)
    host.start("holder", found=True)
    host.work("holder", 50.0)
    host.run(100 * MS)
    host.start(container("b", memory="40GiB", max_wait="8s", image="job"))
    host.run(2 * NS_PER_S, every_ns=50 * MS)
    assert "b" in host.paused
    host.end("holder")
    host.run(50 * MS)
    assert "b" in host.free
    host.work("b", 4.0)
    host.run(600 * MS)
    assert "b" in host.paused
    assert host.paused["b"].resume_by_ns - host.now_ns < 6 * NS_PER_S, "it waited for 2 s before"


def test_an_aged_unit_of_two_gpus_is_not_passed_for_ever() -> None:
    settings = NodeSettings(ways=LOCK, ageing_ns=2 * NS_PER_S, history=(known("job", 3.0),))
    host = Host(settings)
    host.start(container("left", image="job"))
    host.work("left", share=1.0)
    host.run(60 * MS)
    host.start(container("wide", image="job", gpus=(GPU, OTHER_GPU)))
    host.work("wide", share=1.0)
    host.run(60 * MS)
    host.start(container("right", image="job", gpus=(OTHER_GPU,)))
    host.work("right", share=1.0)
    host.run(200 * MS)
    assert host.free == {"left", "right"}
    host.run(2500 * MS, every_ns=50 * MS)
    host.start(container("late", image="job", gpus=(OTHER_GPU,)))
    host.work("late", share=1.0)
    host.end("right")
    host.run(200 * MS)
    assert "late" in host.paused


def test_a_health_checked_container_is_not_frozen_for_anothers_copy() -> None:
    host = host_with(known("job", 3.0), ways=BOTH)
    for name in ("a", "b", "c"):
        host.start(replace(container(name, image="job"), health_checked=True))
        host.work(name, 4.0)
    host.run(20 * MS)
    assert {pause.way for pause in host.paused.values()} <= {PauseWay.CUDA_LOCK}


def unit_of(host: Host, name: str) -> Unit:
    return host.machine.state.unit_of(host.machine.state.tracks[ContainerId(name)])


def test_a_lock_that_waited_for_a_context_does_not_count_as_an_input() -> None:
    host = host_with(known("job", 3.0), ways=LOCK)
    host.prompt = False
    for name in ("a", "b", "c"):
        host.start(container(name, image="job"))
        host.work(name, 0.5)
    host.look()
    host.run(100 * MS)
    (pause,) = [asked for asked in host.due if isinstance(asked, Pause)]
    assert pause.container == "c", "two at a time make their context and bring their input"
    host.send(PauseEnded(host.now_ns, ContainerId("c"), PauseWay.CUDA_LOCK))
    assert not unit_of(host, "c").primed


def test_who_is_held_in_its_set_up_brings_its_input_when_the_first_computes() -> None:
    host = host_with(known("job", 3.0), ways=LOCK)
    host.prompt = False  # a lock waits for the context
    for name in ("a", "b", "c"):
        host.start(container(name, image="job"))
        host.work(name, 0.5)
    host.run(20 * MS)
    assert set(host.paused) == {"c"}
    host.work("a", 4.0, share=1.0)
    host.look()
    host.prompt = True
    host.answer()
    host.run(20 * MS)
    assert not host.paused, "the link is free for it"
    for name in ("b", "c"):
        host.work(name, 4.0)
    host.run(1000 * MS)
    assert set(host.paused) == {"b", "c"}
    assert unit_of(host, "b").primed
    assert unit_of(host, "c").primed


def test_a_crowd_gets_longer_to_set_up_before_it_is_taken_for_small_inputs() -> None:
    held_after = {}
    for crowd in (1, 6):
        host = host_with(ways=LOCK)
        compute(host, "first", image="other")
        for number in range(crowd):
            host.start(container(f"b{number}", image="job"))
            host.work(f"b{number}", 0.5)
        began_ns = host.now_ns
        while "b0" not in host.paused:
            host.run(10 * MS)
        held_after[crowd] = host.now_ns - began_ns
    assert held_after[6] >= held_after[1] + 900 * MS


def test_who_was_held_too_early_brings_the_rest_of_its_input_once_its_time_is_learned() -> None:
    host = host_with(ways=LOCK)
    for name in ("a", "b"):
        host.start(container(name, image="job"))
        host.work(name, 4.0)
    host.run(500 * MS)
    assert set(host.paused) == {"b"}
    early_ns = unit_of(host, "b").activity.input_ns
    host.run(500 * MS)
    host.work("a", share=0.5)
    host.run(200 * MS)
    host.work("a", share=1.0)
    host.run(10 * MS)
    assert host.paused == {}, "a took 0.9 s to its launch, and b had less than half of that"
    host.run(600 * MS)
    assert set(host.paused) == {"b"}
    assert 600 * MS <= unit_of(host, "b").activity.input_ns <= 700 * MS
    assert early_ns < 450 * MS


def test_an_input_is_stopped_in_time_though_no_table_comes() -> None:
    record = replace(known("job", 3.0), inputs_ns=(800 * MS,))
    for ways, part in ((LOCK, 0.7), (DOCKER, 0.85)):
        host = host_with(record, ways=ways)
        compute(host, "a")
        host.start(container("b", image="job"))
        host.work("b", 4.0)
        host.look()
        began_ns = host.now_ns
        host.until(began_ns + 2 * NS_PER_S)
        ((at_ns, _, _),) = [each for each in host.story if each[1:] == ("pause", "b")]
        assert abs(at_ns - began_ns - part * 800 * MS) <= 10 * MS


def test_a_freeze_is_asked_for_earlier_where_freezes_take_longer() -> None:
    host = host_with(replace(known("job", 30.0), inputs_ns=(800 * MS,)))
    compute(host, "a")
    host.prompt = False
    asked_after_ns = {}
    for name in ("b", "c"):
        host.start(container(name, image="job"))
        host.work(name, 4.0)
        host.look()
        began_ns = host.now_ns
        while name not in host.paused:
            host.run(10 * MS)
        asked_after_ns[name] = host.now_ns - began_ns
        host.run(150 * MS)
        host.answer()
    assert abs(asked_after_ns["b"] - 680 * MS) <= 20 * MS
    assert abs(asked_after_ns["c"] - 500 * MS) <= 20 * MS


def test_who_could_compute_goes_before_who_still_makes_its_context() -> None:
    host = host_with(ways=LOCK)
    for name in ("slow", "quick"):
        host.start(container(name, image="job"))
        host.work(name, 0.3)
        host.run(20 * MS)
    assert unit_of(host, "slow").turn_ns is not None
    host.work("quick", 4.0)
    host.run(20 * MS)
    assert unit_of(host, "quick").turn_ns is not None
    assert unit_of(host, "slow").turn_ns is None
    host.work("quick", 4.0, share=1.0)
    host.work("slow", 4.0)
    host.run(500 * MS)
    assert set(host.paused) == {"slow"}, "it is held before its launch, and is the next"


def test_a_turn_does_not_end_for_who_is_of_a_lower_class() -> None:
    host = host_with(ways=LOCK)
    host.start(container("first", image="served", priority="high"))
    host.work("first", share=1.0)
    host.run(60 * MS)
    compute(host, "job")
    host.run(12 * NS_PER_S, every_ns=50 * MS)
    assert set(host.paused) == {"job"}
    assert host.order("pause").count("first") == 0


def test_gaps_in_a_turn_are_not_for_a_lower_class_until_it_has_aged() -> None:
    host = host_with(ways=LOCK)
    host.start(container("first", image="served", priority="high"))
    host.work("first", share=0.6)
    host.run(60 * MS)
    host.start(container("job"))
    host.work("job", 4.0)
    host.run(5 * NS_PER_S, every_ns=50 * MS)
    assert set(host.paused) == {"job"}
    host.run(30 * NS_PER_S, every_ns=50 * MS)
    assert not host.paused


def test_ends_that_come_nearer_beside_others_are_not_looked_at_ever_more_often() -> None:
    host = Host(NodeSettings(sharers=2, history=(known("job", 2.0),), ways=LOCK))
    for name in ("a", "b", "c"):
        compute(host, name)
    host.run(2500 * MS)
    times_ns = [host.now_ns]
    while "c" in host.paused and host.wake_ns is not None:
        host.until(host.wake_ns)
        times_ns.append(host.now_ns)
    gaps_ns = [late - early for early, late in pairwise(times_ns)]
    assert gaps_ns
    assert min(gaps_ns) >= 2 * MS


def test_a_lock_that_came_after_one_of_two_copies_is_asked_for_again_in_the_second() -> None:
    host = host_with(replace(known("job", 3.0), inputs_ns=(800 * MS,)), ways=LOCK)
    compute(host, "a")
    host.start(container("b", image="job"))
    host.work("b", 4.0)
    host.look()
    host.run(580 * MS)
    activity = unit_of(host, "b").activity
    assert set(host.paused) == {"b"}
    activity.input_ns = 400.0 * MS  # the lock came early, after the first copy
    host.run(20 * MS)
    assert not host.paused
    host.run(250 * MS)
    assert set(host.paused) == {"b"}
    assert 540 * MS <= activity.input_ns <= 640 * MS


def test_the_time_in_which_a_context_is_made_is_no_part_of_a_known_burst() -> None:
    host = host_with(known("job", 0.3))
    for name in ("a", "b", "c", "d", "e"):
        host.start(container(name, image="job"))
        host.work(name, 0.01)
    host.run(900 * MS)
    assert len(host.paused) == 3, "one has its turn, another may bring its input"


def test_short_bursts_queue_up_by_freezing_also_when_their_length_is_known() -> None:
    host = host_with()
    for name in ("a", "b", "c", "d"):
        compute(host, name)
    host.run(130 * MS)
    host.end("a")
    host.run(100 * MS)
    assert len(host.paused) == 2, "only the next one has been let go"


def test_a_long_set_up_and_the_input_after_it_are_no_gap_for_another_turn() -> None:
    host = host_with(ways=LOCK)
    host.prompt = False  # a lock waits for the context
    names = [f"c{number:02d}" for number in range(20)]
    for name in names:
        host.start(container(name, image="job"))
        host.work(name, 0.5)
    host.run(1950 * MS, every_ns=50 * MS)
    for name in names[:2]:
        host.work(name, 4.0)
    having = set()
    for _ in range(10):
        host.run(10 * MS)
        having |= {name for name in names if unit_of(host, name).turn_ns is not None}
    assert having == {"c00"}, "contexts of twenty take 3 s, in which nothing can be computed"
