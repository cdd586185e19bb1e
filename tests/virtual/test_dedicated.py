"""A dedicated virtual cluster over two clusters, with real API servers and real programs."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dure.api.jobs import JobSpec, Resources, Work
from dure.client.fleet import RefusedError, calls
from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.fleet.workloads import WorkloadKind
from tests.e2e.beds import running
from tests.virtual.beds import NAME, PROFILE, RESOURCE, VirtualFleet, job
from tests.virtual.privacy import sees_nothing

pytestmark = [pytest.mark.kube, pytest.mark.timeout(900)]

FOLLOW_S = 10.0
"""Within which nodes follow what is lent and called back."""


@pytest.fixture(scope="module")
def fleet() -> Iterator[VirtualFleet]:
    with running(VirtualFleet) as made:
        made.declare()
        made.start_virtual()
        made.ready()
        yield made


def within(what: str, holds: Callable[[], bool], limit_s: float) -> float:
    """How long it took until something was so."""
    began_s = time.monotonic()
    while not holds():
        assert time.monotonic() - began_s < limit_s, f"after {limit_s:g} s still not: {what}"
        time.sleep(0.2)
    return time.monotonic() - began_s


def borrow(fleet: VirtualFleet) -> str:
    """A job of another tenant that takes what is lent; its id."""
    spec = JobSpec(
        name="borrower",
        kind=WorkloadKind.BATCH,
        tenant="globex",
        command=["/bin/sh", "-c", "echo secret of globex; exec sleep 600"],
        grace="1s",
        work=Work(time="10h"),
        resources=Resources(whole=True, profiles=[PROFILE]),
    )
    return fleet.client.do(calls.submit(spec)).ids[0]


def wait_for_pods(fleet: VirtualFleet, name: str, phase: str, count: int) -> None:
    def there() -> bool:
        found = [pod["status"].get("phase") for pod in fleet.pods(name)]
        return found.count(phase) == count

    fleet.until(f"{count} Pods of {name} {phase}", there)


def test_an_unmodified_job_runs_in_the_cheaper_cluster_and_its_log_comes_back(
    fleet: VirtualFleet,
) -> None:
    fleet.apply(job("hello", "echo hello from $DURE_CLUSTER"))
    fleet.kubectl("wait", "--for=condition=complete", "job/hello", "--timeout=110s")
    (pod,) = fleet.pods("hello")
    notes = pod["metadata"]["annotations"]
    assert notes["dure.io/cluster"] == "cheap"
    assert pod["status"]["phase"] == "Succeeded"
    assert fleet.kubectl("logs", "job/hello") == "hello from cheap\n"
    (found,) = [each for each in fleet.jobs_at_centre() if each.id == notes["dure.io/job"]]
    assert (found.tenant, found.phase) == ("acme", JobPhase.SUCCEEDED)
    fleet.kubectl("delete", "job", "hello")


def test_nodes_follow_what_is_lent_and_called_back(fleet: VirtualFleet) -> None:
    assert fleet.allocatable() == 4
    # Two take what is lent; two more of the same tenant wait for it all the time.
    borrowers = [borrow(fleet) for _ in range(4)]
    fleet.until("two borrowers to run", lambda: running_of(fleet, "globex") == 2)
    within("the node shows what is lent", lambda: fleet.allocatable() == 2, FOLLOW_S)
    node = fleet.get("node", "gpus")
    assert node["status"]["capacity"][RESOURCE] == "4"
    # Its tenant wants all it has: two fit at once, two call back what is lent.
    fleet.apply(job("many", "echo in $DURE_CLUSTER; exec sleep 600", parallelism=4, completions=4))

    def called_back() -> bool:
        return fleet.allocatable() == 4 and running_pods(fleet, "many") == 4

    within("the node shows what was called back, and all Pods run", called_back, FOLLOW_S)
    clusters = {pod["metadata"]["annotations"]["dure.io/cluster"] for pod in fleet.pods("many")}
    assert clusters == {"cheap", "dear"}
    assert running_of(fleet, "globex") == 0
    assert len(live_of(fleet, "globex")) == 4  # displaced, not lost
    # Its tenant wants nothing any more: what it lends is borrowed again.
    fleet.kubectl("delete", "job", "many")
    fleet.until("the jobs of deleted Pods to end", lambda: not live_of(fleet, "acme"))
    within("what is lent is used again", lambda: running_of(fleet, "globex") == 2, FOLLOW_S)
    within("the node shows what is lent again", lambda: fleet.allocatable() == 2, FOLLOW_S)
    for each in borrowers:
        fleet.client.do(calls.cancel_job(each))
    fleet.until("the borrowers to end", lambda: not live_of(fleet, "globex"))
    within("the node is whole again", lambda: fleet.allocatable() == 4, FOLLOW_S)


def running_pods(fleet: VirtualFleet, name: str) -> int:
    return [pod["status"].get("phase") for pod in fleet.pods(name)].count("Running")


def running_of(fleet: VirtualFleet, tenant: str) -> int:
    return [each.phase for each in live_of(fleet, tenant)].count(JobPhase.RUNNING)


def live_of(fleet: VirtualFleet, tenant: str) -> list[Any]:
    return [
        each for each in fleet.jobs_at_centre() if each.tenant == tenant and not each.phase.ended
    ]


def test_deleted_pods_end_their_jobs_and_go_when_nothing_of_them_runs(fleet: VirtualFleet) -> None:
    fleet.apply(job("long", "exec sleep 600"))
    wait_for_pods(fleet, "long", "Running", 1)
    (running,) = live_of(fleet, "acme")
    fleet.kubectl("delete", "job", "long", "--wait=false")
    fleet.until("the job's end", lambda: fleet.job(running.id).phase is JobPhase.CANCELLED)
    fleet.until("no Pod", lambda: not fleet.pods("long"))


def test_what_the_fleet_cannot_do_is_refused_with_the_reason(fleet: VirtualFleet) -> None:
    fleet.apply(job("served", "echo up; exec sleep 600"))
    wait_for_pods(fleet, "served", "Running", 1)
    done = fleet.run_kubectl("exec", "job/served", "--", "ls")
    assert done.returncode != 0
    assert "commands cannot be run in Pods of a virtual cluster" in done.stderr
    since = fleet.run_kubectl("logs", "job/served", "--since=1h")
    assert "use --tail" in since.stderr + since.stdout
    follow = fleet.run_kubectl("logs", "job/served", "--tail=1")
    assert follow.stdout == "up\n"
    fleet.kubectl("delete", "job", "served")
    two = job("two", "true")
    containers = two["spec"]["template"]["spec"]["containers"]
    containers.append({"name": "side", "image": "dure.io/host", "command": ["true"]})
    fleet.apply(two)
    wait_for_pods(fleet, "two", "Failed", 1)
    (pod,) = fleet.pods("two")
    assert pod["status"]["reason"] == "Unsupported"
    assert "more than one container" in pod["status"]["message"]
    assert "more than one container" in fleet.kubectl("get", "events", "-o", "wide")
    fleet.kubectl("delete", "job", "two")


def test_a_daemon_set_stays_away_and_a_failing_program_tells_its_exit_code(
    fleet: VirtualFleet,
) -> None:
    pod = {"containers": [{"name": "d", "image": "dure.io/host", "command": ["true"]}]}
    labels = {"app": "daemon"}
    fleet.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "daemon", "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }
    )
    fleet.apply(job("bad", "exit 7"))
    fleet.kubectl("wait", "--for=condition=failed", "job/bad", "--timeout=110s")
    (failed,) = fleet.pods("bad")
    (container,) = failed["status"]["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == 7
    wanted = fleet.get("daemonset", "daemon")["status"]
    assert wanted["desiredNumberScheduled"] == 0
    fleet.kubectl("delete", "job/bad", "daemonset/daemon")


def test_a_second_tenant_sees_nothing_of_it(fleet: VirtualFleet) -> None:
    fleet.apply(job("private", "echo secret of acme; exec sleep 600"))
    wait_for_pods(fleet, "private", "Running", 1)
    (mine,) = live_of(fleet, "acme")
    sees_nothing(fleet, mine.id)
    assert list(fleet.client.each(calls.list_virtual))
    listed = fleet.dure("globex", "vcluster", "list")
    assert NAME not in listed.stdout
    fleet.kubectl("delete", "job", "private")


def test_nothing_is_lost_or_doubled_when_its_api_server_the_centre_and_itself_die(
    fleet: VirtualFleet,
) -> None:
    mark, go = fleet.folder / "mark", fleet.folder / "go"
    wait = f"while ! test -e {go}; do sleep 0.1; done"
    fleet.apply(
        job("steady", f"echo one >> {mark}; {wait}; echo done", parallelism=2, completions=2)
    )
    wait_for_pods(fleet, "steady", "Running", 2)
    kill_api_server(fleet)
    fleet.until("its API server to answer again", lambda: fleet.get("nodes") is not None)
    fleet.kill("server")
    fleet.kill("virtual")
    fleet.start_virtual()
    time.sleep(2.0)
    fleet.start_server()
    fleet.until("the centre to answer", fleet._answers)
    fleet.until("its API server to answer", lambda: fleet.get("nodes") is not None)
    fleet.until("its node to be ready", lambda: fleet.allocatable() == 4)
    assert len(live_of(fleet, "acme")) == 2
    fleet.kill("virtual")
    go.touch()
    # What ended while nobody looked is found out.
    fleet.until("the programs to end", lambda: not live_of(fleet, "acme"))
    fleet.start_virtual()
    fleet.until("its API server to answer", lambda: fleet.get("nodes") is not None)
    wait_for_pods(fleet, "steady", "Succeeded", 2)
    assert mark.read_text().split() == ["one", "one"]
    fleet.kubectl("wait", "--for=condition=complete", "job/steady", "--timeout=110s")
    attempts = [each.attempt for each in fleet.jobs_at_centre() if each.name.startswith("steady")]
    assert attempts == [1, 1]
    fleet.kubectl("delete", "job", "steady")


def kill_api_server(fleet: VirtualFleet) -> None:
    """End the API server of the virtual cluster, as a full disk would."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            ours = f"--secure-port={fleet.port}".encode()
            if words and words[0].endswith(b"kube-apiserver") and ours in words:
                os.kill(int(entry.name), signal.SIGKILL)
                return
    raise AssertionError("it has no API server")


def test_a_second_process_of_it_is_refused(fleet: VirtualFleet) -> None:
    at = ("--state", str(fleet.folder / "virtual"), "--listen", f"127.0.0.1:{fleet.port}")
    second = fleet.dure("acme", "vcluster", "run", NAME, *at)
    assert second.returncode == 2
    assert "another process runs virtual cluster" in second.stderr


def test_it_goes_when_it_is_removed_and_its_process_ends(fleet: VirtualFleet) -> None:
    fleet.apply(job("last", "exec sleep 600"))
    wait_for_pods(fleet, "last", "Running", 1)
    found = fleet.client.do(calls.get_virtual(NAME))
    with pytest.raises(RefusedError, match="jobs of its Pods have not ended"):
        fleet.client.do(calls.delete_virtual(NAME, found.revision))
    fleet.client.do(calls.delete_virtual(NAME, found.revision, force=True))
    fleet.until("its jobs to end", lambda: not live_of(fleet, "acme"))
    process = fleet._processes.pop("virtual")
    assert process.wait(60) == 0
    with pytest.raises(RefusedError):
        fleet.client.do(calls.get_virtual(NAME))
