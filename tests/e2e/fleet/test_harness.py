"""What the runs of fleets are judged by can tell right from wrong, and is the same for a seed."""

import time
from pathlib import Path

from tests.e2e.fleet.manifest import Places, make_manifest
from tests.e2e.fleet.sights import Scene, Sight, Witness
from tests.e2e.fleet.verdict import repeated

PLACES = Places(images=("a", "b"), commands=("c",))


def test_a_seed_makes_the_same_five_hundred_jobs_and_another_seed_others() -> None:
    first = make_manifest(1, 500, PLACES, "journal")
    assert sum(entry.count for entry in first) == 500
    assert first == make_manifest(1, 500, PLACES, "journal")
    assert first != make_manifest(2, 500, PLACES, "journal")


def test_two_attempts_of_a_job_that_run_at_once_in_two_clusters_are_seen() -> None:
    here, there = Scene("here"), Scene("there")
    witness = Witness((here, there), {"job"}, lag_s=0.01)
    here.show({"p": Sight(("job", 1), "0", running=True)})
    there.show({"q": Sight(("job", 2), "0", running=True)})
    witness.look()
    assert not witness.doubled
    time.sleep(0.02)
    witness.look()
    assert "job" in witness.doubled


def test_one_attempt_after_the_other_and_what_cannot_be_seen_are_no_doubles() -> None:
    here, there = Scene("here"), Scene("there")
    witness = Witness((here, there), {"job"}, lag_s=0.0)
    here.show({"p": Sight(("job", 1), "0", running=True)})
    there.show({"q": Sight(("job", 2), "0", running=True)})
    here.clear = False
    for _ in range(3):
        witness.look()
        time.sleep(0.01)
    here.show({})
    for _ in range(3):
        witness.look()
        time.sleep(0.01)
    assert not witness.doubled


def test_a_program_that_came_to_its_end_twice_is_told(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    entries = {
        entry.name.partition("-")[0]: entry for entry in make_manifest(1, 500, PLACES, str(journal))
    }
    jobs = {"plain": entries["run"], "fenced": entries["fence"]}
    journal.write_text(
        "plain 1 0 begins\nplain 1 0 done\nfenced 1 0 done\nfenced 2 0 done\n", encoding="utf-8"
    )
    assert not repeated(journal, jobs)
    with journal.open("a", encoding="utf-8") as more:
        more.write("plain 2 0 done\n")
    assert list(repeated(journal, jobs)) == ["plain"]
