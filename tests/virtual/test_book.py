"""What is to be done about Pods of a virtual cluster, and what they become; no I/O."""

from typing import Any

import pytest

from dure.api.job_views import AttemptDocument, JobDocument
from dure.api.jobs import JobSpec
from dure.api.virtual import NodeShare, VirtualNode
from dure.domain.fleet.lifecycle import AttemptState, JobPhase
from dure.domain.fleet.workloads import WorkloadKind
from dure.virtual.book import Cancel, Forget, Learn, PodBook, Remove, Show, Submit
from dure.virtual.nodes import Door, node_name, node_object, node_status
from dure.virtual.statuses import differs, status_of
from dure.virtual.translating import UnsupportedPodError, job_of

NOW = "2026-10-01T06:00:00.000Z"
GPU = "nvidia.com/gpu"


def node(pool: str = "gpus", allocatable: int = 4, capacity: int = 4, **more: Any) -> VirtualNode:
    made = VirtualNode(
        pool=pool,
        profile="h100",
        slice="",
        resource=GPU,
        capacity=capacity,
        allocatable=allocatable,
        cpu_milli=8000,
        memory_bytes=2**30,
        unit_memory_bytes=80 * 10**9,
        shares=[NodeShare(cluster="east", units=4, lent=0, used=0, room=allocatable)],
    )
    return made.model_copy(update=more)


POOLS = {"gpus": node(), "other": node("other")}


def pod(bound: str = "gpus", uid: str = "u1", **more: Any) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "main",
        "image": "train:1",
        "resources": {"limits": {GPU: "1"}},
    }
    spec = {"restartPolicy": "Never", "containers": [container | more.pop("container", {})]}
    spec |= {"nodeName": bound} if bound else {}
    return {
        "metadata": {"name": "train", "namespace": "default", "uid": uid} | more.pop("meta", {}),
        "spec": spec | more.pop("spec", {}),
        "status": more.pop("status", {"phase": "Pending"}),
    }


def stand(phase: JobPhase, pool: str = "gpus", attempt: int = 1, **more: Any) -> JobDocument:
    ran = phase not in (JobPhase.QUEUED, JobPhase.PLACED)
    tried = AttemptDocument(
        attempt=1,
        cluster="east",
        state=AttemptState.RUNNING,
        reason="",
        reserved_at=NOW,
        committed_at=NOW,
        running_at=NOW if ran else None,
        releasing_at=None,
        gone_at=None,
        exit_code=more.pop("exit_code", None),
    )
    return JobDocument(
        id="0" * 26,
        tenant="acme",
        team="",
        service_name="",
        name="train",
        kind=WorkloadKind.BATCH,
        phase=phase,
        priority=0,
        attempt=attempt,
        cluster=None if phase is JobPhase.QUEUED else "east",
        reason=more.pop("reason", ""),
        labels={},
        array_id=None,
        array_index=None,
        revision=1,
        submitted_at=NOW,
        updated_at=NOW,
        ended_at=NOW if phase.ended else None,
        spec=JobSpec(name="train", kind=WorkloadKind.BATCH, image="i", pool=pool),
        attempts=[tried],
        **more,
    )


def known(book: PodBook, thing: dict[str, Any], phase: JobPhase, pool: str = "gpus") -> Any:
    """A Pod whose job stands so."""
    entry = book.put(thing)
    book.attach(entry, "0" * 26)
    entry.stand, entry.stale, entry.pool = stand(phase, pool), False, pool
    return entry


def test_a_pod_on_our_node_becomes_a_job_once_and_shows_how_it_stands() -> None:
    book = PodBook()
    entry = book.put(pod())
    assert book.step(entry, POOLS, 0.0) == Submit(POOLS["gpus"])
    book.attach(entry, "j")
    assert book.step(entry, POOLS, 0.0) == Learn("j")
    entry.stand, entry.stale = stand(JobPhase.RUNNING), False
    assert isinstance(book.step(entry, POOLS, 0.0), Show)
    assert book.of_job("j") is entry


