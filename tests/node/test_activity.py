"""When bursts begin and end, seen through memory at once and samples that lag."""

from dure.domain.units import GIB, MIB, NS_PER_MS, NS_PER_S
from dure.node.activity import Activity, Look, Phase
from dure.node.history import Burst
from dure.node.settings import NodeSettings

SETTINGS = NodeSettings()


class Watched:
    """An activity and the looks it was given."""

    def __init__(self) -> None:
        self.activity = Activity()
        self.now_ns = 0
        self.bursts: list[Burst] = []

    def see(
        self,
        seconds: float,
        memory_gib: float,
        share: float = 0.0,
        *,
        kept: bool = False,
        others: float = 0,
        utilization: float | None = None,
    ) -> Phase:
        for _ in range(round(seconds * 100)):
            self.now_ns += 10 * NS_PER_MS
            use = share if utilization is None else utilization
            size = int(memory_gib * GIB)
            self.activity.advance(self.now_ns, held=kept)
            look = Look(self.now_ns, size, share, others, use)
            bursts = [self.activity.look(look, SETTINGS, kept=kept)]
            if not kept:
                bursts.append(self.activity.listen(self.now_ns, SETTINGS))
            self.bursts += [burst for burst in bursts if burst is not None]
        return self.activity.phase


def test_memory_that_rises_begins_a_burst_before_any_sample() -> None:
    seen = Watched()
    assert seen.see(0.01, 0.4) is Phase.INPUT


def test_a_burst_ends_when_memory_is_given_back_whatever_late_samples_say() -> None:
    seen = Watched()
    seen.see(0.5, 4.5)
    seen.see(3.0, 4.5, 1.0)
    assert seen.see(0.01, 3.0, 1.0) is Phase.QUIET
    assert seen.see(0.5, 0.5, 1.0) is Phase.QUIET
    assert seen.see(0.01, 0.0) is Phase.ABSENT
    (burst,) = seen.bursts
    assert burst.peak_bytes == int(4.5 * GIB)
    assert burst.length_ns == 3_500 * NS_PER_MS
    assert not burst.held


def test_the_length_of_a_burst_is_that_it_would_have_alone() -> None:
    seen = Watched()
    seen.see(0.01, 4)
    seen.see(1.0, 4, 0.5, others=1)
    seen.see(1.0, 4, 1.0)
    seen.see(5.0, 4, 1.0, kept=True)
    seen.see(0.01, 0)
    assert abs(seen.bursts[0].length_ns - 1_500 * NS_PER_MS) <= 30 * NS_PER_MS


def test_allocation_before_the_input_copy_does_not_count() -> None:
    seen = Watched()
    for size in (0.4, 1.0, 2.0, 4.0):
        seen.see(0.3, size)
    seen.see(1.0, 4.0, 1.0)
    seen.see(0.01, 0)
    assert seen.bursts[0].length_ns == 1_300 * NS_PER_MS


def test_a_held_burst_counts_from_its_launch() -> None:
    seen = Watched()
    seen.see(0.5, 4)
    seen.see(2.0, 4, kept=True)
    seen.activity.let_go(seen.now_ns, launch=True)
    seen.see(1.0, 4)
    seen.see(0.01, 0)
    (burst,) = seen.bursts
    assert burst.held
    assert burst.length_ns == 1_010 * NS_PER_MS


def test_where_memory_stays_a_burst_ends_when_samples_have_been_silent() -> None:
    seen = Watched()
    seen.see(2.0, 4, 0.9)
    assert seen.see(1.1, 4) is Phase.COMPUTE
    assert seen.see(0.2, 4) is Phase.QUIET
    assert seen.activity.ended_ns is not None
    assert abs(seen.activity.ended_ns - 2 * NS_PER_S) <= 10 * NS_PER_MS
    assert seen.see(0.1, 4, 0.5) is Phase.COMPUTE


def test_silence_while_it_is_kept_ends_nothing() -> None:
    seen = Watched()
    seen.see(1.0, 4, 0.9)
    assert seen.see(60, 4, kept=True) is Phase.COMPUTE
    assert not seen.bursts


