"""Which ways to pause are used, which GPUs are named how, and what is kept over a restart."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from dure.agent.containers.care import expecting, gpu_names, usable
from dure.agent.containers.remembering import Memory
from dure.agent.options import ContainerOptions
from dure.client.containers import PauseWith
from dure.devices.nvml import GpuFacts
from dure.domain.containers import Container, PauseWay
from dure.domain.errors import DureError, InputError
from dure.node.history import ImageRecord
from dure.runtimes.cuda_driver import CudaDriver

LOCK, DOCKER = PauseWay.CUDA_LOCK, PauseWay.DOCKER
UUID = "GPU-00000000-1111-2222-3333-444444444444"


@dataclass
class Way:
    """A way to pause of which only one thing is asked."""

    way: PauseWay
    reason: str | None = None
    away: bool = False

    def unsupported(self) -> str | None:
        if self.away:
            raise DureError("nobody answers")
        return self.reason

    def pause(self, container: Container) -> None:
        raise AssertionError

    def resume(self, container: Container) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    ("wanted", "lock", "docker", "used"),
    [
        ("auto", None, None, [LOCK, DOCKER]),
        ("auto", "no lock", None, [DOCKER]),
        ("auto", None, "no cgroups", [LOCK]),
        ("auto", "no lock", "no cgroups", []),
        ("docker", None, None, [DOCKER]),
        ("cuda-lock", None, None, [LOCK]),
        ("cuda-lock", None, "no cgroups", [LOCK]),
    ],
)
def test_what_works_is_used_best_first(
    wanted: PauseWith, lock: str | None, docker: str | None, used: list[PauseWay]
) -> None:
    assert list(usable(wanted, Way(LOCK, lock), Way(DOCKER, docker))) == used


@pytest.mark.parametrize(
    ("wanted", "lock", "docker", "words"),
    [
        ("cuda-lock", "the driver has no process lock", None, "has no process lock"),
        ("docker", None, "Docker has no cgroups", "has no cgroups"),
    ],
)
def test_the_way_that_was_asked_for_and_does_not_work_is_refused(
    wanted: PauseWith, lock: str | None, docker: str | None, words: str
) -> None:
    with pytest.raises(InputError, match=f"--pause-with: .*{words}"):
        usable(wanted, Way(LOCK, lock), Way(DOCKER, docker))


def test_a_docker_that_is_away_may_come_later() -> None:
    assert list(usable("docker", Way(LOCK), Way(DOCKER, away=True))) == [DOCKER]


@pytest.mark.parametrize(
    ("dry_run", "ways", "used"),
    [(False, [LOCK, DOCKER], True), (False, [DOCKER], False), (True, [LOCK, DOCKER], False)],
)
def test_helpers_of_the_lock_are_made_ready_only_where_it_will_be_used(
    dry_run: bool, ways: list[PauseWay], used: bool
) -> None:
    driver = CudaDriver()
    expect = expecting(ContainerOptions(dry_run=dry_run), ways, driver)
    assert (expect == driver.expect) is used


def test_the_environment_gives_a_gpu_on_the_emulator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = GpuFacts(0, UUID, "H200", 1, 132, (9, 0), minor=3)
    monkeypatch.delenv("DURE_EMULATOR_DIR", raising=False)
    names = gpu_names([facts])
    assert (names.named(["0"]), names.by_minor(3), names.by_minor(0)) == ((UUID,), (UUID,), ())
    assert not names.environment_counts
    monkeypatch.setenv("DURE_EMULATOR_DIR", "/x")
    assert gpu_names([facts]).environment_counts


def test_what_was_learned_is_kept(tmp_path: Path) -> None:
    records = (ImageRecord("job:1", 5 << 30, (10**9, 2 * 10**9), share=0.9),)
    memory = Memory(tmp_path / "history.json", lambda: records)
    assert memory.load() == ()
    memory.start()
    memory.stop()
    assert Memory(tmp_path / "history.json").load() == records


@pytest.mark.parametrize("text", ["", "{", '[{"image": 5}]', "\x00"])
def test_a_history_that_makes_no_sense_is_left_out(tmp_path: Path, text: str) -> None:
    file = tmp_path / "history.json"
    file.write_text(text, encoding="utf-8")
    assert Memory(file).load() == ()


def test_a_history_that_cannot_be_written_is_no_harm(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    file = tmp_path / "file" / "history.json"
    memory = Memory(file, lambda: (ImageRecord("job:1", 5),))
    memory.start()
    memory.stop()
    assert not file.exists()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(file) in caplog.text
