from dataclasses import replace

from dure.domain.fleet.programs import Mount, Program, Thing
from dure.domain.fleet.protocol.reports import Inventory
from dure.domain.fleet.workloads import Demand, Workload, WorkloadKind
from dure.domain.ids import ClusterId, TenantId, WorkloadId
from dure.server.planner.feasible import Offer, judge

ACME = TenantId("acme")
KEY, DISK = Thing("secret", "key"), Thing("volume", "disk")
JOB = Workload(WorkloadId("j"), ACME, WorkloadKind.BATCH, Demand())


def _offer(*things: Thing, kind: str = "kubernetes", tenant: str = "acme") -> Offer:
    return Offer(kind, Inventory(things=frozenset((TenantId(tenant), each) for each in things)))


def test_a_program_that_names_nothing_may_run_anywhere() -> None:
    assert judge(JOB, Program(image="x"), {"a": _offer()}).workload.clusters is None


def test_a_job_is_kept_to_the_clusters_that_have_all_it_names() -> None:
    program = Program(image="x", env_from=(KEY,), mounts=(Mount(DISK, "/disk"),))
    offers = {
        "all": _offer(KEY, DISK),
        "some": _offer(KEY),
        "others": _offer(KEY, DISK, tenant="rival"),
        "mute": Offer("kubernetes", None),
    }
    verdict = judge(JOB, program, offers)
    assert verdict.workload.clusters == frozenset({ClusterId("all")})
    assert verdict.excludes
    del offers["all"]
    assert judge(JOB, program, offers).why_not == (
        "cluster mute has not yet said what it has; "
        "cluster others has no secret 'key' for tenant 'acme'; "
        "cluster some has no volume 'disk' for tenant 'acme'"
    )


def test_a_command_of_the_host_needs_a_cluster_of_processes() -> None:
    offers = {"kube": _offer(), "host": _offer(kind="process")}
    verdict = judge(JOB, Program(command=("true",)), offers)
    assert verdict.workload.clusters == frozenset({ClusterId("host")})
    assert "runs images alone" in judge(JOB, Program(), {"kube": _offer()}).why_not


def test_an_image_needs_a_cluster_that_runs_images() -> None:
    offers = {"kube": _offer(), "host": _offer(kind="process")}
    verdict = judge(JOB, Program(image="x"), offers)
    assert verdict.workload.clusters == frozenset({ClusterId("kube")})
    assert not verdict.excludes  # what asks too much of the others is refused
    del offers["kube"]
    assert judge(JOB, Program(image="x"), offers).why_not == (
        "cluster host runs commands of its host, not images"
    )


def test_an_image_stays_free_to_go_where_clusters_may_come() -> None:
    offers = {"kube": _offer(), "host": _offer(kind="process")}
    named = replace(JOB, clusters=frozenset({ClusterId("kube"), ClusterId("later")}))
    assert judge(named, Program(image="x"), offers).workload is named
