"""A centre that plans is recorded over REST, and the recording decides the same again."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from dure.cli.main import app as command
from dure.client.fleet.config import SERVER_VARIABLE, TOKEN_VARIABLE
from dure.domain.errors import DureError, InputError
from dure.domain.fleet.accounts import Role
from dure.domain.fleet.clusters import Fleet
from dure.domain.fleet.events import PolicySet, RoundDue
from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.fleet.policy import FleetPolicy
from dure.fleet.global_machine import GlobalMachine
from dure.fleet.global_settings import GlobalSettings
from dure.kit.taps import Bounds, poured
from dure.server.main import _rest as served
from dure.server.recording import MOST_AT_ONCE, FleetTap, Recorder, header, line_of
from dure.server.rest.app import build_app
from dure.sim.fleet.replay import replay
from dure.stores.repos.access import AuditFilter, Grant
from tests.kube.ports import free_port
from tests.server.centres import QUICK, World, world
from tests.server.members import linked
from tests.stores.helpers import asynchronous

PLACED = (JobPhase.PLACED, JobPhase.RUNNING)
RECORDED_S = 3.0


async def asking(here: World) -> httpx.AsyncClient:
    """An administrator at the door of the centre."""
    async with here.store.transaction() as tx:
        _, secret = await tx.tokens.issue(Grant(Role.ADMIN, "ann"))
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(build_app(here.core.services)),
        base_url="http://centre",
        headers={"Authorization": f"Bearer {secret}"},
        timeout=60.0,
    )


async def recorded(here: World) -> bytes:
    """Some seconds in which jobs come to a centre that has placed others before."""

    async def let_in() -> bool:
        recorder = here.core.services.recorder
        return bool(recorder.taps) and not recorder.waiting

    member = linked(here.port, here.secrets["seoul"], "seoul")
    async with await asking(here) as http, member as seoul:
        await seoul.join()
        for _ in range(2):
            await here.phase(await here.submit(), *PLACED)
        wanted = {"seconds": RECORDED_S}
        recording = asyncio.create_task(http.get("/v1/recording", params=wanted))
        await here.until(let_in, "the planner lets the recording in")
        for _ in range(3):
            await here.phase(await here.submit(), *PLACED)
        answer = await recording
    assert answer.status_code == 200, answer.text
    return answer.content


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a real centre with one cluster."""
    folder = tmp_path_factory.mktemp("recording")
    path = folder / "fleet.jsonl"

    @asynchronous
    async def make() -> None:
        async with world(f"sqlite:///{folder / 'state.db'}") as here:
            path.write_bytes(await recorded(here))

    make()
    return path


def test_a_recorded_centre_decides_the_same_again(recording: Path) -> None:
    found = replay(recording)
    assert found.placements >= 3
    assert dict(found.kinds)["WorkloadSubmitted"] == 3, "those before are in the machine's memory"
    assert found.machines == 1
    assert (found.differing, found.differences, found.note) == (0, (), "")


def test_the_command_replays_and_exports(recording: Path) -> None:
    shown = CliRunner().invoke(command, ["sim", "fleet", "--replay", str(recording)])
    assert "identical." in shown.output, shown.output
    exported = ["sim", "fleet", "--replay", str(recording), "--json"]
    assert json.loads(CliRunner().invoke(command, exported).output)["differing"] == 0


def test_another_answer_is_named_with_its_line(recording: Path, tmp_path: Path) -> None:
    lines = recording.read_text(encoding="utf-8").splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if "PlaceWorkload" in line)
    line = json.loads(lines[at]) | {"answer": [["tuple", [1]], ["list"]]}
    lines[at] = json.dumps(line) + "\n"
    changed = tmp_path / "changed.jsonl"
    changed.write_text("".join(lines), encoding="utf-8")
    assert replay(changed).differences[0].line == at + 1
    told = CliRunner().invoke(command, ["sim", "fleet", "--replay", str(changed)])
    assert isinstance(told.exception, DureError)
    assert f"line {at + 1}" in str(told.exception)


