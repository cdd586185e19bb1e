"""People and containers: names resolved in one clear sentence, wishes done, strangers refused."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dure.agent.containers.answers import ContainerDesk, UnknownContainerError, find_container
from dure.agent.containers.monitor_process import MonitorProcess
from dure.agent.registry import ForbiddenError
from dure.agent.wire import Peer
from dure.domain.containers import Container
from dure.domain.errors import InputError
from dure.domain.ids import ContainerId
from tests.agent.containers.stand import Stand, container, wait_for

A, B = container(1), container(2)
PLAIN = container(3, gpus=())
ME = Peer(os.getpid(), os.getuid())


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    made = Stand(tmp_path / "run")
    made.start()
    made.guard()
    made.begin(A, B, PLAIN)
    yield made
    made.stop()


@pytest.fixture
def desk(stand: Stand) -> ContainerDesk:
    return ContainerDesk(stand.manager, MonitorProcess(), os.getuid())


def named(id_: str, name: str) -> Container:
    return container(0, id=ContainerId(id_), name=name)


def test_a_container_is_found_by_name_id_and_beginning_of_its_id() -> None:
    known = [named("ab12" + "0" * 60, "web"), named("ab34" + "0" * 60, "train")]
    assert [find_container(text, known).name for text in ("web", "ab34", "AB12")] == [
        "web",
        "train",
        "web",
    ]
    assert find_container(known[1].id, known).name == "train"


def test_a_name_goes_before_the_beginning_of_an_id() -> None:
    known = [named("ab12" + "0" * 60, "web"), named("cd34" + "0" * 60, "ab")]
    assert find_container("ab", known).id.startswith("cd34")


def test_what_could_be_two_containers_is_refused_with_both_names() -> None:
    known = [named("ab12" + "0" * 60, "web"), named("ab34" + "0" * 60, "train")]
    with pytest.raises(InputError, match=r"'ab' could be train \(ab34.* or web \(ab12"):
        find_container("ab", known)


@pytest.mark.parametrize("text", ["nobody", "", "zz"])
def test_an_unknown_container_is_refused_with_those_there_are(text: str) -> None:
    known = [named("ab12" + "0" * 60, "web")]
    with pytest.raises(UnknownContainerError, match="is running; there is web"):
        find_container(text, known)


def test_a_person_pauses_and_resumes(stand: Stand, desk: ContainerDesk) -> None:
    after = desk.pause("box1", ME)
    assert (after.state, after.way) == ("paused by a person", "docker")
    assert stand.keeps(A)
    assert desk.resume(A.id[:64], ME).state == "idle"
    assert stand.runtime.runs(A.id)


def test_what_a_person_paused_outlasts_watchdog_and_agent(
    stand: Stand, desk: ContainerDesk
) -> None:
    desk.pause("box1", ME)
    stand.guard(watchdog=False, monitor=False)
    wait_for("the troubles", lambda: len(desk.status().troubles) == 2)
    assert stand.keeps(A)
    assert stand.owed() == (), "nobody but a person lets it go"
    stand.manager.stop()
    assert stand.keeps(A)


def test_a_person_takes_over_a_pause_of_dure(stand: Stand, desk: ContainerDesk) -> None:
    stand.hold(A, B)
    desk.pause("box2", ME)
    stand.runtime.end(A.id)
    wait_for("the end of box1", lambda: A.id not in stand.manager.containers)
    time.sleep(0.1)
    assert stand.keeps(B)
    assert stand.owed() == ()
    desk.resume("box2", ME)
    assert stand.runtime.runs(B.id)


def test_a_pause_by_the_runtime_itself_is_ended_by_a_person_here(
    stand: Stand, desk: ContainerDesk
) -> None:
    stand.runtime.freeze(A.id)
    wait_for("it is known", lambda: stand.state(A) == "paused by a person")
    after = desk.resume("box1", ME)
    assert stand.runtime.runs(A.id)
    assert after.state == "idle"


def test_an_exempt_container_says_so_until_it_is_not(desk: ContainerDesk) -> None:
    assert desk.exempt("box1", True, ME).state == "exempt"
    assert desk.exempt("box1", False, ME).state == "idle"


def test_a_container_without_gpu_is_never_touched(desk: ContainerDesk) -> None:
    with pytest.raises(InputError, match="box3 has no GPU, so it is never touched"):
        desk.pause("box3", ME)
    status = desk.status()
    assert status.without_gpu == 1
    assert {each.name for each in status.containers} == {"box1", "box2"}


def test_other_users_may_look_and_not_touch(desk: ContainerDesk) -> None:
    stranger = Peer(os.getpid(), os.getuid() + 1)
    with pytest.raises(ForbiddenError, match="only root"):
        desk.pause("box1", stranger)
    assert desk.why("box1").name == "box1"


def test_why_answers_in_sentences(stand: Stand, desk: ContainerDesk) -> None:
    stand.hold(A, B)
    sentences = desk.why("box2").sentences
    assert sentences
    assert any("box1" in sentence or "others" in sentence for sentence in sentences)


def test_the_status_says_why_nothing_is_paused(stand: Stand, desk: ContainerDesk) -> None:
    assert desk.status().troubles == ()
    stand.guard(watchdog=False)
    wait_for("the trouble", lambda: desk.status().troubles == ("the watchdog is gone",))


def test_moments_are_sent_as_lengths_of_time(stand: Stand, desk: ContainerDesk) -> None:
    stand.hold(A, B)
    (held,) = [each for each in desk.status().containers if each.name == "box2"]
    assert held.state == "queued"
    assert held.queue_place == 1
    assert held.resume_in_ns is not None
    assert 0 < held.resume_in_ns < 3600 * 10**9