def test_a_program_that_only_loads_is_quiet_after_a_while_and_teaches_nothing() -> None:
    seen = Watched()
    assert seen.see(1.9, 0.5) is Phase.INPUT
    assert seen.see(0.2, 0.5) is Phase.QUIET
    assert not seen.bursts


def test_housekeeping_of_the_driver_begins_nothing() -> None:
    seen = Watched()
    seen.see(3.0, 1.0)
    assert seen.activity.phase is Phase.QUIET
    assert seen.see(0.1, 1.0 + 2 * MIB / GIB) is Phase.QUIET


def test_the_use_of_compute_is_learned_where_there_was_room_for_more() -> None:
    light, crowded = Watched(), Watched()
    light.see(3.0, 4, 0.2)
    assert light.activity.duty is not None
    assert abs(light.activity.duty - 0.2) < 0.01
    crowded.see(3.0, 4, 0.2, others=4, utilization=1.0)
    assert crowded.activity.duty is None


def test_samples_that_still_rise_do_not_make_a_burst_look_light() -> None:
    seen = Watched()
    for share in (0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.0, 1.0):
        seen.see(0.2, 4, share)
        assert seen.activity.duty is None or seen.activity.duty >= 0.5


def test_two_samples_tell_when_the_first_kernel_was_launched() -> None:
    seen = Watched()
    seen.see(0.3, 0.4)
    seen.see(1.0, 4.5)  # memory rises, and a sample comes 1 s later
    seen.see(0.5, 4.5, 0.4)
    early = seen.activity.launch_ns
    seen.see(0.01, 4.5, 1.0)
    late = seen.activity.launch_ns
    assert early is None, "how long the window is shows with the next"
    assert late is not None
    assert abs(late - (1000 - 0.4 * 500) * NS_PER_MS) <= 20 * NS_PER_MS


def test_a_launch_is_not_guessed_where_it_was_held_or_the_window_was_full() -> None:
    held = Watched()
    held.see(0.3, 4.5)
    held.see(0.3, 4.5, kept=True)
    held.see(0.2, 4.5, 0.4)
    held.see(0.2, 4.5, 1.0)
    assert held.activity.launch_ns is None
    full = Watched()
    full.see(0.3, 4.5)
    full.see(0.2, 4.5, 1.0)
    full.see(0.2, 4.5, 0.5)
    assert full.activity.launch_ns is None


def test_late_samples_of_a_burst_do_not_date_the_launch_of_the_next() -> None:
    seen = Watched()
    seen.see(0.5, 4.5)
    seen.see(1.0, 4.5, 1.0)
    seen.see(0.1, 0.5, 1.0)
    seen.see(1.5, 4.5, 0.7)
    seen.see(0.2, 4.5, 0.9)
    assert seen.activity.launch_ns is None


def test_who_computes_though_it_is_held_launched_earlier_than_it_was_taken_to() -> None:
    seen = Watched()
    seen.see(0.2, 0.4)
    seen.see(0.51, 4.5)
    seen.see(0.2, 4.5, kept=True)
    seen.see(0.01, 4.5, 1.0, kept=True)
    found = seen.activity.launch_ns
    assert found is not None
    assert found < 500 * NS_PER_MS


def test_faint_samples_after_the_making_of_a_context_are_no_work() -> None:
    seen = Watched()
    seen.see(0.01, 0.5)
    seen.see(0.05, 4.5)
    assert seen.see(0.10, 4.5, 0.31) is Phase.INPUT
    assert seen.see(0.19, 4.5, 0.12) is Phase.INPUT
    assert seen.see(0.50, 4.5, 0.0) is Phase.INPUT
    assert seen.see(0.19, 4.5, 0.14) is Phase.INPUT
    assert seen.see(0.01, 4.5, 1.0) is Phase.COMPUTE
    assert seen.activity.launch_ns is not None
    launched_s = seen.activity.launch_ns / NS_PER_S
    assert 0.75 < launched_s < 0.88, "the launch is dated by the sample before the full one"


def test_two_faint_samples_in_a_row_later_on_are_work() -> None:
    seen = Watched()
    seen.see(1.70, 4.5)
    assert seen.see(0.19, 4.5, 0.10) is Phase.INPUT
    assert seen.see(0.01, 4.5, 0.12) is Phase.COMPUTE