def test_pods_elsewhere_and_pods_that_are_over_are_nobodys_business() -> None:
    book = PodBook()
    assert book.step(book.put(pod("somewhere")), POOLS, 0.0) is None
    over = book.put(pod(uid="u2", status={"phase": "Succeeded"}))
    assert book.step(over, POOLS, 0.0) is None


def test_what_a_pod_notes_is_believed_after_a_restart() -> None:
    entry = PodBook().put(pod(meta={"annotations": {"dure.io/job": "j"}}))
    assert PodBook().step(entry, POOLS, 0.0) == Learn("j")


def test_a_deleted_pod_goes_when_its_job_has_ended_and_is_not_asked_to_end_at_every_look() -> None:
    book = PodBook()
    gone = {"deletionTimestamp": NOW}
    entry = known(book, pod(meta=gone), JobPhase.RUNNING)
    assert book.step(entry, POOLS, 100.0) == Cancel("0" * 26)
    entry.cancelled_s = 100.0
    assert book.step(entry, POOLS, 101.0) is None
    assert book.step(entry, POOLS, 200.0) == Cancel("0" * 26)
    entry.stand = stand(JobPhase.CANCELLED)
    assert book.step(entry, POOLS, 200.0) == Remove()
    book.gone("u1")
    assert book.step(entry, POOLS, 200.0) == Forget()


def test_an_object_that_is_gone_by_force_ends_its_job() -> None:
    book = PodBook()
    entry = known(book, pod(), JobPhase.RUNNING)
    book.gone("u1")
    assert book.step(entry, POOLS, 0.0) == Cancel("0" * 26)


UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
}


def test_pods_without_room_call_back_what_is_lent_and_no_more() -> None:
    book = PodBook()
    waiting = [book.put(pod("", f"u{n}", status=UNSCHEDULABLE)) for n in range(3)]
    whole = {"gpus": node(allocatable=4)}
    assert book.step(waiting[0], whole, 0.0) is None  # Nobody else has anything of it.
    lent = {"gpus": node(allocatable=2)}
    for each in waiting[:2]:
        assert book.step(each, lent, 0.0) == Submit(lent["gpus"])
        book.attach(each, each.uid)
        each.pool = "gpus"
    assert book.step(waiting[2], lent, 0.0) is None


def test_a_job_that_waited_in_one_pool_is_replaced_where_its_pod_was_bound_to_another() -> None:
    book = PodBook()
    entry = known(book, pod("other"), JobPhase.QUEUED, pool="gpus")
    assert book.step(entry, POOLS, 0.0) == Cancel("0" * 26)
    entry.stand = stand(JobPhase.CANCELLED)
    assert book.step(entry, POOLS, 0.0) == Submit(POOLS["other"])


# --- what a Pod becomes ------------------------------------------------------------------------


def test_a_pod_is_the_same_job_whenever_it_is_made() -> None:
    variables = [
        {"name": "A", "value": "1"},
        {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    made = job_of(pod(container={"env": variables, "command": ["a"]}), node(), "own", "plane")
    again = job_of(pod(container={"env": variables, "command": ["a"]}), node(), "own", "plane")
    assert made == again
    assert made.env == {"A": "1", "ME": "train"}
    assert (made.pool, made.resources.whole, made.resources.profiles) == ("gpus", True, ["h100"])
    assert made.labels["dure.io/pod-uid"] == "u1"
    assert made.retries == 0


def test_restart_policies_are_kinds_of_jobs() -> None:
    again = job_of(pod(spec={"restartPolicy": "OnFailure"}), node(), "own", "p")
    always = job_of(
        pod(spec={"restartPolicy": "Always"}, container={"ports": [{"containerPort": 80}]}),
        node(),
        "own",
        "p",
    )
    assert (again.kind, again.retries) == (WorkloadKind.BATCH, 1000)
    assert (always.kind, always.port) == (WorkloadKind.SERVING, 80)
    assert always.service is not None
    assert (always.service.warm, always.service.most) == (1, 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"container": {"resources": {}}}, "asks for no nvidia.com/gpu"),
        ({"spec": {"initContainers": [{"name": "i"}]}}, "more than one container"),
        ({"spec": {"hostNetwork": True}}, "hostNetwork"),
        ({"container": {"securityContext": {"privileged": True}}}, "privileged"),
        (
            {"container": {"env": [{"name": "S", "valueFrom": {"secretKeyRef": {"name": "s"}}}]}},
            "stays in the virtual cluster",
        ),
        (
            {
                "spec": {"volumes": [{"name": "tmp", "emptyDir": {}}]},
                "container": {"volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]},
            },
            "emptyDir",
        ),
        ({"meta": {"annotations": {"dure.io/work": "long"}}}, "work"),
    ],
)
def test_what_the_fleet_cannot_carry_is_refused_with_the_reason(
    change: dict[str, Any], words: str
) -> None:
    with pytest.raises(UnsupportedPodError, match=words):
        job_of(pod(**change), node(), "own", "p")


