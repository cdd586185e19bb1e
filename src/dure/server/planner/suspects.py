"""Jobs that the machine fails on: found by halves and kept from it, so that all others are planned.

A round that fails does not say because of whom. What came in since the last one that went well is
let in again half by half, each half with a round of its own, until one job alone makes it fail.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager


class Suspected(Exception):  # noqa: N818 - a wish, not an error
    """The machine failed because of some jobs: begin anew, without them."""


class Suspects:
    """Outlives the machine that failed."""

    def __init__(self) -> None:
        self.fresh: set[str] = set()
        """Jobs that the machine heard of since the last round that went well."""
        self._groups: list[list[str]] = []
        """Jobs that are let in again together, one group after the other."""
        self._held: dict[str, str] = {}
        """Jobs that are kept out, and why."""

    def why_kept(self, job: str) -> str:
        """Why a job is kept from the machine; empty: it is not."""
        if job in self._held:
            return self._held[job]
        if any(job in group for group in self._groups):
            return "it is looked at with fewer others, since planning failed with it among many"
        return ""

    @contextmanager
    def blamed(self, jobs: Collection[str]) -> Iterator[None]:
        """What fails inside fails because of one of these; where there is none, it just fails."""
        try:
            yield
        except Exception as error:
            if not jobs:
                raise
            self._set_aside(sorted(jobs), error)
            raise Suspected(f"the planner failed because of one of {len(jobs)} jobs") from error

    def _set_aside(self, jobs: list[str], error: Exception) -> None:
        self.fresh.clear()
        half = len(jobs) // 2
        if half:
            self._groups += [jobs[:half], jobs[half:]]
        else:
            self._held[jobs[0]] = (
                f"the planner failed on it ({type(error).__name__}: {error}); "
                "describe it in other figures, and report this as a bug"
            )

    def went_well(self) -> list[str]:
        """A round has not failed: nobody in it is to blame. Tells who may be let in next."""
        self.fresh.clear()
        return self._groups.pop() if self._groups else []
