"""A running agent is recorded over its socket, and the recording decides the same again."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dure.agent.desk import Desk
from dure.agent.recording import MOST_AT_ONCE, RecordingDesk
from dure.agent.registry import ForbiddenError
from dure.agent.wire import Peer
from dure.cli.main import app
from dure.client.places import RUN_DIR_VARIABLE
from dure.client.recordings import RecordingQuery
from dure.client.schema import LatencyPromise, PolicyRequest, TenantSpec
from dure.domain.errors import DureError, InputError
from dure.kit.files import FileProblem
from dure.sim.kernel.journal import replay_journal
from dure.sim.kernel.replay import replay_policy
from tests.agent.conftest import Bench, first_line, wait_for

WEB = TenantSpec(latency_slo=LatencyPromise(target_ns=5_000_000), keep=True)
TRAIN = TenantSpec(tenant_class="best-effort", keep=True)


@pytest.fixture
def busy(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A service beside training, for long enough that something is known of them."""
    client = bench.start_agent()
    client.declare("web", WEB)
    client.declare("train", TRAIN)
    for tenant, mode in (("web", "serve"), ("train", "train")):
        assert first_line(bench.start(tenant, mode)).startswith("ready")
    wait_for("a hold", lambda: client.why("train").held_ns > 10_000_000)
    monkeypatch.setenv(RUN_DIR_VARIABLE, str(bench.folder))
    return bench


def test_a_busy_gpu_is_recorded_midway_and_replays_to_the_letter(
    busy: Bench, tmp_path: Path
) -> None:
    path = tmp_path / "gpu.jsonl"
    done = CliRunner().invoke(app, ["record", str(path), "--for", "2s"])
    assert done.exit_code == 0, done.output
    assert f"dure sim kernel --replay {path}" in done.output
    assert path.stat().st_mode & 0o777 == 0o600, "it tells what all tenants do"
    report = replay_journal(path)
    assert report.events > 20
    assert report.identical, report.first_mismatch
    assert replay_policy(path, "jct").events == report.events


def test_a_switch_of_policy_is_in_the_recording(busy: Bench) -> None:
    client, other = busy.client(), busy.client()
    lines = client.record(RecordingQuery(seconds=30.0))
    next(lines)
    other.set_policy(PolicyRequest(policy="jct"))
    text = b""
    for data in lines:
        text += data
        if b'"PolicySwitched"' in text:
            break
    assert b'"PolicyRequested"' in text
    lines.close()  # type: ignore[attr-defined]
    recording = RecordingQuery(seconds=0.1)
    wait_for("the end of the first", lambda: list(other.record(recording)))


def test_it_ends_within_its_size_at_the_end_of_a_line(busy: Bench) -> None:
    client = busy.client()
    whole = b"".join(client.record(RecordingQuery(seconds=1.0)))
    most = len(whole) - 100
    short = b"".join(client.record(RecordingQuery(seconds=30.0, most_bytes=most)))
    assert len(short) <= most
    assert all(json.loads(line) for line in short.splitlines())
    with pytest.raises(InputError, match="--most"):
        list(client.record(RecordingQuery(most_bytes=10)))


def test_what_cannot_be_recorded_is_refused_in_a_sentence(busy: Bench, tmp_path: Path) -> None:
    run = CliRunner()
    path = tmp_path / "x.jsonl"
    wrong = run.invoke(app, ["record", str(path), "--gpu", "9"])
    assert "there is no GPU '9'" in str(wrong.exception)
    assert not path.exists(), "nothing is left of what could not begin"
    nobody = run.invoke(app, ["record", str(path), "--level", "node"])
    assert isinstance(nobody.exception, DureError)
    long = run.invoke(app, ["record", str(path), "--for", "2d"])
    assert "lasts 3600 s" in str(long.exception)
    path.write_text("mine", encoding="utf-8")
    there = run.invoke(app, ["record", str(path), "--for", "1s"])
    assert isinstance(there.exception, FileProblem)
    assert path.read_text(encoding="utf-8") == "mine"
    away = run.invoke(app, ["record", str(tmp_path / "no" / "x"), "--for", "1s"])
    assert isinstance(away.exception, FileProblem)


def test_only_some_are_made_at_once(busy: Bench) -> None:
    client = busy.client()
    clients = [busy.client() for _ in range(MOST_AT_ONCE)]
    running = [each.record(RecordingQuery(seconds=30.0)) for each in clients]
    for each in running:
        next(each)
    with pytest.raises(InputError, match="under way"):
        list(client.record(RecordingQuery()))
    for each in running:
        each.close()  # type: ignore[attr-defined]


def test_another_user_may_not_see_what_all_tenants_do() -> None:
    desk = RecordingDesk(object.__new__(Desk), uid=1000)
    with pytest.raises(ForbiddenError, match="user 1000"):
        desk.begin(RecordingQuery(), Peer(pid=1, uid=1001))
