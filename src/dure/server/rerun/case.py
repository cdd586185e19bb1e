"""What happened lately as a setting that can be run again: the fleet as it is, the work as it came.

How long an ended job takes is what it took; of one that has not ended, what its owner said, less
what it had done when the time begins. All work is placed anew: what ran before the time begins
comes at its first moment.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dure.domain.errors import DureError, InputError
from dure.domain.fleet.lifecycle import ClusterState, JobPhase
from dure.domain.fleet.workloads import Artefact, Work, Workload, WorkloadKind
from dure.domain.ids import ArtefactId
from dure.domain.units import NS_PER_S
from dure.server import specs
from dure.server.declared import Declared, read_declared
from dure.server.planner.feasible import Offer, judge
from dure.server.records import site_of, status_of
from dure.sim.fleet.setting import LocalFeatures, Physics, Setting
from dure.stores.repos.jobs import JobFilter
from dure.stores.rows import Attempt, Cluster, Job
from dure.stores.transaction import Transaction

MOST_JOBS = 5000
"""Of one re-run: nobody waits long for it."""
_PAGE = 500
_LONGEST_RUN_NS = 24 * 3600 * NS_PER_S
"""Ended jobs that were submitted earlier are not looked for."""
_ROUND_NS = 15 * NS_PER_S
_ENDED = frozenset({JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED})


@dataclass(frozen=True, slots=True)
class Was:
    """A job as it was."""

    name: str
    tenant: str
    kind: WorkloadKind
    cluster: str | None


@dataclass(frozen=True, slots=True)
class Case:
    """A stretch of time that can be run again."""

    setting: Setting
    """With the policy in force."""
    was: Mapping[str, Was]
    notes: tuple[str, ...]
    currency: str


@dataclass(slots=True)
class _Notes:
    """What was left out, counted."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, why: str) -> None:
        self.counts[why] = self.counts.get(why, 0) + 1

    def lines(self) -> Iterable[str]:
        for why, count in sorted(self.counts.items()):
            yield f"{count} job{'' if count == 1 else 's'} left out: {why}"


async def read_case(tx: Transaction, length_ns: int) -> Case:
    """The last stretch of time."""
    until_ns = tx.now_ns
    since_ns = until_ns - length_ns
    declared = await read_declared(tx)
    reader = _Reader(declared, since_ns, until_ns)
    rows = await _jobs(tx, since_ns)
    if len(rows) > MOST_JOBS:
        for _ in rows[MOST_JOBS:]:
            reader.notes.add(f"only the newest {MOST_JOBS} are taken")
        rows = rows[:MOST_JOBS]
    attempts: dict[str, list[Attempt]] = {}
    for each in await tx.attempts.of_jobs([row.id for row in rows]):
        attempts.setdefault(each.job_id, []).append(each)
    for row in rows:
        reader.take(row, attempts.get(row.id, ()))
    return reader.case([member.row for member in declared.members.values()])


async def _jobs(tx: Transaction, since_ns: int) -> list[Job]:
    """Jobs of which anything was there since a moment, the newest first."""
    found: list[Job] = []
    after = ""
    while page := await tx.jobs.live(after, _PAGE):
        found += page
        after = page[-1].id
    cursor = ""
    while True:
        part = await tx.jobs.page(
            JobFilter(phases=_ENDED), cursor=cursor, limit=_PAGE, newest_first=True
        )
        found += [row for row in part.rows if (row.ended_ns or 0) > since_ns]
        cursor = part.cursor
        if not cursor or part.rows[-1].submitted_ns < since_ns - _LONGEST_RUN_NS:
            break
    return sorted(found, key=lambda row: row.id, reverse=True)


