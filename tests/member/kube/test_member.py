"""The whole member on a real Kubernetes, with a tiny centre: plans become Pods, and back."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from dure.domain.fleet.clusters import Cluster, ClusterClass
from dure.domain.fleet.decisions import Site
from dure.domain.fleet.lifecycle import PartitionPhase
from dure.domain.fleet.policy import FleetPolicy
from dure.domain.fleet.programs import Program
from dure.domain.fleet.protocol.desired import Desired, Partition, Surroundings
from dure.domain.fleet.protocol.reports import NodeFact, Outcome, PartitionStatus, RunPhase
from dure.domain.ids import ClusterId
from dure.kube.requests import Scope
from dure.kube.resources import PODS, Object
from dure.member.kube.election import LeaseTimes
from dure.member.link.servers import Server
from dure.member.link.session import Centre as CentreAddress
from dure.member.main import serve
from dure.member.options import KubernetesOptions, MemberOptions
from tests.contracts.carriers import desired
from tests.kube.things import client_of
from tests.member.kube.beds import KubeBed
from tests.member.link.centres import Centre, centre

pytestmark = pytest.mark.kube

HERE = ClusterId("here")


@contextlib.asynccontextmanager
async def member(bed: KubeBed, made: Centre, config: Path | None = None) -> AsyncIterator[None]:
    at = CentreAddress([Server("127.0.0.1", made.port, secure=False)], "secret")
    where = KubernetesOptions(
        bed.cluster.kubeconfig,
        namespace=bed.namespace,
        config=config,
        identity=secrets.token_hex(4),
    )
    task = asyncio.create_task(serve(MemberOptions(HERE, at, where)))
    try:
        yield
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def wanted(bed: KubeBed, made: Centre, program: Program, workers: int = 1) -> Desired:
    """A job for the group of the bed's nodes."""
    told = made.reports[0].inventory
    assert told is not None
    group = next(fact.group for fact in told.nodes if fact.name == bed.nodes[0])
    made.around = Surroundings(
        Cluster(HERE, "kr", "us", ClusterClass.ON_PREM, told.groups), FleetPolicy()
    )
    each = desired(bed, program, workers=workers)
    return replace(each, order=replace(each.order, site=Site(HERE, group)))


def test_a_node_is_divided_anew_end_to_end_unless_its_devices_are_in_use(
    bed: KubeBed, tmp_path: Path
) -> None:
    config = tmp_path / "member.yaml"
    config.write_text("partitioner: mig-manager\n")
    node = bed.nodes[0]

    async def wish(made: Centre, number: int, *desired: Desired) -> None:
        wishes = (Partition(node, "all-1g.10gb", number),)
        made.around = replace(made.around, partitions=wishes)
        await made.want(*desired)

    async def scenario() -> None:
        async with centre(silence_s=30.0) as made:
            async with member(bed, made, config):
                await made.until("a link", lambda: made.reports)
                gang = wanted(bed, made, bed.program(), workers=16)
                await made.want(gang)
                await made.until("it to run", lambda: phase(made, gang) is RunPhase.RUNNING)
                await wish(made, 1, gang)
                await made.until("a refusal", lambda: end_of(made, 1))
                refused = end_of(made, 1)
                assert refused is not None
                assert refused.phase is PartitionPhase.REFUSED
                assert "used by" in refused.why
                assert LABEL not in labels(bed, node)
                await made.want()
                await made.until("all devices to be free", lambda: not pods(bed))
                await wish(made, 2)
                await made.until("the label", lambda: LABEL in labels(bed, node))
                assert labels(bed, node)[LABEL] == "all-1g.10gb"
                await made.until("it to be held", lambda: not shown(made, node).up)
            # Another member goes on; meanwhile the node's manager is at work.
            async with member(bed, made, config):
                divide(bed, node)
                await made.until("an end", lambda: end_of(made, 2))
                assert end_of(made, 2) == PartitionStatus(node, 2, PartitionPhase.DONE)
                await made.until("the node to be used again", lambda: shown(made, node).up)
                assert "-mig" in shown(made, node).group

    asyncio.run(scenario())