def test_faint_samples_while_an_input_may_still_be_copied_are_no_work() -> None:
    seen = Watched()
    seen.see(0.01, 0.5)
    for share in (0.07, 0.20, 0.16, 0.17):
        assert seen.see(0.19, 4.7, share) is Phase.INPUT
    assert seen.see(0.19, 4.7, 0.30, kept=True) is Phase.INPUT
    assert seen.activity.launch_ns is None, "who copies has launched nothing"


def test_faint_samples_on_a_gpu_in_full_use_are_the_work_of_several() -> None:
    seen = Watched()
    seen.see(0.50, 4.7)
    assert seen.see(0.19, 4.7, 0.20, kept=True, utilization=1.0) is Phase.INPUT
    assert seen.see(0.19, 4.7, 0.18, kept=True, utilization=1.0) is Phase.COMPUTE


def test_a_clear_sample_is_work_at_once() -> None:
    seen = Watched()
    seen.see(0.05, 4.5)
    assert seen.see(0.01, 4.5, 0.6) is Phase.COMPUTE


def test_a_faint_sample_of_one_that_is_held_teaches_nothing_about_its_launch() -> None:
    seen = Watched()
    seen.see(0.10, 0.5)
    seen.see(0.19, 0.5, 0.15, kept=True)
    assert seen.activity.phase is Phase.INPUT
    assert seen.activity.launch_ns is None


def test_a_burst_that_computed_while_it_was_held_teaches_no_length() -> None:
    seen = Watched()
    seen.see(0.5, 4.5)
    seen.see(3.0, 4.5, 1.0, kept=True)
    seen.see(0.2, 4.5)
    seen.see(0.1, 0.5)
    assert seen.bursts == []


def test_who_is_not_seen_while_others_fill_the_gpu_goes_on_for_longer() -> None:
    seen = Watched()
    seen.see(0.5, 4.5)
    seen.see(1.0, 4.5, 0.99)
    assert seen.see(2.4, 4.5, 0.0, utilization=1.0) is Phase.COMPUTE
    assert seen.see(0.2, 4.5, 0.99) is Phase.COMPUTE
    assert seen.see(3.7, 4.5, 0.0, utilization=1.0) is Phase.QUIET, "but not for ever"


def test_silence_on_a_gpu_with_gaps_ends_a_burst_as_soon_as_samples_can_tell() -> None:
    seen = Watched()
    seen.see(0.5, 4.5)
    seen.see(1.0, 4.5, 0.99)
    assert seen.see(1.3, 4.5, 0.0, utilization=0.6) is Phase.QUIET


def test_who_computes_long_after_it_was_held_runs_a_kernel_that_cannot_be_stopped() -> None:
    seen = Watched()
    seen.see(0.5, 4.5)
    found = []
    for seconds, memory_gib, share, kept in (
        (1.0, 4.5, 0.99, True),  # samples may tell of before
        (0.6, 4.5, 0.99, True),
        (0.01, 0.0, 0.0, True),
        (0.01, 0.5, 0.0, False),  # the next burst is another
    ):
        seen.see(seconds, memory_gib, share, kept=kept)
        found.append(seen.activity.runs_on_ns is not None)
    assert (found[0], found[1], found[3]) == (False, True, False)


def test_an_input_counts_from_when_its_memory_was_looked_at_however_late_that_is_told() -> None:
    activity = Activity()
    activity.advance(NS_PER_S, held=False)
    late = Look(NS_PER_S, 4 * GIB, 0.0, 0.0, 0.0, lag_ns=120 * NS_PER_MS)
    activity.look(late, SETTINGS, kept=False)
    assert activity.input_ns == 120 * NS_PER_MS


def test_one_window_that_shows_the_work_of_others_makes_no_job_of_a_service() -> None:
    seen = Watched()
    seen.see(2.2, 0.5)
    for share in (0.20, 0.15, 0.25) * 4:
        seen.see(0.2, 0.5, share)
    seen.see(0.2, 0.5, 0.8)
    assert seen.activity.duty is not None
    assert seen.activity.duty < 0.5
    seen.see(0.6, 0.5, 0.99)
    assert seen.activity.duty > 0.5
