"""The whole member on a real Kubernetes, with a tiny centre: plans become Pods, and back."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from dure.domain.fleet.clusters import Cluster, ClusterClass
from dure.domain.fleet.decisions import Site
from dure.domain.fleet.policy import FleetPolicy
from dure.domain.fleet.programs import Program
from dure.domain.fleet.protocol import Desired, Outcome, RunPhase, Surroundings
from dure.domain.ids import ClusterId
from dure.kube.requests import Scope
from dure.kube.resources import PODS
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
async def member(bed: KubeBed, made: Centre) -> AsyncIterator[None]:
    at = CentreAddress([Server("127.0.0.1", made.port, secure=False)], "secret")
    where = KubernetesOptions(bed.cluster.kubeconfig, namespace=bed.namespace)
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
