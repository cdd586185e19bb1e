"""A machine that was recorded in the middle of its life decides the same again; another policy is
asked what it would have done."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dure.cli.main import app
from dure.domain.errors import InputError
from dure.domain.events import Event, ReadingsTaken, TenantJoined
from dure.domain.tenant import Tenant
from dure.domain.units import NS_PER_MS
from dure.kernel.machine import KernelMachine, MachineSettings
from dure.sim.kernel.journal import replay_journal
from dure.sim.kernel.journal_codec import encode_entry, encode_header
from dure.sim.kernel.replay import replay_policy
from tests.kernel.factories import H200, A, B, sample, served, service, working

TICK_NS = 20 * NS_PER_MS
SETTINGS = MachineSettings(H200, "slo", side_by_side=True)


def ticks(first: int, count: int) -> list[Event]:
    """A service and two jobs, busy; their kernels overlap badly."""
    return [
        ReadingsTaken(
            number * TICK_NS,
            (
                served("web", requests=3, latency_ns=5e6 + number * 1e4),
                working("a", 0.5),
                working("b", 0.4),
            ),
            (sample("a", 40_000 + number), sample("a", 90_000, company=(B,)), sample("b", 30_000)),
        )
        for number in range(first, first + count)
    ]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Recorded from the fiftieth tick on, as `dure record` does."""
    machine = KernelMachine(SETTINGS)
    for number, tenant in enumerate((service("web", 20.0), Tenant(A), Tenant(B))):
        machine.handle(TenantJoined(number, tenant))
    for event in ticks(1, 50):
        machine.handle(event)
    lines = [encode_header(machine.settings, machine)]
    lines += [encode_entry(event, machine.handle(event)) for event in ticks(51, 100)]
    path = tmp_path / "recording.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def test_what_was_recorded_midway_replays_to_the_letter(recorded: Path) -> None:
    report = replay_journal(recorded)
    assert report.events == 100
    assert report.instructions > 0
    assert report.identical


def test_without_what_the_machine_knew_the_replay_differs(recorded: Path) -> None:
    head, *rest = recorded.read_text(encoding="utf-8").splitlines(keepends=True)
    new = json.loads(head) | {"image": None}
    recorded.write_text("".join([json.dumps(new) + "\n", *rest]), encoding="utf-8")
    assert not replay_journal(recorded).identical


def test_the_same_policy_would_have_decided_the_same_squads(recorded: Path) -> None:
    found = replay_policy(recorded, "slo")
    assert found.recorded_policy == "slo"
    assert found.events == 100
    assert found.seconds == pytest.approx(99 * TICK_NS / 1e9)
    assert {name for name, _, _ in found.tenants} == {"web", "a", "b"}


def test_another_policy_is_shown_where_it_would_decide_otherwise(recorded: Path) -> None:
    found = replay_policy(recorded, "jct")
    assert found.differing_share > 0.5
    assert found.moments
    assert found.moments[0].recorded.startswith("slo: ")
    assert found.moments[0].replayed.startswith("jct: ")
    held = {name: (was, would) for name, was, would in found.tenants}
    assert held[A][0] == pytest.approx(1.0), "jobs give way to a promise"


def test_the_command_shows_both_replays(recorded: Path) -> None:
    same = CliRunner().invoke(app, ["sim", "kernel", "--replay", str(recorded)])
    assert "identical." in same.output
    other = ["sim", "kernel", "--replay", str(recorded), "--policy", "jct"]
    assert "with 'jct' other squads" in CliRunner().invoke(app, other).output
    exported = json.loads(CliRunner().invoke(app, [*other, "--json"]).output)
    assert exported["policy"] == "jct"


def test_a_policy_without_a_recording_or_that_nobody_knows_is_refused(recorded: Path) -> None:
    without = CliRunner().invoke(app, ["sim", "kernel", "x.yaml", "--policy", "jct"])
    assert isinstance(without.exception, InputError)
    with pytest.raises(InputError, match="--policy"):
        replay_policy(recorded, "nobody")


def test_a_machine_of_another_version_is_told_in_a_sentence(recorded: Path) -> None:
    text = recorded.read_text(encoding="utf-8")
    assert "dure.kernel.trial:Trial" in text
    recorded.write_text(text.replace("dure.kernel.trial:Trial", "dure.kernel.trial:Gone"), "utf-8")
    for replay in (replay_journal, lambda path: replay_policy(path, "jct")):
        with pytest.raises(InputError, match="replay it with the version of Dure") as caught:
            replay(recorded)
        assert "\n" not in str(caught.value)


def test_a_cut_line_is_left_out_with_a_note(recorded: Path) -> None:
    recorded.write_bytes(recorded.read_bytes()[:-10])
    report = replay_journal(recorded)
    assert report.identical
    assert report.events == 99
    assert "cut off" in report.note
    assert "cut off" in replay_policy(recorded, "jct").note
