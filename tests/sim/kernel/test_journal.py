import json
from dataclasses import replace
from pathlib import Path

import pytest

from dure.domain.errors import InputError
from dure.domain.events import (
    Event,
    PolicyRequested,
    ProgressReported,
    ReadingsTaken,
    RiskCleared,
    RiskRaised,
    TenantChanged,
    TenantJoined,
    TenantLeft,
)
from dure.domain.ids import TenantId
from dure.domain.risks import Risk, RiskKind
from dure.domain.tenant import AvailabilitySlo, MemoryClaim, Slo, Tenant, ThroughputSlo
from dure.domain.units import GIB, NS_PER_MS, NS_PER_S
from dure.kernel.machine import KernelMachine, MachineSettings
from dure.kernel.policies.registry import POLICIES
from dure.kit.files import FileProblem
from dure.sim.kernel.journal import open_journal, replay_journal
from dure.sim.kernel.journal_codec import VERSION
from dure.sim.kernel.modes import managed
from dure.sim.kernel.run import Setting, machine_settings, run
from tests.kernel.factories import H200, A, B, sample, served, service, working
from tests.sim.kernel.worlds import endless, program, requests

SETTINGS = MachineSettings(H200, "slo", (("tolerance", 0.1),), side_by_side=True)
PROMISED = Slo(throughput=ThroughputSlo(0.1 + 0.2), availability=AvailabilitySlo(0.999))
WEB = TenantId("web")
EVENTS: tuple[Event, ...] = (
    TenantJoined(0, service("web", 20.0)),
    TenantJoined(1, Tenant(A, slo=PROMISED, memory=MemoryClaim(20 * GIB, GIB))),
    TenantJoined(2, Tenant(B, memory=MemoryClaim(reserve_bytes=500 * GIB))),
    ReadingsTaken(
        20 * NS_PER_MS,
        (served("web", requests=3, latency_ns=5e6), working("a", 0.5, memory_peak_bytes=GIB)),
        (sample("a", 40_000), sample("a", 90_000, company=(B,))),
    ),
    TenantChanged(30 * NS_PER_MS, Tenant(A, weight=1 / 3)),
    ProgressReported(31 * NS_PER_MS, A, 1.0, 3.0),
    PolicyRequested(32 * NS_PER_MS, "jct", dry_run=True),
    PolicyRequested(33 * NS_PER_MS, "hybrid", (("fairness", 0.3),)),
    RiskRaised(34 * NS_PER_MS, Risk("s", RiskKind.LOAD, 0.9, "grows", WEB, 5, 0.1)),
    ReadingsTaken(40 * NS_PER_MS, (served("web", requests=3, latency_ns=5e6),)),
    ReadingsTaken(900 * NS_PER_MS, (served("web", requests=3, latency_ns=5e6),)),
    RiskCleared(950 * NS_PER_MS, "s", RiskKind.LOAD, WEB),
    TenantLeft(NS_PER_S, A),
)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal of all kinds of events."""
    path = tmp_path / "runs" / "journal.jsonl"
    machine = KernelMachine(SETTINGS)
    with open_journal(path, SETTINGS) as record:
        for event in EVENTS:
            record(event, machine.handle(event))
    return path


def edited(path: Path, line: int, old: str, new: str) -> None:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    path.write_text("".join(lines), encoding="utf-8")


def problem_of(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        replay_journal(path)
    sentence = str(caught.value)
    assert str(path) in sentence
    assert "; " in sentence
    assert "\n" not in sentence
    return sentence


def test_a_replay_gives_the_recorded_instructions(journal: Path) -> None:
    report = replay_journal(journal)
    assert report.identical
    assert report.first_mismatch is None
    assert report.note == ""
    assert report.policy == "slo"
    assert report.events == len(EVENTS)
    assert report.instructions > len(EVENTS)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("side_by_side", [False, True])
def test_a_recorded_run_of_every_policy_replays_the_same(
    tmp_path: Path, policy: str, side_by_side: bool
) -> None:
    """Two seconds: long enough for both ways of sharing to have been on trial."""
    promised = service("web", 8.0)
    request = program(kernels=10, kernel_ns=40_000, units=132)
    every_2ms = range(0, 2 * NS_PER_S, 2 * NS_PER_MS)
    setting = Setting(
        H200,
        (
            replace(requests(promised.id, request, every_2ms), tenant=promised),
            endless(A, program(kernels=4, kernel_ns=500_000, units=132 * 4)),
            endless(B, program(kernels=20, kernel_ns=30_000, units=40)),
        ),
        2 * NS_PER_S,
    )
    mode = managed(policy, side_by_side=side_by_side)
    path = tmp_path / "journal.jsonl"
    with open_journal(path, machine_settings(mode, setting)) as record:
        run(mode, setting, record=record)
    report = replay_journal(path)
    assert report.identical, report.first_mismatch
    assert report.events > 100
    assert report.instructions > 5


def test_every_line_is_json_with_the_settings_first(journal: Path) -> None:
    lines = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    assert lines[0]["format"] == "dure-kernel-journal"
    assert lines[0]["version"] == VERSION
    assert lines[0]["settings"]["accelerator"]["name"] == "h200"
    assert [line[0][0] for line in lines[1:]] == [type(event).__name__ for event in EVENTS]


def test_a_changed_answer_is_a_mismatch_that_shows_both(journal: Path) -> None:
    edited(journal, 2, '"policy":"slo"', '"policy":"old"')
    report = replay_journal(journal)
    assert report.mismatches == 1
    assert report.first_mismatch is not None
    assert report.first_mismatch.line == 2
    assert "TenantJoined at 0 ns" in str(report.first_mismatch)
    assert "'old'" in report.first_mismatch.recorded
    assert "'slo'" in report.first_mismatch.replayed


def test_a_missing_answer_is_a_mismatch(journal: Path) -> None:
    lines = journal.read_text(encoding="utf-8").splitlines(keepends=True)
    lines[4] = json.dumps([json.loads(lines[4])[0], []]) + "\n"
    journal.write_text("".join(lines), encoding="utf-8")
    report = replay_journal(journal)
    assert report.first_mismatch is not None
    assert report.first_mismatch.recorded == "nothing more"


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_last_line_cut_off_by_a_crash_is_left_out_with_a_note(journal: Path, cut: int) -> None:
    journal.write_bytes(journal.read_bytes()[:-cut])
    report = replay_journal(journal)
    if cut == 1:
        assert (report.events, report.note) == (len(EVENTS), "")
    else:
        assert report.identical
        assert report.events == len(EVENTS) - 1
        assert f"line {len(EVENTS) + 1} is cut off" in report.note


def test_what_was_recorded_before_an_error_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    machine = KernelMachine(SETTINGS)

    def fail_half_way() -> None:
        with open_journal(path, SETTINGS) as record:
            record(EVENTS[0], machine.handle(EVENTS[0]))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert replay_journal(path).events == 1


def test_a_broken_line_in_the_middle_is_named(journal: Path) -> None:
    edited(journal, 4, "{", "")
    assert "journal.jsonl, line 4: " in problem_of(journal)


@pytest.mark.parametrize(
    ("line", "old", "new"),
    [
        (5, '"now_ns":20000000', '"now_ns":20000000.5'),
        (5, '"now_ns":20000000', '"now_ns":"20000000"'),
        (5, '"ReadingsTaken"', '"ReadingsLost"'),
        (3, '"weight"', '"heaviness"'),
        (14, '"now_ns":1000000000', '"now_ns":5'),
    ],
)
def test_a_line_that_is_no_event_is_refused(journal: Path, line: int, old: str, new: str) -> None:
    edited(journal, line, old, new)
    assert f"journal.jsonl, line {line}: " in problem_of(journal)


def test_another_format_version_is_refused(journal: Path) -> None:
    edited(journal, 1, f'"version":{VERSION}', '"version":99')
    assert "version 99" in problem_of(journal)


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "scenario.yaml"
    other.write_text("gpu: h200\n", encoding="utf-8")
    assert "not the first line of a kernel journal" in problem_of(other)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    assert "empty" in problem_of(empty)


def test_a_journal_of_an_unknown_policy_is_refused(journal: Path) -> None:
    edited(journal, 1, '"policy":"slo"', '"policy":"fifo"')
    assert "'fifo' is not a policy" in problem_of(journal)


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="no such file"):
        replay_journal(tmp_path / "none")


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(FileProblem, match="cannot be written"),
        open_journal(tmp_path, SETTINGS),
    ):
        pass
