from dataclasses import replace
from pathlib import Path

from dure.domain.ids import WorkloadId
from dure.sim.fleet.setting import Setting
from dure.sim.fleet.waits import Waits
from tests.sim.fleet.scenarios import read, scenario, training

MINUTE_NS = 60 * 10**9


class Centre:
    """Says what it was told to say."""

    def __init__(self) -> None:
        self.why: dict[str, str] = {}

    def why_waiting(self, workload: WorkloadId) -> str:
        return self.why.get(workload, "")


def setting(folder: Path, *explain: str) -> Setting:
    made = read(folder, scenario(workloads=[training(count=30)])).setting
    return replace(made, explain=frozenset(explain))


def test_a_wait_goes_on_while_only_its_figures_change(tmp_path: Path) -> None:
    given, centre = setting(tmp_path, "train-0"), Centre()
    waits = Waits(given, centre)
    for minute, why in enumerate(("needs 1.5 more", "needs 2,000 more", "no room", "no room", "")):
        centre.why = {"train-0": why}
        waits.look(given.start_ns + minute * MINUTE_NS)
    waits.finish(given.end_ns)
    found = [
        ((each.from_ns - given.start_ns) // MINUTE_NS, each.until_ns - given.start_ns, each.why)
        for each in waits.samples
    ]
    assert found == [
        (0, 2 * MINUTE_NS, "needs 2,000 more"),
        (2, 4 * MINUTE_NS, "no room"),
    ]


def test_some_that_wait_at_the_end_are_told_of_without_being_asked_for(tmp_path: Path) -> None:
    given, centre = setting(tmp_path, "train-7"), Centre()
    waits = Waits(given, centre)
    centre.why = {f"train-{number}": "no room" for number in range(30)}
    waits.look(given.start_ns)
    waits.finish(given.end_ns)
    assert all(each.at_end for each in waits.samples)
    assert waits.samples[0].workload == "train-7"
    assert len(waits.samples) == 21


def test_a_refusal_is_kept_for_those_asked_for(tmp_path: Path) -> None:
    waits = Waits(setting(tmp_path, "train-0"), Centre())
    waits.refused(WorkloadId("train-0"), "can never run", 5)
    waits.refused(WorkloadId("train-1"), "can never run", 5)
    assert [(each.workload, each.refused) for each in waits.samples] == [("train-0", True)]


def test_a_centre_that_cannot_say_why_is_not_asked(tmp_path: Path) -> None:
    waits = Waits(setting(tmp_path, "train-0"), object())
    waits.look(0)
    waits.finish(10)
    assert waits.samples == ()
