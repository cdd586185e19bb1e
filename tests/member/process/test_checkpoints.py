"""Programs are asked for checkpoints by a file and answer by another; gentle starts end."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from dure.domain.errors import DureError
from dure.domain.fleet.decisions import InstanceId
from dure.domain.ids import WorkloadId
from dure.member.ports import Checkpointed, Life
from dure.member.process.folders import GENTLE_NICE, folder_of, may_hurry
from tests.member.core.factories import a_service
from tests.member.process.beds import eyes_on, python, start

SAVES = """
import time
from dure.client import checkpoint_done, checkpoint_requested
while not (number := checkpoint_requested()):
    time.sleep(0.05)
assert checkpoint_done(number) and checkpoint_requested() == 0
time.sleep(600)
"""


def test_a_program_finds_the_request_and_its_answer_is_seen_once(folder: Path) -> None:
    async def scenario() -> None:
        async with eyes_on(folder) as eyes:
            job = start("j", python(SAVES))
            await eyes.carrier.start([job])
            await eyes.until_life(job.instance, Life.READY)
            await eyes.carrier.request(job.instance, 7)
            saved = Checkpointed(job.instance, 7)
            await eyes.until("an answer", lambda: saved in eyes.sights)
            await eyes.carrier.request(job.instance, 0)
            control = folder_of(folder / "state" / "instances", job.instance).control
            assert not (control / "checkpoint").exists()
            assert eyes.sights.count(saved) == 1
        async with eyes_on(folder) as later:  # another member hears it again
            await later.until("the answer again", lambda: saved in later.sights)
            await later.carrier.stop(job.instance, 0.2)
            await later.until_life(job.instance, Life.GONE)

    asyncio.run(scenario())


def test_who_is_not_there_can_be_asked_without_harm(folder: Path) -> None:
    async def scenario() -> None:
        async with eyes_on(folder) as eyes:
            await eyes.carrier.request(InstanceId(WorkloadId("nobody"), 1, 0), 7)

    asyncio.run(scenario())


def test_a_program_that_cannot_be_asked_is_told_as_such(folder: Path) -> None:
    async def scenario() -> None:
        async with eyes_on(folder) as eyes:
            job = start("j", python("import time; time.sleep(600)"))
            await eyes.carrier.start([job])
            await eyes.until_life(job.instance, Life.READY)
            control = folder_of(folder / "state" / "instances", job.instance).control
            control.rmdir()
            control.touch()
            with pytest.raises(DureError, match="cannot be asked for a checkpoint"):
                await eyes.carrier.request(job.instance, 7)
            await eyes.carrier.stop(job.instance, 0.2)
            await eyes.until_life(job.instance, Life.GONE)

    asyncio.run(scenario())


LISTENS = """
import os, socket, time, pathlib
while not pathlib.Path("{go}").exists():
    time.sleep(0.02)
door = socket.create_server(("127.0.0.1", int(os.environ["DURE_PORT"])))
time.sleep(600)
"""


def test_a_gentle_start_lets_others_go_first_until_it_answers(folder: Path) -> None:
    go = folder / "go"

    async def scenario() -> None:
        async with eyes_on(folder) as eyes:
            wanted = replace(a_service("s"), gentle=True)
            service = start("s", python(LISTENS.format(go=go)), port=8000, desired=wanted)
            await eyes.carrier.start([service])
            await eyes.until_life(service.instance, Life.RUNNING)
            facts = folder_of(folder / "state" / "instances", service.instance).facts()
            assert facts.running is not None
            pid = int(facts.running["pid"])
            before = os.getpriority(os.PRIO_PROCESS, pid)
            assert before == (GENTLE_NICE if may_hurry() else 0)
            go.touch()
            await eyes.until_life(service.instance, Life.READY)
            assert os.getpriority(os.PRIO_PROCESS, pid) == 0
            await eyes.carrier.stop(service.instance, 0.2)
            await eyes.until_life(service.instance, Life.GONE)

    asyncio.run(scenario())
