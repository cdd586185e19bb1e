"""What becomes of attempts and jobs: every step in one place, for links and planner alike.

Read what is stored (locked), let things happen to it, write what has changed. Lock the rows of
clusters before, in the order of their names: then no two transactions wait for each other.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dure.domain.fleet.decisions import Order
from dure.domain.fleet.lifecycle import AttemptState, JobPhase
from dure.domain.fleet.protocol.reports import AttemptStatus, Outcome, Sizing
from dure.domain.fleet.workloads import WorkloadKind
from dure.server.records import CHECKPOINT, YIELDS, order_spec
from dure.stores.repos.jobs import Standing, Step
from dure.stores.rows import Attempt, NewEvent
from dure.stores.transaction import Transaction
from dure.wire.plain import pack

Key = tuple[str, int]
"""Job and attempt."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt came to be gone."""

    outcome: Outcome
    why: str = ""
    saved_share: float = 0.0
    keep: bool = False
    """Whether its cluster keeps what is left of it for a while: what it wrote, what it used."""


@dataclass
class Changes:
    """What a member's word makes of attempts and jobs, before it is written."""

    attempts: dict[Key, Attempt]
    """As they are to be, of those that the word is about."""
    jobs: dict[str, Standing]
    now_ns: int
    others: dict[str, list[Attempt]]
    """Unfinished attempts of the same jobs, these included."""
    retries: Mapping[str, int] = field(default_factory=dict)
    """Of jobs whose program failed."""
    revisions: Mapping[str, int] = field(default_factory=dict)
    """By cluster: of the desired set in which what changes here is so."""
    before: dict[Key, AttemptState] = field(default_factory=dict)
    """States of attempts that changed, as they are stored."""
    reserved: list[Attempt] = field(default_factory=list)
    """New attempts."""
    stepped: set[str] = field(default_factory=set)
    events: list[NewEvent] = field(default_factory=list)

    def commit(self, key: Key) -> None:
        """The cluster took an attempt; one that is not a mere reservation stays as it is."""
        attempt = self.attempts[key]
        if attempt.state is AttemptState.RESERVED:
            self._put(replace(attempt, state=AttemptState.COMMITTED))
            self._happened("attempt.committed", attempt)

    def run(self, key: Key) -> None:
        """All of an attempt runs."""
        self.commit(key)
        attempt = self.attempts[key]
        if attempt.state is AttemptState.COMMITTED:
            self._put(replace(attempt, state=AttemptState.RUNNING))
            self._happened("attempt.running", attempt)
        job = self.jobs[key[0]]
        waits = job.phase in (JobPhase.PLACED, JobPhase.QUEUED, JobPhase.UNKNOWN)
        if attempt.state is not AttemptState.RELEASING and waits:
            self._step(job, JobPhase.RUNNING)

    def end(self, key: Key, ending: Ending) -> None:
        """Nothing of an attempt is left."""
        attempt = self.attempts[key]
        if attempt.state is AttemptState.GONE:
            return
        outcome, reason = ending.outcome, ending.why or ending.outcome.value
        gone = replace(attempt, state=AttemptState.GONE, reason=reason)
        if not ending.keep:
            revision = self._revision(attempt)
            gone = replace(gone, desired_revision=revision, dropped_ns=self.now_ns)
        self._put(gone)
        if attempt.state is AttemptState.RELEASING and outcome is Outcome.FAILED:
            # It was told to stop, so that its exit code says nothing about its work.
            outcome = Outcome.STOPPED
        phase = self._after(attempt, outcome, reason)
        self._happened(
            "attempt.gone",
            attempt,
            outcome=outcome.value,
            why=reason,
            saved=ending.saved_share,
            phase=phase.value,
            waiting=self._waiting(attempt.job_id),
        )

    def _after(self, attempt: Attempt, outcome: Outcome, reason: str) -> JobPhase:
        """What becomes of the job whose attempt is gone."""
        job = self.jobs[attempt.job_id]
        if job.phase.ended:
            return job.phase
        rest = self._unfinished(job.id)
        if rest:
            job = job._replace(cluster=rest[-1].cluster)
        if outcome is Outcome.SUCCEEDED:
            # Exclusive attempts are live one at a time, so that this is the only completion.
            self._forget_reservations(rest)
            return self._step(job, JobPhase.SUCCEEDED)
        job = job._replace(failures=job.failures + (outcome is Outcome.FAILED))
        used_up = outcome is Outcome.FAILED and job.failures > self.retries.get(job.id, 0)
        if job.phase is JobPhase.CANCELLING:
            return self._step(job, job.phase if rest else JobPhase.CANCELLED, job.reason)
        if used_up and not rest:
            return self._step(job, JobPhase.FAILED, reason)
        if any(each.state is AttemptState.RUNNING for each in rest):
            return self._step(job, JobPhase.RUNNING)
        return self._step(job, JobPhase.PLACED if rest else JobPhase.QUEUED, reason)

    def _unfinished(self, job: str) -> list[Attempt]:
        """Attempts of a job that are not gone, with all that the word has changed."""
        present = [
            self.attempts.get((each.job_id, each.attempt), each)
            for each in self.others.get(job, ())
        ]
        return [each for each in present if each.state is not AttemptState.GONE]

    def _forget_reservations(self, rest: list[Attempt]) -> None:
        for other in rest:
            if other.state is AttemptState.RESERVED and other.sent_ns is None:
                self.attempts.setdefault((other.job_id, other.attempt), other)
                gone = replace(other, state=AttemptState.GONE, reason="its job is done")
                self._put(replace(gone, dropped_ns=self.now_ns))

    def reserve(self, order: Order, epoch: int, *, replaces: int | None = None) -> bool:
        """Keep a place for a job; False where it is not wanted any more, or this is old news."""
        job = self.jobs.get(order.workload.id)
        if job is None or job.phase.ended or job.phase is JobPhase.CANCELLING or job.suspended:
            return False
        if order.attempt <= job.attempt:
            return False
        attempt = Attempt(
            job_id=job.id,
            attempt=order.attempt,
            cluster=order.site.cluster,
            epoch=epoch,
            desired_revision=self.revisions[order.site.cluster],
            exclusive=order.workload.kind is not WorkloadKind.SERVING,
            spec=order_spec(order, replaces=replaces),
        )
        self.reserved.append(attempt)
        phase = JobPhase.PLACED if job.phase is JobPhase.QUEUED else job.phase
        self._step(job._replace(attempt=order.attempt, cluster=attempt.cluster), phase)
        self._happened("attempt.reserved", attempt)
        return True

    def release(self, key: Key, why: str) -> None:
        """Have an attempt stopped; one that its cluster never heard of is gone at once."""
        attempt = self.attempts[key]
        if attempt.state is AttemptState.RESERVED and attempt.sent_ns is None:
            self.end(key, Ending(Outcome.STOPPED, why))
        elif attempt.state not in (AttemptState.RELEASING, AttemptState.GONE):
            self._put(
                replace(
                    attempt,
                    state=AttemptState.RELEASING,
                    reason=why,
                    desired_revision=self._revision(attempt),
                )
            )
            self._happened("attempt.releasing", attempt, why=why)

    def send(self, key: Key, resume_share: float) -> None:
        """What a reservation waited for is gone: its cluster may hear of it."""
        attempt = self.attempts[key]
        if attempt.state is AttemptState.RESERVED:
            spec = dict(attempt.spec) | {"resume_share": resume_share}
            self._put(replace(attempt, spec=spec, desired_revision=self._revision(attempt)))

    def request(self, key: Key, number: int) -> None:
        """Have a program asked to save its work; 0: not any more."""
        attempt = self.attempts[key]
        if attempt.state in (AttemptState.COMMITTED, AttemptState.RUNNING):
            spec = dict(attempt.spec) | {CHECKPOINT: number}
            self._put(replace(attempt, spec=spec, desired_revision=self._revision(attempt)))

    def give_way(self, key: Key) -> None:
        """Let an attempt that was to take over from another get no more requests."""
        attempt = self.attempts[key]
        if attempt.state is not AttemptState.GONE:
            self._put(replace(attempt, spec=dict(attempt.spec) | {YIELDS: True}))

    def cancel(self, job_id: str) -> None:
        """Have all of a job stopped; with nothing left it is over."""
        job = self.jobs.get(job_id)
        if job is None or job.phase is not JobPhase.CANCELLING:
            return
        for each in self._unfinished(job_id):
            self.release((each.job_id, each.attempt), "its owner no longer wants it")
        if not self._unfinished(job_id) and not self.jobs[job_id].phase.ended:
            self._step(self.jobs[job_id], JobPhase.CANCELLED, job.reason)

    def suspend(self, job_id: str) -> None:
        """Have all of a job stopped that its owner still wants suspended; it waits then."""
        job = self.jobs.get(job_id)
        if job is None or not job.suspended or job.phase.ended:
            return
        for each in self._unfinished(job_id):
            self.release((each.job_id, each.attempt), "its owner suspended it")

    def fail(self, job_id: str, why: str) -> None:
        """A job that waits can never run."""
        job = self.jobs.get(job_id)
        if job is not None and job.phase is JobPhase.QUEUED:
            self._step(job, JobPhase.FAILED, why)

    def lose_sight(self, job_id: str, why: str) -> None:
        """The cluster of a job cannot be reached."""
        job = self.jobs.get(job_id)
        if job is not None and job.phase in (JobPhase.PLACED, JobPhase.RUNNING):
            self._step(job, JobPhase.UNKNOWN, why)

    def see_again(self, job_id: str) -> None:
        """The cluster of a job is back."""
        job = self.jobs.get(job_id)
        if job is None or job.phase is not JobPhase.UNKNOWN:
            return
        states = {each.state for each in self._unfinished(job_id)}
        runs = states & {AttemptState.RUNNING, AttemptState.RELEASING}
        self._step(job, JobPhase.RUNNING if runs else JobPhase.PLACED)

    def say(self, key: Key, status: AttemptStatus) -> None:
        """Keep what the cluster says of an attempt."""
        data = pack(status)
        before = self.attempts[key]
        if before.status != data:
            self._put(replace(before, status=data))
            self._note_size(before, status.sizing)

    def _note_size(self, before: Attempt, now: Sizing | None) -> None:
        """Let it be known that a service is to be larger or smaller than before."""
        known = before.status.get("sizing") or {}
        size = (int(known.get("serving", 0)), int(known.get("level", 0)))
        if now is not None and known and size != (now.serving, now.level):
            self._happened(
                "job.scaled",
                before,
                serving=now.serving,
                was=size[0],
                standby=now.standby,
                level=now.level,
                why=now.why,
            )

    def _put(self, attempt: Attempt) -> None:
        key = (attempt.job_id, attempt.attempt)
        self.before.setdefault(key, self.attempts.get(key, attempt).state)
        self.attempts[key] = attempt

    def _revision(self, attempt: Attempt) -> int:
        return self.revisions.get(attempt.cluster, attempt.desired_revision)

    def _waiting(self, job: str) -> list[tuple[int, str]]:
        """Reservations of a job that may be sent now, with their clusters."""
        return [
            (each.attempt, each.cluster)
            for each in self._unfinished(job)
            if each.state is AttemptState.RESERVED and each.sent_ns is None
        ]

    def _step(self, job: Standing, phase: JobPhase, reason: str = "") -> JobPhase:
        before = self.jobs[job.id]
        cluster = None if phase is JobPhase.QUEUED else job.cluster
        self.jobs[job.id] = job._replace(phase=phase, reason=reason, cluster=cluster)
        self.stepped.add(job.id)
        if phase is not before.phase:
            data = {"phase": phase.value, "reason": reason}
            self.events.append(NewEvent("job.changed", job.id, job.tenant, data))
        return phase

    def _happened(self, kind: str, attempt: Attempt, **more: Any) -> None:
        data = {"attempt": attempt.attempt, "cluster": attempt.cluster} | more
        tenant = self.jobs[attempt.job_id].tenant
        self.events.append(NewEvent(kind, attempt.job_id, tenant, data))

    async def write(self, tx: Transaction) -> None:
        """Store everything that changed."""
        changed = {key: self.attempts[key] for key in sorted(self.before)}
        # Nothing runs or stops that was not committed: that step is taken by itself.
        committed = []
        for key, each in changed.items():
            further = each.state in (AttemptState.RUNNING, AttemptState.RELEASING)
            if further and self.before[key] is AttemptState.RESERVED:
                changed[key] = replace(each, committed_ns=tx.now_ns)
                committed.append(replace(changed[key], state=AttemptState.COMMITTED))
        await tx.attempts.put_all(committed)
        await tx.attempts.put_all(list(changed.values()))
        await tx.attempts.add_all(self.reserved)
        steps = [
            Step(job.id, job.phase, job.attempt, job.cluster, job.failures, job.reason)
            for job in (self.jobs[each] for each in sorted(self.stepped))
        ]
        await tx.jobs.step_all(steps)
        for event in self.events:
            tx.events.add(event)


async def read_changes(
    tx: Transaction,
    keys: Collection[Key],
    jobs: Collection[str] = (),
    cluster: str | None = None,
) -> Changes:
    """What is stored of these attempts (of one cluster), and of these and their jobs; locked."""
    standings = await tx.jobs.lock({job for job, _ in keys} | set(jobs))
    attempts = await tx.attempts.lock(set(keys))
    if cluster is not None:
        attempts = {
            key: row
            for key, row in attempts.items()
            # Of what it was not sent a cluster has nothing to say either.
            if row.cluster == cluster
            and (row.sent_ns is not None or row.state is not AttemptState.RESERVED)
        }
    others: dict[str, list[Attempt]] = {}
    for each in await tx.attempts.unfinished_of(standings):
        others.setdefault(each.job_id, []).append(each)
        if each.job_id in jobs:
            attempts.setdefault((each.job_id, each.attempt), each)
    return Changes(attempts, standings, tx.now_ns, others)
