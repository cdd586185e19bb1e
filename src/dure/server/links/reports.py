"""What members report becomes rows: steps of attempts and jobs, news of the cluster, spend.

One report is one transaction, which members keep short; an answer to a plan of many attempts is
stored in parts, so that nobody waits long for the database. Told again, a word changes nothing.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from dure.domain.errors import DureError
from dure.domain.fleet.lifecycle import AttemptState
from dure.domain.fleet.protocol.desired import PlanAnswer
from dure.domain.fleet.protocol.reports import Outcome, Report, RunPhase, ServiceLoad
from dure.server import specs
from dure.server.changes import Changes, Ending, read_changes
from dure.server.links.claims import MOST_GROUPS, credible, in_one_line
from dure.server.links.partitions import take_partitions
from dure.server.links.spending import OWED_AT_ONCE, Bought, charge
from dure.server.records import inventory_data, sites_data
from dure.server.virtual.spaces import take_spaces
from dure.stores.rows import Job, Json, NewEvent
from dure.stores.transaction import Transaction

_PART = 300
"""Attempts whose acceptance is stored in one transaction."""


class OutOfOrderError(DureError):
    """A report came before the one that must precede it."""


def answer_parts(answer: PlanAnswer) -> Iterator[PlanAnswer]:
    """The same answer about some attempts at a time."""
    rest = replace(answer, refused=())
    for first in range(_PART, len(answer.accepted), _PART):
        yield replace(rest, accepted=answer.accepted[first : first + _PART])
    yield replace(answer, accepted=answer.accepted[:_PART])


async def store_answer(tx: Transaction, cluster: str, link_epoch: int, answer: PlanAnswer) -> None:
    """A member took a plan: its reservations become commitments, or are gone."""
    row = await tx.clusters.hold_link(cluster, link_epoch)
    if (answer.epoch, answer.revision) > (row.desired_epoch, row.desired_revision):
        raise OutOfOrderError(
            f"cluster {cluster} answers plan {answer.epoch}.{answer.revision}, which nobody made",
            "answer plans that were sent",
        )
    await tx.clusters.accept(cluster, answer.epoch, answer.revision)
    accepted = {(str(key.job), key.attempt) for key in answer.accepted}
    refused = {
        (str(each.key.job), each.key.attempt): in_one_line(each.why) for each in answer.refused
    }
    if not accepted and not refused:
        return
    changes = await read_changes(tx, accepted | set(refused), cluster=cluster)
    if refused:
        changes.revisions = {cluster: await tx.clusters.next_revision(cluster)}
    for key in sorted(accepted & set(changes.attempts)):
        changes.commit(key)
    for key in sorted(set(refused) & set(changes.attempts)):
        if changes.attempts[key].state is AttemptState.RESERVED:
            changes.end(key, Ending(Outcome.TURNED_DOWN, refused[key]))
    await changes.write(tx)


async def store_report(tx: Transaction, cluster: str, link_epoch: int, report: Report) -> int:
    """Store a report unless it is; tells the number of the last one that is stored."""
    row = await tx.clusters.hold_link(cluster, link_epoch)
    if report.seq <= row.report_seq:
        return row.report_seq
    if report.seq != row.report_seq + 1 and not report.whole:
        raise OutOfOrderError(
            f"report {report.seq} of cluster {cluster} came after {row.report_seq}",
            "send all that were not acknowledged, in order, or a whole one",
        )
    await tx.clusters.heard_report(cluster, report.seq)
    report = credible(report, cluster)
    keys = {(str(each.key.job), each.key.attempt) for each in report.attempts}
    used = {(str(each.key.job), each.key.attempt) for each in report.usage}
    owed = await tx.meters.owed(cluster, OWED_AT_ONCE) if used or report.whole else ()
    used |= {(each.job_id, each.attempt) for each in owed}
    changes = await read_changes(tx, keys | used, cluster=cluster)
    await _take_statuses(tx, changes, report)
    bought = await charge(tx, cluster, changes, report.usage, owed) if used else Bought()
    served = await _served(tx, cluster, report)
    await changes.write(tx)
    await _take_news(tx, cluster, replace(report, loads=served), changes, bought)
    await take_partitions(tx, cluster, report.partitions)
    await take_spaces(tx, cluster, report.spaces)
    return report.seq


async def _take_statuses(tx: Transaction, changes: Changes, report: Report) -> None:
    statuses = {
        key: each
        for each in report.attempts
        if (key := (str(each.key.job), each.key.attempt)) in changes.attempts
    }
    ends = {
        key
        for key, each in statuses.items()
        if each.phase is RunPhase.GONE and changes.attempts[key].state is not AttemptState.GONE
    }
    failed = {key[0] for key in ends if statuses[key].outcome is Outcome.FAILED}
    if failed:
        changes.retries = {job.id: _retries(job) for job in await tx.jobs.many(failed)}
    for key, status in sorted(statuses.items()):
        if changes.attempts[key].state is AttemptState.GONE:
            continue
        changes.say(key, status)
        if status.phase is RunPhase.GONE:
            outcome = status.outcome or Outcome.DISPLACED
            changes.end(key, Ending(outcome, status.why, status.saved_share, keep=True))
        elif status.phase is RunPhase.RUNNING:
            changes.run(key)
        elif status.phase is not RunPhase.RELEASING:
            changes.commit(key)


def _retries(job: Job) -> int:
    try:
        return specs.job_terms(job).retries
    except DureError:
        return 0  # Its document cannot be read any more, so that it could not be started anew.


async def _served(tx: Transaction, cluster: str, report: Report) -> tuple[ServiceLoad, ...]:
    """Loads of services that this cluster has a part of."""
    if not report.loads:
        return ()
    jobs = {str(each.workload) for each in report.loads}
    here = {row.job_id for row in await tx.attempts.unfinished_of(jobs) if row.cluster == cluster}
    return tuple(each for each in report.loads if each.workload in here)


async def _retired(tx: Transaction, cluster: str, inventory: Json) -> Json | None:
    """Groups of nodes that a cluster has no more, the newest last; None: as before."""
    before = await tx.news.find(cluster)
    if before is None:
        return None
    here = {group["name"] for group in inventory.get("groups", ())}
    gone = {
        group["name"]: group
        for group in before.inventory.get("groups", ())
        if group["name"] not in here
    }
    if not gone:
        return None
    kept = {name: group for name, group in before.retired.items() if name not in gone} | gone
    return dict(list(kept.items())[-MOST_GROUPS:])


async def _take_news(
    tx: Transaction, cluster: str, report: Report, changes: Changes, bought: Bought
) -> None:
    """Keep what the cluster says of itself, and tell the planner what it needs."""
    inventory = None if report.inventory is None else inventory_data(report.inventory)
    sites = sites_data(report.sites) if report.sites else None
    if inventory is not None or sites is not None:
        retired = None if inventory is None else await _retired(tx, cluster, inventory)
        await tx.news.said(cluster, inventory=inventory, sites=sites, retired=retired)
    if inventory is not None:
        # The local stage is told its groups with the prices of its cluster.
        await tx.clusters.next_revision(cluster, surroundings=True)
    data: dict[str, Any] = {
        "inventory": inventory is not None,
        "sites": sites is not None,
        "progress": [
            [each.key.job, each.key.attempt, each.done_share, each.saved_share, len(each.instances)]
            for each in report.attempts
            if each.phase is RunPhase.RUNNING
            and each.done_share > 0
            and (str(each.key.job), each.key.attempt) in changes.attempts
        ],
        "saved": [
            [each.key.job, each.checkpointed]
            for each in report.attempts
            if each.checkpointed and (str(each.key.job), each.key.attempt) in changes.attempts
        ],
        "loads": [
            [each.workload, each.requests_per_s, each.replicas, each.violated_share]
            for each in report.loads
        ],
        "usage": [
            [each.key.job, each.memory_bytes, each.compute_share]
            for each in report.usage
            if each.memory_bytes and (str(each.key.job), each.key.attempt) in changes.attempts
        ],
        "spend": [[*who, *what] for who, what in bought.by_team().items()],
    }
    if any(data.values()):
        tx.events.add(NewEvent("cluster.reported", cluster, None, data))
    for text in report.warnings:
        tx.events.add(NewEvent("warning", cluster, None, {"what": text, "kind": "general"}))