def end_of(made: Centre, number: int) -> PartitionStatus | None:
    """How a wish ended."""
    told = [each for report in made.reports for each in report.partitions]
    return next((each for each in told if each.number == number and each.phase.ended), None)


LABEL = "nvidia.com/mig.config"


def labels(bed: KubeBed, node: str) -> dict[str, str]:
    found: dict[str, str] = bed.cluster.request("GET", f"/api/v1/nodes/{node}")["metadata"][
        "labels"
    ]
    return found


def pods(bed: KubeBed) -> list[Object]:
    found: list[Object] = bed.cluster.request("GET", f"/api/v1/namespaces/{bed.namespace}/pods")[
        "items"
    ]
    return found


def divide(bed: KubeBed, node: str) -> None:
    """What NVIDIA's MIG manager and device plugin do when a node's label changes."""

    def patch(what: str, change: Object) -> None:
        merge = {"content-type": "application/merge-patch+json"}
        bed.cluster.request("PATCH", f"/api/v1/nodes/{node}{what}", change, **merge)

    patch("", {"metadata": {"labels": {f"{LABEL}.state": "pending"}}})
    devices = {"nvidia.com/gpu": None, "nvidia.com/mig-1g.10gb": "56"}
    patch("/status", {"status": {"capacity": devices, "allocatable": devices}})
    patch("", {"metadata": {"labels": {f"{LABEL}.state": "success"}}})


def shown(made: Centre, node: str) -> NodeFact:
    """A node as last reported."""
    told = [report.inventory for report in made.reports if report.inventory is not None]
    return next(fact for fact in told[-1].nodes if fact.name == node)


def phase(made: Centre, each: Desired) -> RunPhase | None:
    status = made.told.get(each.key)
    return status.phase if status is not None else None


def outcome(made: Centre, each: Desired) -> Outcome | None:
    status = made.told.get(each.key)
    return status.outcome if status is not None else None


def test_jobs_run_as_pods_end_are_released_and_survive_their_member(bed: KubeBed) -> None:
    async def scenario() -> None:
        async with centre(silence_s=30.0) as made:
            async with member(bed, made):
                await made.until("a link", lambda: made.reports)
                short = wanted(bed, made, bed.program(runs_for_s=0.5))
                bad = wanted(bed, made, bed.program(runs_for_s=0.2, exit_code=3))
                gang = wanted(bed, made, bed.program(), workers=2)
                await made.want(short, bad, gang)
                await made.until("an end", lambda: outcome(made, short) is Outcome.SUCCEEDED)
                await made.until("a failure", lambda: outcome(made, bad) is Outcome.FAILED)
                await made.until(
                    "the gang to run", lambda: made.told[gang.key].phase is RunPhase.RUNNING
                )
                before = made.told[gang.key].instances
            told = len(made.reports)
            async with member(bed, made):
                await made.until("all to be told", lambda: len(made.reports) > told)
                assert made.reports[told].whole
                assert made.told[gang.key].instances == before
                await made.want()
                async with client_of(bed.cluster) as client, asyncio.timeout(120):
                    while await client.list(PODS, Scope(bed.namespace)):
                        await asyncio.sleep(0.2)

    asyncio.run(scenario())


def test_a_member_that_ends_cleanly_leaves_the_lead_to_the_next_at_once(bed: KubeBed) -> None:
    async def scenario() -> None:
        async with centre(silence_s=30.0) as made, contextlib.AsyncExitStack() as second:
            async with member(bed, made):
                await made.until("a link", lambda: made.reports)
                await second.enter_async_context(member(bed, made))
                await asyncio.sleep(3.0)  # the second has asked for the lease, and not got it
                assert len(made.hellos) == 1
                loop = asyncio.get_running_loop()
            ended_s = loop.time()
            await made.until("the second to act", lambda: len(made.hellos) == 2)
            assert loop.time() - ended_s < LeaseTimes().lasts_s / 2

    asyncio.run(scenario())
