"""The fleet as a person uses it: a real server, a real member, real programs, and deaths."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator

import httpx
import pytest

from dure.api.clusters import NodeDocument, PartitionDocument
from dure.client.fleet import calls
from dure.domain.fleet.lifecycle import AttemptState, ClusterState, JobPhase, PartitionPhase
from tests.e2e.beds import ANSWER, SERVICE, Fleet, Load, running
from tests.e2e.conftest import LIMIT_S
from tests.kube.ports import free_port


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with running(Fleet) as made:
        yield made


@pytest.mark.slow
def test_commands_of_the_host_run_to_their_ends_and_what_they_wrote_comes_back(
    fleet: Fleet,
) -> None:
    good = fleet.submit("good", "echo hello from $DURE_JOB attempt $DURE_ATTEMPT")
    bad = fleet.submit("bad", "echo oops >&2; exit 3")
    gang = fleet.submit("gang", "echo rank $DURE_RANK of $DURE_WORLD_SIZE", gang=2)
    long = fleet.submit("long", "echo up; exec sleep 600")
    fleet.until_phase(good, JobPhase.SUCCEEDED)
    fleet.until_phase(bad, JobPhase.FAILED)
    fleet.until_phase(gang, JobPhase.SUCCEEDED)
    fleet.until_phase(long, JobPhase.RUNNING)
    follow = fleet.client.logs(long, follow=True)
    assert next(follow) == b"up\n"
    follow.close()  # type: ignore[attr-defined]
    fleet.client.do(calls.cancel_job(long))
    fleet.until_phase(long, JobPhase.CANCELLED)
    said = b"".join(fleet.client.logs(good)).decode()
    assert said == f"hello from {good} attempt 1\n"
    assert b"".join(fleet.client.logs(bad)) == b"oops\n"
    assert not list((fleet.folder / "state").glob(f"*/instances/{long}*"))


@pytest.mark.slow
def test_nothing_is_lost_or_doubled_when_member_and_server_are_killed(fleet: Fleet) -> None:
    mark = fleet.folder / "mark"
    wait = f"while ! test -e {fleet.folder}/go; do sleep 0.05; done"
    line = f"echo {{}} >> {mark}; {wait}; echo done"
    jobs = {name: fleet.submit(name, line.format(name)) for name in ("a", "b", "c")}
    for job in jobs.values():
        fleet.until_phase(job, JobPhase.RUNNING)
    fleet.kill("member")
    fleet.start_member()
    fleet.kill("server")
    fleet.start_server()
    fleet.until("the server to answer", fleet._answers)
    late = fleet.submit("late", line.format("late"))
    fleet.until_phase(late, JobPhase.RUNNING)
    fleet.kill("server")
    fleet.kill("member")
    (fleet.folder / "go").touch()
    fleet.start_member()
    time.sleep(1.0)
    fleet.start_server()
    for job in (*jobs.values(), late):
        fleet.until_phase(job, JobPhase.SUCCEEDED)
        assert fleet.job(job).attempt == 1
    assert sorted(mark.read_text().split()) == ["a", "b", "c", "late"]
    assert fleet.kill("member", signal.SIGTERM) == 0


@pytest.mark.slow
def test_a_wish_to_divide_a_node_goes_down_to_its_member_and_its_answer_comes_back(
    fleet: Fleet,
) -> None:
    fleet.until("nodes", lambda: fleet.client.do(calls.get_cluster("local")).nodes)
    asked = fleet.client.do(calls.partition_node("local", "a", "all-1g.10gb"))
    assert asked.phase is PartitionPhase.ASKED

    def wish() -> PartitionDocument:
        (found,) = fleet.client.do(calls.get_cluster("local")).partitions
        return found

    fleet.until("an end", lambda: wish().phase.ended)
    assert wish().phase is PartitionPhase.REFUSED
    assert "a cluster of processes cannot divide devices anew" in wish().reason
    job = fleet.submit("after", "true")
    fleet.until_phase(job, JobPhase.SUCCEEDED)
    fleet.until("both nodes", lambda: all(node.up for node in nodes(fleet)))


def nodes(fleet: Fleet) -> list[NodeDocument]:
    return fleet.client.do(calls.get_cluster("local")).nodes


@pytest.mark.slow
def test_a_service_is_reached_at_one_address_wherever_its_instances_are(fleet: Fleet) -> None:
    (fleet.folder / "answer.py").write_text(ANSWER, encoding="utf-8")
    port, token = free_port(), (fleet.folder / "server" / "admin-token").read_text().strip()
    centre = {"DURE_SERVER": f"http://127.0.0.1:{fleet.rest}", "DURE_TOKEN": token}
    fleet._start("front", "front", "chat", "--listen", f"127.0.0.1:{port}", env=centre)

    def ask() -> str:
        return httpx.get(f"http://127.0.0.1:{port}/", timeout=LIMIT_S).raise_for_status().text

    def listens() -> bool:
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"http://127.0.0.1:{port}/", timeout=LIMIT_S).status_code == 503
        return False

    fleet.until("the front to listen, before there is a service", listens)
    line = f"exec {sys.executable} {fleet.folder}/answer.py"
    first = fleet.submit("chat", line, kind="serving", work=None, port=8000, service=SERVICE)
    fleet.until_phase(first, JobPhase.RUNNING)

    def weights() -> list[tuple[str, int]]:
        found = fleet.client.do(calls.get_endpoints(first))
        return [(each.cluster, each.weight) for each in found.items]

    fleet.until("two instances of equal weight", lambda: weights() == [("local", 1000)] * 2)
    fleet.until("both instances answer", lambda: len({ask() for _ in range(8)}) == 2)
    # Instances that die are replaced; meanwhile the others answer. The centre is not needed.
    os.kill(int(ask().split()[1]), signal.SIGKILL)
    for _ in range(8):
        ask()
    fleet.kill("server")
    assert ask()
    fleet.start_server()
    fleet.until("the server to answer", fleet._answers)
    # Another job of the same name takes over when the first is gone.
    fleet.client.do(calls.cancel_job(first))
    fleet.until_phase(first, JobPhase.CANCELLED)
    fleet.submit("chat", line, kind="serving", work=None, port=8000, service=SERVICE)
    fleet.until("an answer", lambda: ask().split()[0] == "1")
    assert fleet.kill("front", signal.SIGTERM) == 0


@pytest.mark.slow
def test_nobody_who_asks_a_service_notices_that_it_moves(fleet: Fleet) -> None:
    (fleet.folder / "answer.py").write_text(ANSWER, encoding="utf-8")
    fleet.add_cluster("other")
    port, token = free_port(), (fleet.folder / "server" / "admin-token").read_text().strip()
    centre = {"DURE_SERVER": f"http://127.0.0.1:{fleet.rest}", "DURE_TOKEN": token}
    line = f"exec {sys.executable} {fleet.folder}/answer.py"
    job = fleet.submit("chat", line, kind="serving", work=None, port=8000, service=SERVICE)
    fleet.until_phase(job, JobPhase.RUNNING)
    old = fleet.job(job).cluster
    assert old is not None
    fleet._start("front", "front", job, "--listen", f"127.0.0.1:{port}", env=centre)
    url = f"http://127.0.0.1:{port}/"

    def answered() -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(url, timeout=LIMIT_S).is_success
        return False

    fleet.until("an answer", answered)
    with Load(url, 50.0) as load:
        fleet.until("answers of the first place", lambda: len(load.answers) > 100)
        fleet.client.do(calls.set_cluster_state(old, ClusterState.DRAINING))
        fleet.until("the new place", lambda: fleet.job(job).attempt == 2)
        fleet.until(
            "the old place to be gone",
            lambda: fleet.job(job).attempts[0].state is AttemptState.GONE,
        )
        fleet.until("more answers", lambda: len(load.since(time.monotonic() - 1.0)) > 20)
    said = [each[2].split()[0] if each[2] else "failed" for each in load.answers]
    assert said.count("failed") == 0
    assert {"1", "2"} == set(said)
    # In the middle of the move both answered.
    first, last = said.index("2"), len(said) - 1 - said[::-1].index("1")
    assert first < last
    assert said[-1] == "2"
