"""Evaluations: which clusters would take jobs now, ranked, at what cost; nothing is stored."""

from dataclasses import replace

from fastapi import APIRouter
from starlette.responses import Response

from dure.api.base import moment_text, stored
from dure.api.evaluations import (
    ClusterOption,
    ClusterRefusal,
    EvaluationDocument,
    EvaluationRequest,
    GuestCluster,
    GuestGroup,
    JobEvaluation,
)
from dure.api.jobs import JobSpec
from dure.domain.fleet.catalogue import CATALOGUE, device_profile
from dure.domain.fleet.clusters import Cluster, ClusterClass, NodeGroup, Tariff
from dure.domain.fleet.decisions import Site, SiteSummary
from dure.domain.fleet.series import Series
from dure.domain.fleet.slices import WHOLE_MILLI
from dure.domain.ids import ClusterId
from dure.domain.units import parse_bytes
from dure.fleet.evaluate import Verdict
from dure.kit.words import nearest
from dure.server.rest.door import Call, Reader, Speaks, answer, route
from dure.server.rest.known import Catalogue
from dure.server.rest.problems import RefusedError, wrong
from dure.server.rest.submitting import Owner, check_meaning, owner_of
from dure.server.rest.views import explanation_document
from dure.server.specs import JobTerms, job_terms
from dure.server.whatif import Question
from dure.stores import rows as rows_of
from dure.stores.ids import new_id

router = APIRouter(prefix="/v1/evaluations", tags=["evaluations"])
_PLENTY_MILLI = 10**9
_PLENTY_BYTES = 2**50
"""Of a node whose processors or memory nobody told: they shall not be what keeps a job away."""


@route(router, "POST", "", Speaks(EvaluationRequest, EvaluationDocument))
async def evaluate_jobs(call: Reader) -> Response:
    """Weigh jobs as if they came now: a ranking of clusters with costs and reasons for each."""
    asked = await call.document(EvaluationRequest)
    known = await call.desk.known.catalogue(fresh=True)
    guests = [_guest(guest, n, known) for n, guest in enumerate(asked.guests)]
    # A job may name a guest as it may name any cluster.
    rows = {guest.name: rows_of.Cluster(guest.name, "kubernetes") for guest in asked.guests}
    known = replace(known, clusters={**known.clusters, **rows})
    owners = [owner_of(spec, call.caller) for spec in asked.jobs]
    jobs = [
        _terms(call, spec, owner, known, f"jobs[{number}]")
        for number, (spec, owner) in enumerate(zip(asked.jobs, owners, strict=True))
    ]
    assuming = [
        (
            _terms(call, each.job, owner_of(each.job, call.caller), known, f"assuming[{n}].job"),
            each.cluster,
        )
        for n, each in enumerate(asked.assuming)
    ]
    at_ns, verdicts = await call.desk.whatif.ask(Question(jobs, assuming, guests))
    return answer(
        EvaluationDocument(
            at=moment_text(at_ns),
            jobs=[
                _evaluation(spec, owner, verdict)
                for spec, owner, verdict in zip(asked.jobs, owners, verdicts, strict=True)
            ],
        )
    )


def _terms(call: Call, spec: JobSpec, owner: Owner, known: Catalogue, field: str) -> JobTerms:
    try:
        check_meaning(spec, owner, known)
    except RefusedError as error:
        raise error.within(field) from error
    row = rows_of.Job(
        id=new_id(),
        tenant=owner.tenant,
        name=spec.name,
        spec=stored(spec),
        team=owner.team,
        service=owner.service,
        priority=spec.priority,
        submitted_ns=call.desk.services.now_ns(),
    )
    return job_terms(row)


def _guest(
    guest: GuestCluster, number: int, known: Catalogue
) -> tuple[Cluster, tuple[SiteSummary, ...]]:
    if guest.name in known.clusters:
        raise wrong(
            f"guests[{number}].name",
            f"cluster '{guest.name}' has joined",
            "leave it out: what its member reports counts",
        )
    for place, group in enumerate(guest.groups):
        if group.profile.lower() not in CATALOGUE:
            raise wrong(
                f"guests[{number}].groups[{place}].profile",
                f"'{group.profile}' is not a known accelerator",
                nearest(group.profile, CATALOGUE),
            )
    tariff = guest.tariff
    cluster = Cluster(
        id=ClusterId(guest.name),
        region=guest.region,
        provider="",
        cluster_class=ClusterClass.CLOUD,
        groups=tuple(_group(group) for group in guest.groups),
        tariff=Tariff(tariff.currency, dict(tariff.device_hour), tuple(tariff.calendar)),
        carbon_g_per_kwh=Series.constant(guest.carbon),
        electricity_per_mwh=Series.constant(guest.electricity),
        pue=guest.pue,
    )
    pairs = zip(cluster.groups, guest.groups, strict=True)
    return cluster, tuple(_summary(cluster.id, group, said) for group, said in pairs)


def _group(group: GuestGroup) -> NodeGroup:
    return NodeGroup(
        name=group.name,
        count=group.nodes,
        profile=group.profile.lower(),
        devices=group.devices,
        cpu_milli=round(group.cpu * 1000) or _PLENTY_MILLI,
        host_memory_bytes=parse_bytes(group.host_memory) or _PLENTY_BYTES,
        link_domain=group.devices,
        mode=group.mode,
    )


def _summary(cluster: ClusterId, group: NodeGroup, said: GuestGroup) -> SiteSummary:
    """Free devices as if they were on as few nodes as can be: nobody told where they are."""
    free, size = said.free_devices, group.devices
    used_nodes = group.count - free // size
    return SiteSummary(
        site=Site(cluster, group.name),
        profile=group.profile,
        nodes=group.count,
        nodes_in_use=used_nodes,
        devices=group.count * size,
        free_devices=free,
        free_on_used_nodes=free % size,
        free_compute_milli=free * WHOLE_MILLI,
        free_memory_bytes=free * device_profile(group.profile).memory_bytes,
        free_cpu_milli=group.cpu_milli * group.count,
        free_host_memory_bytes=group.host_memory_bytes * group.count,
        largest_node_free=min(size, free),
    )


def _evaluation(spec: JobSpec, owner: Owner, verdict: Verdict) -> JobEvaluation:
    return JobEvaluation(
        name=spec.name,
        tenant=owner.tenant,
        kind=spec.kind,
        cluster=None if verdict.choice is None else verdict.choice.cluster,
        start_at=moment_text(verdict.start_ns),
        reason=verdict.why,
        options=[
            ClusterOption(
                cluster=option.site.cluster,
                site=str(option.site),
                has_room=option.has_room,
                delay_hours=option.delay_h,
                run_hours=option.run_h,
                explanation=explanation_document(option.explanation),
            )
            for option in verdict.options
        ],
        refusals=[ClusterRefusal(cluster=name, why=why) for name, why in verdict.refusals],
    )
