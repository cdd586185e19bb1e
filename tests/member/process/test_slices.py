"""A slice of a device is a tenant of the node's agent, with its limits; on an emulated GPU."""

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dure.client.api import AgentUnreachableError, find_agent
from dure.client.schema import TenantStatus
from dure.devices import library
from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.decisions import Placement
from dure.domain.fleet.slices import ShareMode
from dure.member.ports import Life
from dure.member.process.carrier import ProcessCarrier
from tests.member.core.factories import CLUSTER
from tests.member.process.beds import Eyes, end_all, nodes_in, start


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a short name: socket paths have a limit."""
    folder = Path(tempfile.mkdtemp(prefix="dure-slice-"))
    yield folder
    end_all(folder)
    with contextlib.suppress(AgentUnreachableError), find_agent(folder / "run") as client:
        os.kill(client.status().agent.pid, signal.SIGTERM)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
def test_a_slice_runs_as_a_tenant_with_its_limits_and_the_agent_outlives_it(short: Path) -> None:
    (short / "emulator").mkdir()
    nodes = nodes_in(
        short,
        f"""
nodes:
  - {{name: a, profile: h100, devices: 1, mode: mps,
      run_dir: {short}/run, emulator_dir: {short}/emulator}}
""",
    )
    slices = device_profile("h100").slices
    template = next(each for each in slices if each.mode is ShareMode.MPS)
    program = (str(library.path("dure-tenant")), "train", "--seconds", "600")
    placement = Placement(0, (0,), (), template.name, template.compute_milli)
    each = replace(start("job", program), placement=placement)

    def tenants() -> list[TenantStatus]:
        with find_agent(short / "run") as client:
            return list(client.status().tenants)

    async def scenario() -> None:
        eyes = Eyes(ProcessCarrier(CLUSTER, nodes, short / "state"))
        await eyes.begin()
        try:
            await eyes.carrier.start([each])
            await eyes.until("it to launch", lambda: any(one.launches for one in tenants()))
            with find_agent(short / "run") as client:
                (tenant,) = client.tenants()
            assert tenant.name == "job-1-0"
            assert tenant.spec.memory_limit_bytes == template.memory_bytes
            await eyes.carrier.stop(each.instance, 5.0)
            await eyes.until_life(each.instance, Life.GONE)
            await eyes.until("it to leave", lambda: not any(one.clients for one in tenants()))
        finally:
            await eyes.end()

    asyncio.run(scenario())
