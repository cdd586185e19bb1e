"""What people and fronts say of a service's load, passed on to the clusters that hold it, or to the
server that has the link."""

import httpx
from fastapi import APIRouter
from starlette.responses import Response

from dure.api.jobs import Serving
from dure.api.loads import LoadReport, LoadTaken
from dure.domain.errors import DureError
from dure.domain.fleet.protocol.services import LoadSignal
from dure.domain.ids import ClusterId
from dure.server.ports import NotLinkedHere
from dure.server.rest.door import Call, Speaks, Writer, answer, parsed, route
from dure.server.rest.problems import RefusedError
from dure.server.rest.routes.jobs import JobId, visible_job
from dure.server.rest.routes.logs import FORWARDED
from dure.server.signals import TooOftenError, check, parts_of, signals_of
from dure.server.specs import job_spec
from dure.stores.rows import Attempt, Job

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
_ASK_S = 2.0
"""For another server to take a report; the next one follows soon."""


@route(router, "POST", "/{id}/load", Speaks(LoadReport, LoadTaken, status=202))
async def report_load(call: Writer, id: JobId) -> Response:  # noqa: A002 - the interface's word
    """Say what is seen of a service's load; its clusters make it larger or smaller by that.

    Nothing of it is stored: what is not said again counts no more after a while.
    """
    raw = await call.body()
    report = parsed(LoadReport, raw)
    services = call.desk.services
    async with services.state.reading() as tx:
        row = await visible_job(tx, call, id)
        attempts = await tx.attempts.unfinished_of([id])
    now_ns = services.now_ns()
    at_ns = check(report, _service(row), now_ns)
    source = report.source or call.caller.actor
    _admit(call, id, source, now_ns)
    parts = parts_of(attempts, now_ns, services.settings.pace)
    signals = dict(signals_of(id, source, report, at_ns, parts))
    if not signals:
        return answer(LoadTaken(clusters=[], note=_nowhere(report, attempts)), 202)
    return answer(await _pass_on(call, raw, signals), 202)


def _service(row: Job) -> Serving:
    spec = job_spec(row)
    if spec.service is None:
        raise RefusedError(
            409,
            "no-service",
            f"job {row.id} is {spec.kind.value}, which has no load; name a service",
        )
    if row.phase.ended:
        raise RefusedError(
            409, "ended", f"job {row.id} has ended, so that nothing follows its load"
        )
    return spec.service


def _admit(call: Call, job: str, source: str, now_ns: int) -> None:
    try:
        call.desk.signals.admit(job, source, now_ns)
    except TooOftenError as error:
        raise RefusedError(
            429,
            "too-many",
            f"{error.field}: {error.what}; {error.remedy}",
            headers={"Retry-After": "1"},
        ) from error


def _nowhere(report: LoadReport, attempts: tuple[Attempt, ...]) -> str:
    if report.cluster is not None and attempts:
        there = ", ".join(sorted({each.cluster for each in attempts}))
        return f"it has nothing in cluster {report.cluster} now; it is in {there}"
    return "it has no place yet, so that there is nothing to be made larger"


async def _pass_on(call: Call, raw: bytes, signals: dict[str, LoadSignal]) -> LoadTaken:
    told, notes, elsewhere = [], [], set()
    for cluster, signal in sorted(signals.items()):
        try:
            if call.desk.services.signals is None:
                raise NotLinkedHere(cluster, "")
            await call.desk.services.signals.signal(ClusterId(cluster), signal)
            told.append(cluster)
        except NotLinkedHere as error:
            if error.url and FORWARDED.lower() not in call.request.headers:
                elsewhere.add(error.url)
            else:
                notes.append(f"cluster {cluster} cannot be reached and goes on with what it knows")
        except DureError as error:
            notes.append(str(error))
    for url in sorted(elsewhere):
        taken = await _elsewhere(call, url, raw)
        told += taken.clusters
        notes += [taken.note] if taken.note else []
    return LoadTaken(clusters=sorted(set(told)), note="; ".join(notes))


async def _elsewhere(call: Call, url: str, raw: bytes) -> LoadTaken:
    """Tell the server that has the link, as the same asker."""
    asked = call.request
    headers = {
        "Authorization": asked.headers["authorization"],
        "Content-Type": "application/json",
        FORWARDED: "1",
    }
    try:
        async with httpx.AsyncClient(base_url=url, timeout=_ASK_S) as client:
            response = await client.post(asked.url.path, content=raw, headers=headers)
        if response.is_success:
            return LoadTaken.model_validate_json(response.content)
        return LoadTaken(clusters=[], note=f"the server at {url} refused it")
    except (httpx.HTTPError, ValueError):
        return LoadTaken(clusters=[], note=f"the server at {url} does not answer")
