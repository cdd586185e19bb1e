"""Services that pass from one place to the next: the old one ends once the new one took over."""

from dataclasses import dataclass

from dure.domain.fleet.lifecycle import AttemptState
from dure.server.handover import Pace, answers, reachable
from dure.server.planner.centre import Centre
from dure.server.records import status_of
from dure.stores.rows import Attempt
from dure.stores.transaction import Transaction


@dataclass
class Handovers:
    """Looks at all of them now and then."""

    centre: Centre
    pace: Pace

    async def look(self, tx: Transaction) -> bool:
        """Release old places whose time has come; whether anything needs a decision."""
        book = self.centre.book
        if not book.handovers:
            return False
        now_ns = await tx.database_now_ns()
        attempts: dict[str, dict[int, Attempt]] = {}
        for each in await tx.attempts.unfinished_of(set(book.handovers)):
            attempts.setdefault(each.job_id, {})[each.attempt] = each
        for job, new in list(book.handovers.items()):
            self._look_at(job, attempts.get(job, {}), new, now_ns)
        return False

    def _look_at(self, job: str, attempts: dict[int, Attempt], new: int, now_ns: int) -> None:
        book = self.centre.book
        old, cluster = book.replaced.get(job, (0, ""))
        taking = attempts.get(new)
        if old not in attempts or taking is None or taking.state is not AttemptState.RUNNING:
            # One of them is gone: either all is done, or the old one serves on.
            del book.handovers[job]
            return
        status = status_of(taking)
        since_ns = now_ns - (taking.running_ns or now_ns)
        if reachable(status) and not (self.pace.over(since_ns) and answers(status)):
            return
        del book.handovers[job], book.replaced[job]
        why = f"attempt {new} has taken its place"
        self.centre.deeds.releases[job, old] = (cluster, why)