def test_slices_are_asked_for_one_by_one() -> None:
    sliced = node(slice="1g.10gb", resource="nvidia.com/mig-1g.10gb")
    one = {"resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}
    made = job_of(pod(container=one), sliced, "own", "p")
    assert (made.resources.whole, made.resources.memory) == (False, "80000000000B")
    two = {"resources": {"limits": {"nvidia.com/mig-1g.10gb": "2"}}}
    with pytest.raises(UnsupportedPodError, match="one slice a Pod"):
        job_of(pod(container=two), sliced, "own", "p")


# --- what Pods and nodes show ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "before", "shown", "state"),
    [
        (JobPhase.QUEUED, "Pending", "Pending", "waiting"),
        (JobPhase.PLACED, "Pending", "Pending", "waiting"),
        (JobPhase.RUNNING, "Pending", "Running", "running"),
        (JobPhase.UNKNOWN, "Running", "Running", "running"),
        (JobPhase.QUEUED, "Running", "Running", "waiting"),
        (JobPhase.SUCCEEDED, "Running", "Succeeded", "terminated"),
        (JobPhase.FAILED, "Running", "Failed", "terminated"),
        (JobPhase.CANCELLED, "Running", "Failed", "terminated"),
    ],
)
def test_a_pod_shows_how_its_job_stands(
    phase: JobPhase, before: str, shown: str, state: str
) -> None:
    thing = pod(status={"phase": before})
    status = status_of(thing, stand(phase, attempt=2))
    (container,) = status["containerStatuses"]
    assert (status["phase"], list(container["state"])) == (shown, [state])
    assert container["ready"] is (phase is JobPhase.RUNNING)
    assert container["restartCount"] == 1
    assert differs(status, thing)
    assert not differs(status, thing | {"status": status})


def test_an_exit_code_is_the_programs_own_where_its_cluster_told_it() -> None:
    told = status_of(pod(), stand(JobPhase.FAILED, exit_code=7))
    silent = status_of(pod(), stand(JobPhase.FAILED))
    codes = [
        each["containerStatuses"][0]["state"]["terminated"]["exitCode"] for each in (told, silent)
    ]
    assert codes == [7, 1]


def test_a_node_says_what_it_has_and_why_it_has_less() -> None:
    short = node(allocatable=3, missing=2)
    status = node_status(short, Door("127.0.0.1", 1), "no answer", 0.0)
    assert (status["capacity"][GPU], status["allocatable"][GPU]) == ("4", "3")
    conditions = {each["type"]: each for each in status["conditions"]}
    assert "2 guaranteed units have no place" in conditions["Ready"]["message"]
    assert conditions["CentreReachable"]["status"] == "False"
    made = node_object("own", short, tainted=True)
    assert made["spec"]["taints"] == [{"key": GPU, "effect": "NoSchedule"}]
    assert node_name("gpus") == "gpus"
    assert node_name("Gold_1") != node_name("gold_1")
