"""What a watched scheduler did, what Dure would have done, and the difference."""

import statistics
from collections.abc import Callable, Sequence
from typing import Annotated

from pydantic import Field

from dure.api.base import Document, moment_text
from dure.beside.shadow.accounts import Account, account
from dure.beside.shadow.case import Case, ShadowJob, case_of
from dure.beside.shadow.prices import ShadowPrices
from dure.beside.shadow.records import Watched
from dure.beside.shadow.redeciding import Redecided, Replay
from dure.domain.units import NS_PER_S

MOST_LISTED = 200
"""Jobs that a report lists, those that would have gone elsewhere first."""
_P95 = 0.95
NOTES = (
    "observed: bindings, starts and ends are as the API servers told them.",
    "dure: modelled. Jobs come when they came and take as long as they took; on another "
    "accelerator as long as the catalogue says. Starting takes no time.",
    "money and carbon of both sides are modelled alike, from the prices given and the catalogue's "
    "power: a node is billed whole while anything is on it.",
    "Dure is given each job when its Pods were made, knows how long it will take, and neither "
    "moves, displaces nor defers anything.",
    "a job that only one side started is paid for on that side alone: compare jobs started, too.",
    "what ran before watching began stays where it is on both sides.",
)


class Side(Document):
    """What one scheduler came to."""

    money: float
    g_co2: float
    node_hours: float
    device_hours: float
    fragmentation: float
    """Share of free devices on nodes in use, mean over time."""
    started: int
    """Jobs that got their places."""
    mean_wait_s: float
    """From its Pods' making to its start; of jobs that never started, to the end."""
    p95_wait_s: float


class JobLine(Document):
    """One job on both sides."""

    job: str
    namespace: str
    pods: int
    devices: int
    cluster: str
    nodes: list[str]
    waited_s: float
    dure_cluster: str
    """Empty: it would have waited."""
    dure_nodes: list[str]
    dure_waited_s: float
    why: str = ""


class ShadowReport(Document):
    """The whole comparison."""

    since: str
    until: str
    currency: str
    priced: bool
    """Whether any price was given; else money and carbon say nothing."""
    jobs: int
    dropped: int
    """Pods that the log has forgotten."""
    unread: dict[str, int]
    """Pods that asked in ways Dure does not understand, by reason; left out on both sides."""
    observed: Side
    dure: Side
    """Modelled."""
    saved_money: float
    saved_g_co2: float
    saved_mean_wait_s: float
    same_cluster: int
    elsewhere: int
    """Jobs that would have gone to another cluster."""
    lines: Annotated[list[JobLine], Field(max_length=MOST_LISTED)]
    notes: list[str]


def make_report(
    watched: Watched,
    prices: ShadowPrices,
    progress: Callable[[float], None] | None = None,
) -> ShadowReport:
    """Compare what a log says with what Dure would have done."""
    case = case_of(watched, prices)
    replay = Replay(case)
    decided = replay.run(progress)
    observed = _side(account(case, case.observed), [_waited_s(job, case) for job in case.jobs])
    observed = observed.model_copy(
        update={"started": sum(job.bound_ns is not None for job in case.jobs)}
    )
    dure = _side(account(case, replay.holds), [_would_wait_s(each, case) for each in decided])
    dure = dure.model_copy(update={"started": sum(each.start_ns is not None for each in decided)})
    placed = [each for each in decided if each.start_ns is not None and each.job.bound_ns]
    same = sum(each.cluster == each.job.cluster for each in placed)
    lines = sorted(
        (_line(each, case) for each in decided),
        key=lambda line: (line.cluster == line.dure_cluster, line.job),
    )
    return ShadowReport(
        since=moment_text(case.since_ns),
        until=moment_text(case.until_ns),
        currency=prices.currency,
        priced=bool(prices.clusters),
        jobs=len(case.jobs),
        dropped=watched.dropped,
        unread=dict(watched.unread),
        observed=observed,
        dure=dure,
        saved_money=observed.money - dure.money,
        saved_g_co2=observed.g_co2 - dure.g_co2,
        saved_mean_wait_s=observed.mean_wait_s - dure.mean_wait_s,
        same_cluster=same,
        elsewhere=len(placed) - same,
        lines=lines[:MOST_LISTED],
        notes=list(NOTES),
    )


def _side(sums: Account, waits_s: Sequence[float]) -> Side:
    ordered = sorted(waits_s)
    last = max(0, round(_P95 * len(ordered)) - 1)
    return Side(
        money=sums.money,
        g_co2=sums.g_co2,
        node_hours=sums.node_hours,
        device_hours=sums.device_hours,
        fragmentation=sums.fragmentation,
        started=0,
        mean_wait_s=statistics.fmean(ordered) if ordered else 0.0,
        p95_wait_s=ordered[last] if ordered else 0.0,
    )


def _waited_s(job: ShadowJob, case: Case) -> float:
    end_ns = job.bound_ns
    if end_ns is None:
        end_ns = max(pod.ended_ns or case.until_ns for pod in job.pods)
    return max(0.0, (end_ns - job.workload.submitted_ns) / NS_PER_S)


def _would_wait_s(each: Redecided, case: Case) -> float:
    end_ns = case.until_ns if each.start_ns is None else each.start_ns
    return max(0.0, (end_ns - each.job.workload.submitted_ns) / NS_PER_S)


def _line(each: Redecided, case: Case) -> JobLine:
    first = each.job.pods[0]
    return JobLine(
        job=first.workload or first.name,
        namespace=first.namespace,
        pods=len(each.job.pods),
        devices=sum(pod.count for pod in each.job.pods),
        cluster=each.job.cluster,
        nodes=sorted({pod.node for pod in each.job.pods if pod.node}),
        waited_s=_waited_s(each.job, case),
        dure_cluster=each.cluster,
        dure_nodes=sorted(set(each.nodes)),
        dure_waited_s=_would_wait_s(each, case),
        why=each.why,
    )
