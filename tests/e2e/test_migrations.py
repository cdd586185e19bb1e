"""Jobs that move between two clusters of real processes, and stay when somebody calls that off."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator

import httpx
import pytest

from dure.api.migrations import MigrationDocument, MigrationRequest
from dure.client.fleet import FleetError, calls
from dure.domain.fleet.lifecycle import AttemptState, JobPhase
from dure.domain.fleet.migrations import MoveStep
from tests.e2e.beds import SERVICE, Fleet, Load, running
from tests.e2e.conftest import DURE, LIMIT_S
from tests.e2e.test_fleet_of_processes import fleet
from tests.kube.ports import free_port

__all__ = ["fleet"]
pytestmark = pytest.mark.slow

TRAINER = """
import json, os, pathlib, sys, time
from dure.client import checkpoint_done, checkpoint_requested, report_progress

folder, total, obeys = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "obeys"
saved, log = folder / "saved.json", folder / "steps.log"
step = json.loads(saved.read_text())["step"] if saved.exists() else 0
while step < total and not (folder / "enough").exists():
    step += 1
    with log.open("a") as out:
        out.write(f"{step} {os.environ['DURE_ATTEMPT']}\\n")
    report_progress(step, total, 0)
    time.sleep(0.02)
    number = checkpoint_requested()
    if number and obeys:
        draft = folder / "draft"
        draft.write_text(json.dumps({"step": step}))
        draft.rename(saved)
        checkpoint_done(number)
        while True:  # until it is told to end: what it did now would be done again
            time.sleep(0.05)