@pytest.mark.parametrize(
    ("old", "new", "story"),
    [
        ('"version":1', '"version":7', "format version 7"),
        ("dure-fleet-journal", "dure-kernel-journal", "no recording of a fleet"),
        ("dure.fleet.global_state:GlobalState", "dure.fleet.global_state:Gone", "does not know"),
        ('{"event"', '{"deed"', "neither a machine nor an event"),
        ('{"image"', '{"image', "is no JSON object"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_sentence(
    recording: Path, tmp_path: Path, old: str, new: str, story: str
) -> None:
    text = recording.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "bad.jsonl"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError, match=story) as caught:
        replay(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_cut_line_is_left_out_with_a_note(recording: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_bytes(recording.read_bytes()[:-5])
    found = replay(path)
    assert found.differing == 0
    assert "cut off" in found.note


@asynchronous
async def test_only_a_server_that_plans_can_be_recorded_and_not_by_many(tmp_path: Path) -> None:
    async with world(f"sqlite:///{tmp_path / 'state.db'}") as here, await asking(here) as http:

        async def leads() -> bool:
            return here.core.services.leads()

        await here.until(leads, "it leads")
        taps = [here.core.services.recorder.open() for _ in range(MOST_AT_ONCE)]
        assert None not in taps
        assert (await http.get("/v1/recording")).status_code == 409
        lease, here.core.leader.lease = here.core.leader.lease, None
        away = await http.get("/v1/recording")
        here.core.leader.lease = lease
        assert (away.status_code, away.json()["type"]) == (503, "urn:dure:problem:not-leader")


def machine() -> GlobalMachine:
    return GlobalMachine(GlobalSettings(Fleet(())))


@asynchronous
async def test_the_command_records_a_centre_over_rest(tmp_path: Path) -> None:
    port = free_port()
    listening = replace(QUICK.listening, rest_host="127.0.0.1", rest_port=port)
    path = tmp_path / "fleet.jsonl"
    async with (
        world(f"sqlite:///{tmp_path / 'state.db'}") as here,
        served(build_app(here.core.services), listening),
    ):
        async with here.store.transaction() as tx:
            _, secret = await tx.tokens.issue(Grant(Role.ADMIN, "ann"))
        env = {SERVER_VARIABLE: f"http://127.0.0.1:{port}", TOKEN_VARIABLE: secret}
        asked = ["record", str(path), "--level", "fleet", "--for", "2s"]
        await here.submit()
        done = await asyncio.to_thread(CliRunner().invoke, command, asked, env=env)
        async with here.store.reading() as tx:
            audit = await tx.audit.page(AuditFilter(action="recording.begin"), cursor="", limit=9)
    assert done.exit_code == 0, (done.output, done.exception)
    assert f"dure sim fleet --replay {path}" in done.output
    assert replay(path).differing == 0
    assert [row.subject for row in audit.rows] == ["planner"]


@asynchronous
async def test_a_planner_that_begins_anew_hands_out_its_new_machine(tmp_path: Path) -> None:
    recorder, first, second = Recorder(), machine(), machine()
    tap: FleetTap | None = recorder.open()
    assert tap is not None
    recorder.note(RoundDue(1), [])
    await recorder.let_in(first)
    recorder.note(RoundDue(2), first.handle(RoundDue(2)))
    recorder.begin_anew()
    recorder.note(RoundDue(3), [])
    await recorder.let_in(second)
    switched = PolicySet(4, FleetPolicy())
    recorder.note(switched, second.handle(switched))
    recorder.end("the test is over")
    path = tmp_path / "two.jsonl"
    parts = [data async for data in poured(tap, line_of, Bounds(60.0, 10**7), header())]
    path.write_bytes(b"".join(parts))
    found = replay(path)
    assert (found.machines, found.events, found.differing) == (2, 2, 0)
