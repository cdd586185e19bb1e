from pathlib import Path
from typing import Any

import pytest

from dure.bench.kernel import equal, finite_jobs, kills, overhead, sets, switching
from dure.bench.kernel.bed import Surroundings
from dure.bench.kernel.orders import Answer
from dure.bench.kernel.shard import Settings
from dure.bench.kernel.specials import SPECIALS
from dure.bench.kernel.store import Store


def passed(verdicts: list[Any]) -> list[bool | None]:
    return [verdict.passed for verdict in verdicts]


def timeline(*latencies_ms: float) -> Answer:
    return Answer(len(latencies_ms), 0.0, latencies_ms, first_s=100.0)


def test_the_share_of_an_idle_member_counts_from_its_end_to_the_first_fast_kernel() -> None:
    answer = timeline(*[0.4] * 10, *[0.2] * 200)
    wait_ms = sets.taken_up_ms(answer, 100.0039)
    assert wait_ms is not None
    assert 0.05 < wait_ms < 0.15
    late_ms = sets.taken_up_ms(timeline(*[0.4] * 15, *[0.2] * 200), 100.004)
    assert late_ms is not None
    assert 1.9 < late_ms < 2.1


def test_a_tenant_that_was_never_confined_has_nothing_to_take_up() -> None:
    assert sets.taken_up_ms(timeline(*[0.2] * 200), 100.01) is None


def program(*digests: str, shown: float = 1.0, share: float = 0.5) -> dict[str, Any]:
    found = {"digests": list(digests), "first": digests[0], "runs": 2, "shown": [shown]}
    return {**found, "spread": 0.0, "held_share": share, "moved_share": share}


def test_the_same_bits_pass_and_other_bits_fail() -> None:
    same = {"plain": program("x"), "again": program("x"), "gated": program("x")}
    assert equal.judge(same, "gated") == (True, "same bits; gated for 50.0 % at most")
    other = {**same, "gated": program("y", shown=1.1)}
    assert equal.judge(other, "gated")[0] is False


def test_a_program_that_differs_from_itself_may_differ_as_much_under_dure() -> None:
    spread = {"plain": program("x"), "again": program("y", shown=1.5)}
    assert equal.judge({**spread, "moved": program("z", shown=1.4)}, "moved")[0]
    assert not equal.judge({**spread, "moved": program("z", shown=1.6)}, "moved")[0]
    mixed = {"plain": program("x"), "again": program("x"), "moved": program("x", "y", shown=1.0)}
    assert equal.judge(mixed, "moved")[0], "its first result is the same number"


def test_runs_of_one_program_that_differ_among_themselves_widen_what_is_allowed() -> None:
    plain = {**program("x", "y"), "spread": 0.3}
    assert equal.judge({"plain": plain, "again": plain, "moved": program("z", shown=1.2)}, "moved")[
        0
    ]


@pytest.mark.parametrize("key", ["gated", "moved"])
def test_a_program_that_was_never_held_or_moved_shows_nothing(key: str) -> None:
    found = {"plain": program("x"), "again": program("x"), key: program("x", share=0.0)}
    assert equal.judge(found, key) == (False, f"same bits; never {key}")


def test_one_of_cupy_and_jax_is_enough() -> None:
    same = {key: program("x") for key in ("plain", "again", "gated", "moved")}
    missing = {key: {"error": "ModuleNotFoundError: No module named 'cupy'"} for key in same}
    assert passed(equal.verdicts({"jax": same, "cupy": missing})) == [True, None, True, None]
    assert passed(equal.verdicts({"cupy": missing})) == [False, False]


def test_tenants_on_sets_are_judged_by_their_shares_and_by_how_they_slow_each_other() -> None:
    item = {"split": [8, 8], "speeds": [0.47, 0.48], "own_set": [0.48, 0.48], "sets": []}
    found: dict[str, Any] = {"compute-bound": {"splits": [item], "sms": 132}}
    assert passed(sets.verdicts(found)) == [True, True]
    item["own_set"] = [0.48, 0.52]
    assert passed(sets.verdicts(found)) == [False, True]
    item["speeds"] = [0.3, 0.48]
    assert passed(sets.verdicts(found)) == [False, False]


def test_a_program_that_failed_is_no_match() -> None:
    failed = {"plain": program("x"), "again": program("x"), "gated": {"error": "no cupy"}}
    assert equal.judge(failed, "gated") == (False, "no cupy")


