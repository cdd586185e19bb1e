"""Launches on sets of compute units: moved while there is company, in order, and correct."""

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dure.devices.plane import PlaneDevice
from dure.domain.ids import TenantId
from dure.domain.plan import SmSet
from tests.native.compiling import native_build
from tests.shim.agents import StubAgent, member

pytestmark = pytest.mark.slow

LIMIT_S = 60
GRAPH_UNMOVED = 16
FLIPS = 20


@dataclass(frozen=True, slots=True)
class Bench:
    """An emulated GPU whose tenants overlap, and an agent for it."""

    library: Path
    folder: Path
    agent: StubAgent

    def environment(self, tenant: str) -> dict[str, str]:
        return {
            **{key: value for key, value in os.environ.items() if not key.startswith("DURE_")},
            "LD_LIBRARY_PATH": str(self.library / "emulator"),
            "LD_PRELOAD": str(self.library / "libdure.so"),
            "DURE_EMULATOR_DIR": str(self.folder),
            "DURE_SOCKET": str(self.agent.path),
            "DURE_TENANT": tenant,
        }

    def run_together(
        self, *commands: str, meanwhile: Callable[[], None] = lambda: None
    ) -> list[str]:
        """Tenants "t0", "t1" …; what each printed. All must find their results correct."""
        running = [
            subprocess.Popen(
                [str(self.library / "dure-tenant"), *shlex.split(command)],
                env=self.environment(f"t{number}"),
                stdout=subprocess.PIPE,
                text=True,
            )
            for number, command in enumerate(commands)
        ]
        try:
            meanwhile()
            printed = [process.communicate(timeout=LIMIT_S)[0] for process in running]
        finally:
            for process in running:
                process.kill()
        assert [process.returncode for process in running] == [0] * len(commands), printed
        return printed


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("emulated")
    native_build().build(folder)
    return folder


@contextmanager
def made(library: Path, tmp_path: Path, config: str = "", sms: int = 132) -> Iterator[Bench]:
    """Two tenants that are to have half of the groups each of a device the agent takes for `sms`
    wide."""
    folder = tmp_path / "gpu"
    folder.mkdir()
    (folder / "config").write_text(f"mode=mps\n{config}\n")
    device = PlaneDevice(
        sms=sms, group_sms=8, memory_bytes=80 << 30, uuid=b"\x44" * 16, side_by_side=True
    )
    half = sms // 16 * 8
    agent = StubAgent(tmp_path / "shim.sock", device)
    agent.segments.set_sample_every(32)
    agent.publish(
        member("t0", sms=SmSet(0, half), beside=(TenantId("t1"),)),
        member("t1", sms=SmSet(half, half), beside=(TenantId("t0"),)),
    )
    yield Bench(library, folder, agent)
    agent.close()


@pytest.fixture
def bench(library: Path, tmp_path: Path) -> Iterator[Bench]:
    with made(library, tmp_path) as found:
        yield found


@pytest.mark.parametrize(("config", "sms"), [("cluster_groups=14", 132), ("", 160)])
def test_each_has_its_half_of_a_device_with_fewer_groups_than_it_should_have(
    library: Path, tmp_path: Path, config: str, sms: int
) -> None:
    """Of 132 units: some can be had only with clusters broken, or the agent took it for wider."""
    with made(library, tmp_path, config, sms) as bench:
        bench.run_together("train --seconds 2", "train --seconds 2")
        for client in range(len(bench.agent.hellos)):
            assert bench.agent.read(client).counters.moved_launches > 0
            samples = bench.agent.segments.take_samples(client)
            assert {sample.sms for sample in samples} & {64}


@pytest.mark.parametrize("program", ["train", "train --legacy", "streams", "graph"])
def test_work_beside_others_keeps_to_its_set_and_stays_correct(bench: Bench, program: str) -> None:
    bench.run_together(f"{program} --seconds 2", "train --seconds 2")
    clients = {hello.tenant: number for number, hello in enumerate(bench.agent.hellos)}
    counters = bench.agent.read(clients[b"t0"]).counters
    assert counters.moved_launches > 0
    assert counters.fallbacks == 0
    assert counters.green_contexts == 1
    assert not counters.flags & GRAPH_UNMOVED
    samples = bench.agent.segments.take_samples(clients[b"t0"])
    confined = [sample for sample in samples if sample.sms == 64]
    # Not all of them: a launch keeps to its set also where the other one is between two steps.
    assert any(sample.company for sample in confined)


def test_alone_a_tenant_has_the_whole_device(bench: Bench) -> None:
    bench.run_together("train --seconds 1")
    counters = bench.agent.read(0).counters
    assert counters.moved_launches == 0
    assert {sample.sms for sample in bench.agent.segments.take_samples(0)} == {132}


def test_the_legacy_stream_stays_in_order_with_others_that_move_when_company_comes(
    bench: Bench,
) -> None:
    """Alone, most launches are only counted; from one moment to the next they are not to be."""
    gate = bench.agent.segments.set_gated
    gate(False)

    def come_and_go() -> None:
        for _ in range(FLIPS):
            time.sleep(0.1)
            gate(True)
            time.sleep(0.02)
            gate(False)

    chain = f"order --work-us 100 --seconds {FLIPS * 0.12:.1f}"
    bench.run_together(chain, chain, meanwhile=come_and_go)
    clients = {hello.tenant: number for number, hello in enumerate(bench.agent.hellos)}
    assert bench.agent.read(clients[b"t0"]).counters.moved_launches > 0
