"""Answers what would be decided about jobs, from the database alone: any server can, none is asked.

A global machine of its own is filled with all that is stored and the prices that the leader last
wrote. It is kept for a moment and never leads: the leader's machine does not know of it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dure.domain.errors import DureError
from dure.domain.fleet.clusters import Cluster
from dure.domain.fleet.decisions import SiteSummary
from dure.domain.fleet.events import ArtefactSeen, ClusterClosed, ClusterJoined, ClusterSummarised
from dure.domain.fleet.workloads import Artefact, Workload
from dure.domain.ids import ArtefactId, ClusterId, WorkloadId
from dure.fleet.asked_moves import Weighed, weigh
from dure.fleet.evaluate import Assumed, Verdict, evaluate
from dure.server.planner.feasible import Offer, judge
from dure.server.planner.loading import Begun, begin
from dure.server.planner.suspects import Suspected, Suspects
from dure.server.ports import State
from dure.server.specs import JobTerms

KEPT_S = 2.0
"""How old what is asked may be, where anything has happened since."""
KEPT_FACTOR = 5.0
"""Where reading takes long, it is done less often: so many times as long lies between."""
_MOST_GUESTS = 200
"""Names of guests that a machine is told of, which forgets none, before it is filled anew."""
_TRIES = 20
"""Readings that may fail because of one job each, or of one half of them."""


@dataclass(frozen=True)
class Question:
    """Jobs to be weighed, in what surroundings."""

    jobs: Sequence[JobTerms]
    assuming: Sequence[tuple[JobTerms, str]] = ()
    """Jobs that are taken as placed, and their clusters."""
    guests: Sequence[tuple[Cluster, tuple[SiteSummary, ...]]] = ()
    """Clusters without a member, and what is free there."""


class WhatIf:
    """One for each application; questions are answered one after the other."""

    def __init__(self, state: State, now_ns: Callable[[], int]) -> None:
        self._state = state
        self._now_ns = now_ns
        self._suspects = Suspects()
        self._asking = asyncio.Lock()
        self._begun: Begun | None = None
        self._read_at_s = 0.0
        self._keep_s = KEPT_S
        self._guests: set[str] = set()

    async def ask(self, question: Question) -> tuple[int, list[Verdict]]:
        """When it was, and what would be decided about each job."""
        async with self._asking:
            self._guests |= {cluster.id for cluster, _ in question.guests}
            if len(self._guests) > _MOST_GUESTS:
                self._begun = None
            begun = await self._fresh()
            return await asyncio.to_thread(self._answer, begun, question)

    async def weigh_move(self, job: str, cluster: str | None) -> Weighed | str:
        """What bringing a job elsewhere would come to; where it cannot be done, why."""
        async with self._asking:
            begun = await self._fresh()
            state, now_ns = begun.centre.machine.state, self._now_ns()
            state.now_ns = state.adaptation.now_ns = max(state.now_ns, now_ns)
            wanted = None if cluster is None else ClusterId(cluster)
            return await asyncio.to_thread(weigh, state, WorkloadId(job), wanted)

    def _answer(self, begun: Begun, question: Question) -> tuple[int, list[Verdict]]:
        centre, now_ns = begun.centre, self._now_ns()
        machine, offers = centre.machine, centre.book.offers()
        offers |= {cluster.id: Offer("kubernetes", None) for cluster, _ in question.guests}
        for cluster, sites in question.guests:
            machine.handle(ClusterJoined(now_ns, cluster))
            machine.handle(ClusterSummarised(now_ns, sites))
        _see(machine.state.artefacts.known, centre.feed, now_ns, question)
        state = machine.state
        state.now_ns = state.adaptation.now_ns = max(state.now_ns, now_ns)
        workloads: list[Workload] = []
        unable: dict[WorkloadId, str] = {}
        for terms in question.jobs:
            verdict = judge(terms.workload, terms.program, offers)
            if verdict.why_not:
                unable[terms.workload.id] = verdict.why_not
            else:
                workloads.append(verdict.workload)
        assumed = [
            Assumed(terms.workload, ClusterId(cluster)) for terms, cluster in question.assuming
        ]
        try:
            found = {each.workload: each for each in evaluate(state, workloads, assumed)}
        finally:
            for cluster, _ in question.guests:
                machine.handle(ClusterClosed(now_ns, cluster.id))
        # Guests of others stay in the machine until it is read anew; nobody is told of them.
        others = self._guests - {cluster.id for cluster, _ in question.guests}
        asked = [terms.workload.id for terms in question.jobs]
        verdicts = [
            found.get(job) or Verdict(job, None, state.now_ns, unable[job], (), ()) for job in asked
        ]
        return state.now_ns, [
            replace(each, refusals=tuple(said for said in each.refusals if said[0] not in others))
            for each in verdicts
        ]

    async def _fresh(self) -> Begun:
        """All that is stored, read anew where something has happened and the last is not new."""
        loop = asyncio.get_running_loop()
        if self._begun is not None:
            if loop.time() < self._read_at_s + self._keep_s:
                return self._begun
            async with self._state.reading() as tx:
                if await tx.events.last() == self._begun.seq:
                    self._read_at_s = loop.time()
                    return self._begun
        began_s = loop.time()
        self._begun = await self._read()
        self._guests.clear()
        self._read_at_s = loop.time()
        self._keep_s = max(KEPT_S, KEPT_FACTOR * (self._read_at_s - began_s))
        return self._begun

    async def _read(self) -> Begun:
        for _ in range(_TRIES):
            try:
                async with self._state.reading() as tx:
                    begun = await begin(tx, self._now_ns, self._suspects)
                    prices = await tx.prices.all()
                await begun.submit_waiting()
            except Suspected:
                continue
            state = begun.centre.machine.state
            rows = {str(site): row for site, row in state.sites.rows.items()}
            state.pools.revise(state.now_ns)  # as the first round of a planner does
            state.adaptation.congestion.resize(len(state.sites))
            state.adaptation.congestion.pin(
                {rows[each.site]: each.per_device_hour for each in prices if each.site in rows}
            )
            return begun
        raise DureError("what is stored cannot be weighed", "look into the log of the leader")


def _see(
    known: Mapping[ArtefactId, Artefact],
    feed: Callable[[ArtefactSeen], None],
    now_ns: int,
    question: Question,
) -> None:
    """Let the machine know of artefacts whose size only these jobs tell."""
    for terms in (*question.jobs, *(terms for terms, _ in question.assuming)):
        for artefact in terms.artefacts:
            if artefact.id not in known:
                feed(ArtefactSeen(now_ns, artefact))
