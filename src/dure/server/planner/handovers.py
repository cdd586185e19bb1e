"""Services that pass from one place to the next: the old one ends once the new one took over."""

from dataclasses import dataclass, field

from dure.domain.fleet.lifecycle import AttemptState
from dure.domain.units import NS_PER_S
from dure.server.handover import answers, reachable
from dure.server.planner.centre import Centre
from dure.server.records import status_of
from dure.server.settings import ServerSettings
from dure.stores.rows import Attempt
from dure.stores.transaction import Transaction


@dataclass
class Handovers:
    """Looks at all of them now and then."""

    centre: Centre
    settings: ServerSettings
    _draining: dict[str, int] = field(default_factory=dict)
    """Since when, as this planner saw it, the new place of a service has all requests and answers
    without a break; so a new leader gives fronts their time again."""

    async def look(self, tx: Transaction) -> None:
        """Release old places whose time has come."""
        book = self.centre.book
        if not book.handovers:
            return
        now_ns = await tx.database_now_ns()
        heard_ns = {row.name: row.last_contact_ns or 0 for row in await tx.clusters.all()}
        attempts: dict[str, dict[int, Attempt]] = {}
        for each in await tx.attempts.unfinished_of(set(book.handovers)):
            attempts.setdefault(each.job_id, {})[each.attempt] = each
        for job, new in list(book.handovers.items()):
            there = attempts.get(job, {})
            old, cluster = book.replaced.get(job, (0, ""))
            taking = there.get(new)
            if old not in there or taking is None or taking.state is not AttemptState.RUNNING:
                self._forget(job, old_gone=old not in there)
            elif self._took_over(taking, now_ns, heard_ns.get(taking.cluster, 0)):
                self._forget(job, old_gone=True)
                why = f"attempt {new} has taken its place"
                self.centre.deeds.releases[job, old] = (cluster, why)

    def _forget(self, job: str, *, old_gone: bool) -> None:
        """It is done, or the new place is gone; then the old one serves on."""
        book = self.centre.book
        book.handovers.pop(job, None)
        self._draining.pop(job, None)
        if old_gone:
            book.replaced.pop(job, None)

    def _took_over(self, taking: Attempt, now_ns: int, heard_ns: int) -> bool:
        """Whether requests have passed, and the old place had time to finish; what the new one last
        said counts only while its cluster is heard of."""
        if not reachable(status_of(taking)):
            return True  # Nobody can ask it anything, so that there is nothing to pass.
        since_ns = now_ns - (taking.running_ns or now_ns)
        fresh = now_ns - heard_ns <= self.settings.silence_s * NS_PER_S
        if not (fresh and answers(taking) and self.settings.pace.shifted(since_ns)):
            self._draining.pop(taking.job_id, None)
            return False
        began_ns = self._draining.setdefault(taking.job_id, now_ns)
        return now_ns - began_ns >= self.settings.drain_s * NS_PER_S