"""
ANSWERER = """
import http.server, os, time
time.sleep(float(os.environ.get("WARMS_S", "0")))
class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        said = os.environ["DURE_ATTEMPT"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["DURE_PORT"])), Answer).serve_forever()
"""


def _start_patiently(fleet: Fleet) -> None:
    """A server whose services take their time, so that no step is over before it was seen."""
    settings = fleet.folder / "server.yaml"
    settings.write_text("shift-s: 6\ndrain-s: 15\n", encoding="utf-8")
    listen = ("--listen", f"127.0.0.1:{fleet.rest}", "--grpc", f"127.0.0.1:{fleet.grpc}")
    words = ("--data", str(fleet.folder / "server"), "--config", str(settings))
    fleet._start("server", "server", *words, *listen)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """A fleet with such a server."""
    monkeypatch.setattr(Fleet, "start_server", _start_patiently)
    with running(Fleet) as made:
        yield made


class Moves:
    """Migrations of one job, by the client and by the command."""

    def __init__(self, fleet: Fleet, job: str) -> None:
        self.fleet, self.job = fleet, job

    def begin(self, **wish: object) -> MigrationDocument:
        return self.fleet.client.do(
            calls.migrate_job(self.job, MigrationRequest.model_validate(wish))
        )

    def abort(self) -> MigrationDocument:
        return self.fleet.client.do(calls.abort_migration(self.job))

    def now(self) -> MigrationDocument:
        return self.fleet.client.do(calls.get_migration(self.job))

    def until(self, *steps: MoveStep) -> MigrationDocument:
        def there() -> bool:
            found = self.now()
            assert found.step in steps or found.ended_at is None, found
            return found.step in steps

        self.fleet.until(f"{self.job} in {steps}", there)
        return self.now()

    def command(self, *words: str, code: int = 0) -> str:
        token = (self.fleet.folder / "server" / "admin-token").read_text().strip()
        centre = {"DURE_SERVER": f"http://127.0.0.1:{self.fleet.rest}", "DURE_TOKEN": token}
        done = subprocess.run(
            [*DURE, *words],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env=centre,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout


def trainer(fleet: Fleet, total: int, word: str, **gang: object) -> str:
    (fleet.folder / "trainer.py").write_text(TRAINER, encoding="utf-8")
    line = f"exec {sys.executable} {fleet.folder}/trainer.py {fleet.folder} {total} {word}"
    return fleet.submit("train", line, kind="training", work="10h", gang=gang)


def steps(fleet: Fleet) -> list[tuple[int, int]]:
    """Every step that was done, with its attempt."""
    with contextlib.suppress(FileNotFoundError):
        lines = (fleet.folder / "steps.log").read_text().splitlines()
        return [(int(line.split()[0]), int(line.split()[1])) for line in lines]
    return []


def test_training_moves_at_a_checkpoint_and_no_step_is_lost_or_done_twice(fleet: Fleet) -> None:
    fleet.add_cluster("other")
    job = trainer(fleet, 10**6, "obeys", checkpointSize="2GiB")
    moves = Moves(fleet, job)
    fleet.until("some steps", lambda: len(steps(fleet)) > 20)
    fleet.until_phase(job, JobPhase.RUNNING)
    old = fleet.job(job).cluster
    target = "other" if old == "local" else "local"
    preview = json.loads(moves.command("migrate", job, "--to", target, "--dry-run", "--json"))
    assert preview["kind"] == "checkpoint"
    assert preview["steps"] == ["saving", "releasing", "resuming", "done"]
    assert (preview["fromSite"], preview["toSite"]) == (f"{old}/gpu", f"{target}/gpu")
    assert preview["pauseSeconds"] > 0
    said = moves.command("migrate", job, "--to", target, "--wait")
    assert said.splitlines()[-1].startswith(f"migration (checkpoint) {old} → {target}: done")
    fleet.until("steps at the new place", lambda: steps(fleet)[-1][1] == 2)
    (fleet.folder / "enough").touch()
    fleet.until_phase(job, JobPhase.SUCCEEDED)
    first, second = fleet.job(job).attempts
    assert (first.cluster, second.cluster) == (old, target)
    assert first.gone_at is not None
    assert second.committed_at is not None
    assert first.gone_at <= second.committed_at
    done = steps(fleet)
    assert [step for step, _ in done] == list(range(1, len(done) + 1))
    numbers = [attempt for _, attempt in done]
    assert numbers == sorted(numbers)
    assert set(numbers) == {1, 2}


def test_training_stays_when_no_checkpoint_comes_or_somebody_calls_it_off(fleet: Fleet) -> None:
    fleet.add_cluster("other")
    job = trainer(fleet, 10**6, "ignores", checkpointWait="2s")
    moves = Moves(fleet, job)
    fleet.until_phase(job, JobPhase.RUNNING)
    old = fleet.job(job).cluster
    moves.begin()
    row = moves.until(MoveStep.UNDONE)
    assert row.reason == "no checkpoint came within 2 s: it stays"
    moves.begin()
    moves.until(MoveStep.SAVING)
    asked = f"state/{old}/instances/{job}.1.0/control/checkpoint"
    fleet.until("the request to be there", (fleet.folder / asked).exists)
    assert moves.abort().aborted_by
    assert "called off" in moves.until(MoveStep.UNDONE).reason
    fleet.until("the request to be gone", lambda: not (fleet.folder / asked).exists())
    seen = len(steps(fleet))
    fleet.until("it goes on", lambda: len(steps(fleet)) > seen + 20)
    found = fleet.job(job)
    assert (found.phase, found.cluster) == (JobPhase.RUNNING, old)
    states = [each.state for each in found.attempts]
    assert states == [AttemptState.RUNNING, AttemptState.GONE, AttemptState.GONE]
    assert {attempt for _, attempt in steps(fleet)} == {1}
    # Who does not want it moved at all says so.
    moves.command("pin", job)
    with pytest.raises(FleetError, match="is pinned; unpin it first"):
        moves.begin()
    moves.command("unpin", job)
    (fleet.folder / "enough").touch()
    fleet.until_phase(job, JobPhase.SUCCEEDED)


def service(fleet: Fleet) -> tuple[str, str]:
    """A service and a front before it; the address."""
    (fleet.folder / "answer.py").write_text(ANSWERER, encoding="utf-8")
    port, token = free_port(), (fleet.folder / "server" / "admin-token").read_text().strip()
    centre = {"DURE_SERVER": f"http://127.0.0.1:{fleet.rest}", "DURE_TOKEN": token}
    line = f"exec {sys.executable} {fleet.folder}/answer.py"
    more = {"service": {**SERVICE, "warm": 1, "most": 1}, "env": {"WARMS_S": "2"}}
    job = fleet.submit("chat", line, kind="serving", work=None, port=8000, **more)
    fleet.until_phase(job, JobPhase.RUNNING)
    fleet._start("front", "front", job, "--listen", f"127.0.0.1:{port}", env=centre)
    url = f"http://127.0.0.1:{port}/"

    def answered() -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(url, timeout=LIMIT_S).is_success
        return False

    fleet.until("an answer", answered)
    return job, url


def until_all_at(fleet: Fleet, load: Load, attempt: int) -> None:
    """Wait until one attempt answers everything."""
    wanted = {str(attempt)}
    fleet.until(
        f"attempt {attempt} has all requests",
        lambda: {each[2] for each in load.since(time.monotonic() - 0.5)} == wanted,
    )


def until_gone(fleet: Fleet, job: str, attempt: int) -> None:
    fleet.until(
        f"attempt {attempt} is gone",
        lambda: fleet.job(job).attempts[attempt - 1].state is AttemptState.GONE,
    )


def test_a_service_that_is_called_off_at_each_step_serves_on_at_its_old_place(
    patient: Fleet,
) -> None:
    fleet = patient
    fleet.add_cluster("other")
    job, url = service(fleet)
    moves, old = Moves(fleet, job), fleet.job(job).cluster
    with Load(url, 20.0) as load:
        fleet.until("answers", lambda: len(load.answers) > 20)
        for number, step in enumerate((MoveStep.WARMING, MoveStep.SHIFTING, MoveStep.DRAINING)):
            moves.begin()
            moves.until(step)
            if step is MoveStep.DRAINING:
                until_all_at(fleet, load, number + 2)
            moves.abort()
            moves.until(MoveStep.UNDONE)
            until_all_at(fleet, load, 1)
            until_gone(fleet, job, number + 2)
            found = fleet.job(job)
            assert (found.phase, found.cluster) == (JobPhase.RUNNING, old)
            assert found.attempts[0].state is AttemptState.RUNNING
        # And not called off it moves.
        moves.begin()
        moves.until(MoveStep.RELEASING, MoveStep.DONE)
        with pytest.raises(FleetError, match=r"told to end|no migration under way"):
            moves.abort()
        moves.until(MoveStep.DONE)
        until_all_at(fleet, load, 5)
    assert [each for each in load.answers if not each[2]] == []
    assert "→" in moves.command("explain", job)
