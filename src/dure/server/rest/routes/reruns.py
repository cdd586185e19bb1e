"""Re-runs: what the last hour would have come to under another policy."""

from fastapi import APIRouter
from starlette.responses import Response

from dure.api.base import moment_text, stored
from dure.api.reruns import (
    RerunChoices,
    RerunCluster,
    RerunDocument,
    RerunJob,
    RerunMode,
    RerunMoney,
    RerunRequest,
    RerunSide,
)
from dure.domain.fleet.workloads import WorkloadKind
from dure.server.rerun.running import COMPARED_MODES, BusyError, Candidate, Rerun, RerunError
from dure.server.rerun.worker import Outcome, Place
from dure.server.rest.door import Call, FleetReader, Speaks, answer, route
from dure.server.rest.problems import RefusedError, wrong
from dure.server.specs import FLEET_POLICY, fleet_spec, policy_of
from dure.stores.rows import Policy

router = APIRouter(prefix="/v1/reruns", tags=["reruns"])
_MOST_JOBS = 200
_SECONDS_A_MINUTE = 60.0
_DEFAULTS = "the defaults"


@route(router, "GET", "/choices", Speaks(gives=RerunChoices))
async def list_rerun_choices(call: FleetReader) -> Response:
    """List what a re-run may try."""
    async with call.desk.services.state.reading() as tx:
        rows = await tx.policies.all()
    return answer(
        RerunChoices(
            in_force=fleet_spec(rows).policy,
            policies=sorted(row.name for row in rows if row.name != FLEET_POLICY),
            modes=[RerunMode(name=name, about=about) for name, about in COMPARED_MODES.items()],
        )
    )


@route(router, "POST", "", Speaks(RerunRequest, RerunDocument))
async def rerun(call: FleetReader) -> Response:
    """Run the work of the last hour again, under the policy in force and under another; nothing
    that runs is touched."""
    wanted = await call.document(RerunRequest)
    candidate, in_force = await _candidate(call, wanted)
    try:
        done = await call.desk.reruns.run(wanted.minutes * _SECONDS_A_MINUTE, candidate)
    except BusyError as error:
        raise RefusedError(409, "busy", str(error), headers={"Retry-After": "5"}) from error
    except RerunError as error:
        raise RefusedError(503, "rerun-failed", str(error)) from error
    return answer(_document(done, in_force, candidate.name))


async def _candidate(call: Call, wanted: RerunRequest) -> tuple[Candidate, str]:
    """What is tried, and the name of what is in force."""
    async with call.desk.services.state.reading() as tx:
        rows = {row.name: row for row in await tx.policies.all()}
    in_force = fleet_spec(rows.values()).policy or _DEFAULTS
    if wanted.mode is not None:
        if wanted.mode not in COMPARED_MODES:
            raise wrong("mode", f"'{wanted.mode}' is none", f"use {', '.join(COMPARED_MODES)}")
        return Candidate(wanted.mode, mode=wanted.mode), in_force
    if wanted.spec is not None:
        made = Policy("tried", stored(wanted.spec))
        return Candidate("the policy that was sent", policy_of(made)), in_force
    if wanted.policy == FLEET_POLICY or wanted.policy not in rows:
        raise wrong("policy", f"there is no policy '{wanted.policy}'", "create it first")
    return Candidate(wanted.policy, policy_of(rows[wanted.policy])), in_force


def _document(done: Rerun, in_force: str, candidate: str) -> RerunDocument:
    setting = done.case.setting
    services = sum(each.kind is WorkloadKind.SERVING for each in setting.workloads)
    return RerunDocument(
        since=moment_text(setting.start_ns),
        until=moment_text(setting.end_ns),
        currency=done.case.currency,
        jobs=len(setting.workloads) - services,
        services=services,
        notes=list(done.case.notes),
        in_force=_side(in_force, done.in_force),
        candidate=_side(candidate, done.candidate),
        differing=_differing(done),
        took_seconds=round(done.took_s, 3),
    )


def _side(name: str, outcome: Outcome) -> RerunSide:
    result = outcome.result
    money, jobs = result.money, result.jobs
    return RerunSide(
        name=name,
        money=RerunMoney(
            rent=money.rent,
            energy=money.energy,
            transfers=money.transfers,
            penalties=money.late_jobs + money.slow_services,
            unfinished=money.unfinished,
            total=money.total,
        ),
        kg_co2=result.kg_co2,
        kwh=result.kwh,
        ended=jobs.ended,
        unfinished=jobs.unfinished,
        refused=jobs.refused,
        mean_wait_seconds=jobs.mean_wait_s,
        p95_wait_seconds=jobs.p95_wait_s,
        on_time_share=jobs.on_time_share,
        within_target_share=result.services.within_target_share,
        utilisation=result.utilisation,
        fragmentation=result.fragmentation,
        placements=result.actions.placements,
        moves=result.actions.moves,
        preemptions=result.actions.preemptions,
        clusters=[
            RerunCluster(
                cluster=each.cluster,
                device_hours=each.device_h,
                utilisation=each.utilisation,
                money=each.money,
                kg_co2=each.kg_co2,
                jobs=each.jobs,
            )
            for each in result.clusters
        ],
    )


def _differing(done: Rerun) -> list[RerunJob]:
    found: list[RerunJob] = []
    nowhere = Place("", None)
    for name, was in done.case.was.items():
        mine = done.in_force.places.get(name, nowhere)
        theirs = done.candidate.places.get(name, nowhere)
        if mine.cluster == theirs.cluster or len(found) >= _MOST_JOBS:
            continue
        found.append(
            RerunJob(
                id=name,
                name=was.name,
                tenant=was.tenant,
                kind=was.kind,
                was=was.cluster,
                in_force=mine.cluster or None,
                candidate=theirs.cluster or None,
                in_force_wait_seconds=mine.wait_s,
                candidate_wait_seconds=theirs.wait_s,
            )
        )
    return found