def test_overhead_is_judged_by_speed_and_by_launch() -> None:
    found: dict[str, Any] = {
        "tenants": {"train": {"plain": [10.0], "dure": [9.95], "by_pair": [[0.995], [0.993]]}},
        "launch_ns": {"extra_median_ns": 300.0},
    }
    assert passed(overhead.verdicts(found)) == [True, True]
    found["tenants"]["train"]["by_pair"] = [[0.98], [0.99]]
    found["launch_ns"]["extra_median_ns"] = 600.0
    assert passed(overhead.verdicts(found)) == [False, False]


@pytest.mark.parametrize("name", sorted(SPECIALS))
def test_without_time_nothing_is_begun_and_what_is_missing_is_said(
    tmp_path: Path, name: str
) -> None:
    """Surroundings in which nothing can start: whatever is begun fails."""
    nowhere = Surroundings(worker=("/nowhere",), agent=("/nowhere",))
    hurried = Settings(limit_s=1.0)
    special = SPECIALS[name]
    found = special.run(Store(tmp_path), hurried, nowhere, lambda _: None)
    assert not special.complete(found, hurried)
    assert special.verdicts(found) == [] or name in {"equal", "switch"}


def test_overhead_that_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    tenant = {"plain": [10.0], "dure": [9.95], "by_pair": [[0.995]]}
    kept = {
        "tenants": {each.name: tenant for each in overhead.TENANTS},
        "launch_ns": {"extra_median_ns": 300.0},
    }
    Store(tmp_path).note("parts", kept)
    nowhere = Surroundings(worker=("/nowhere",), agent=("/nowhere",))
    found = overhead.run(Store(tmp_path), Settings(), nowhere, lambda _: None)
    assert found == kept
    assert overhead.complete(found, Settings())


def test_switches_are_judged_by_their_tail_errors_and_losses() -> None:
    good: dict[str, Any] = {"waits_ms": [10.0] * 100, "errors": [], "forgotten": []}
    assert passed(switching.verdicts(good)) == [True, True, True]
    bad = {"waits_ms": [10.0] * 90 + [80.0] * 10, "errors": ["gone"], "forgotten": ["train"]}
    assert passed(switching.verdicts(bad)) == [False, False, False]


def test_what_was_forgotten_once_stays_told_and_so_does_a_tenant_that_is_gone() -> None:
    before = {"serve": {"weight": 2.0}, "train": {"weight": 1.0}}
    assert switching.forgotten([], before, before) == []
    changed = {**before, "train": {"weight": 3.0}}
    assert switching.forgotten([], before, changed) == ["train"]
    assert switching.forgotten(["train"], before, before) == ["train"], "the next round is well"
    assert switching.forgotten(["train"], before, {"train": {"weight": 1.0}}) == ["serve", "train"]


def test_kills_need_their_number_and_no_harm() -> None:
    part = {"killed": 20, "errors": [], "done": {"resnet": 5}}
    assert passed(kills.verdicts({"isolated": part})) == [True]
    assert passed(kills.verdicts({"isolated": {**part, "killed": 19}})) == [False]
    assert passed(kills.verdicts({"mps": {**part, "errors": ["harmed"]}})) == [False]
    first = {"killed": 0, "errors": ["victim0: not to be ended"], "done": {}}
    assert passed(kills.verdicts({"mps": first})) == [False], "a failure is not left out"


def test_finite_jobs_are_judged_by_their_mean_beside_mps() -> None:
    found: dict[str, Any] = {
        "scale": 1.0,
        "jct_s": {
            "mps": {job.name: 100.0 for job in finite_jobs.JOBS},
            "jct": {job.name: 80.0 for job in finite_jobs.JOBS},
            "jct-mps": {job.name: 120.0 for job in finite_jobs.JOBS},
        },
    }
    assert passed(finite_jobs.verdicts(found)) == [True, None]
    found["jct_s"]["jct"] = {job.name: 86.0 for job in finite_jobs.JOBS}
    assert passed(finite_jobs.verdicts(found))[0] is False


def test_finite_jobs_of_another_length_are_not_mixed_with_those_that_were_kept(
    tmp_path: Path,
) -> None:
    """Surroundings in which nothing can start: whatever is not kept fails, or is missing."""
    times = {job.name: 10.0 for job in finite_jobs.JOBS}
    kept = {"scale": 0.5, "rates": {}, "jct_s": dict.fromkeys(("mps", "jct", "jct-mps"), times)}
    Store(tmp_path).note("parts", kept)
    nowhere = Surroundings(worker=("/nowhere",), agent=("/nowhere",))
    told: list[str] = []
    for scale, found_again in ((0.5, True), (1.0, False)):
        settings = Settings(limit_s=1.0, scale=scale)
        found = finite_jobs.run(Store(tmp_path), settings, nowhere, told.append)
        assert found["scale"] == scale
        assert finite_jobs.complete(found, settings) is found_again
        assert any("another length" in line for line in told) is not found_again