class _Reader:
    """Turns rows into work."""

    def __init__(self, declared: Declared, since_ns: int, until_ns: int) -> None:
        self._declared = declared
        self._since_ns = since_ns
        self._until_ns = until_ns
        self.notes = _Notes()
        self._clusters = [
            member.cluster
            for member in declared.members.values()
            if member.cluster is not None and member.row.state is ClusterState.JOINED
        ]
        if not self._clusters:
            raise InputError(
                "no cluster has joined and said what it has", "let the member of one join first"
            )
        known = {cluster.id for cluster in self._clusters}
        self._offers = {
            name: Offer(member.row.kind, member.heard.inventory)
            for name, member in declared.members.items()
            if name in known
        }
        self._profiles = {
            (cluster.id, group.name): group.profile
            for cluster in self._clusters
            for group in cluster.groups
        }
        self._tenants = {tenant.id for tenant in declared.tenants}
        self._work: list[Workload] = []
        self._artefacts: dict[ArtefactId, Artefact] = {}
        self._was: dict[str, Was] = {}

    def take(self, row: Job, attempts: Sequence[Attempt]) -> None:
        """One job."""
        try:
            terms = specs.job_terms(row)
        except DureError:
            self.notes.add("their documents cannot be read")
            return
        if row.suspended:
            self.notes.add("their owners want them to wait")
            return
        if terms.workload.tenant not in self._tenants:
            self.notes.add("their tenant is gone")
            return
        verdict = judge(terms.workload, terms.program, self._offers)
        if verdict.why_not:
            self.notes.add("no cluster has what they name")
            return
        work = self._work_of(row, terms.workload, attempts)
        if work is None and terms.workload.kind is not WorkloadKind.SERVING:
            self.notes.add("they ended without having run")
            return
        workload = replace(
            verdict.workload, submitted_ns=max(row.submitted_ns, self._since_ns), work=work
        )
        for artefact in terms.artefacts:
            self._artefacts[artefact.id] = artefact
        self._work.append(workload)
        kind = terms.workload.kind
        self._was[row.id] = Was(row.name, row.tenant, kind, _where(row, attempts))

    def _work_of(self, row: Job, stated: Workload, attempts: Sequence[Attempt]) -> Work | None:
        if stated.work is None:
            return None
        ran = [each for each in attempts if each.running_ns is not None]
        last = ran[-1] if ran else None
        if row.phase in _ENDED:
            if last is None or last.running_ns is None:
                return None
            end_ns = last.gone_ns or row.ended_ns or self._until_ns
            site = site_of(last)
            profile = self._profiles.get((site.cluster, site.group), stated.work.reference)
            took_s = max(1.0, (end_ns - max(last.running_ns, self._since_ns)) / NS_PER_S)
            return replace(stated.work, reference_s=took_s, reference=profile)
        left = 1.0 - self._done_before(last)
        return replace(stated.work, reference_s=max(1.0, stated.work.reference_s * left))

    def _done_before(self, attempt: Attempt | None) -> float:
        """The share of its work that a running job had done when the time begins."""
        if attempt is None or attempt.running_ns is None or attempt.running_ns >= self._since_ns:
            return 0.0
        status = status_of(attempt)
        if status is None:
            return 0.0
        part = (self._since_ns - attempt.running_ns) / (self._until_ns - attempt.running_ns)
        return min(1.0, status.done_share * part)

    def case(self, rows: Sequence[Cluster]) -> Case:
        """All that was taken."""
        artefacts = {artefact.id: artefact for artefact in specs.artefacts_of(rows)}
        for named in self._named():
            artefacts.setdefault(named, self._artefacts.get(named) or Artefact(named, 0))
        declared = self._declared
        setting = Setting(
            fleet=replace(declared.fleet, clusters=tuple(self._clusters)),
            workloads=tuple(sorted(self._work, key=lambda each: (each.submitted_ns, each.id))),
            start_ns=self._since_ns,
            duration_ns=self._until_ns - self._since_ns,
            tenants=declared.tenants,
            pools=declared.pools,
            artefacts=tuple(artefacts.values()),
            policy=declared.policy,
            round_ns=_ROUND_NS,
            local=LocalFeatures(power_down=False),
            physics=Physics(nodes_on_at_start=True),
            name="the last hour",
        )
        return Case(setting, self._was, tuple(self._told()), declared.fleet.rates.base)

    def _named(self) -> Iterable[ArtefactId]:
        for workload in self._work:
            yield from (each for each in (workload.weights, *workload.data) if each is not None)

    def _told(self) -> Iterable[str]:
        before = sum(1 for each in self._work if each.submitted_ns == self._since_ns)
        if before:
            yield (
                f"{before} that were there when the time began are placed anew at its first "
                "moment, in both runs"
            )
        absent = sorted(
            name
            for name, member in self._declared.members.items()
            if member.cluster is None or member.row.state is not ClusterState.JOINED
        )
        if absent:
            yield f"without the clusters {', '.join(absent)}, which take nothing now"
        yield from self.notes.lines()


def _where(row: Job, attempts: Sequence[Attempt]) -> str | None:
    return row.cluster or (attempts[-1].cluster if attempts else None)
