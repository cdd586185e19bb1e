"""Contact to the centre: when it surely heard of this member, and what must not outlive silence."""

from dataclasses import dataclass

from dure.domain.fleet.protocol.reports import Outcome
from dure.domain.units import NS_PER_S
from dure.member.core.books import Books
from dure.member.core.held import Ended
from dure.member.core.stage import Stage

_PARTS = 8
"""The time of the last contact is stored, and the centre hears of this member, at every such part
of the shortest time to fence."""
_NEVER_NS = -(2**62)


@dataclass(frozen=True, slots=True)
class Kept:
    """A contact as it is remembered: in the fleet's time, and by the calendar of its host, which is
    all that a new member has to tell how long ago it was."""

    at_ns: int
    host_ns: int


@dataclass(slots=True)
class Contact:
    """The last contact, over the deaths of members."""

    books: Books
    stage: Stage
    at_ns: int = 0
    """When the centre has surely heard of this member."""
    _saved_ns: int = 0

    def load(self, kept: Kept | None, host_ns: int) -> int:
        """Go on from what is remembered, None: nothing is; the fleet's time now."""
        now_ns = host_ns
        if kept is None:
            self.at_ns = now_ns
        elif host_ns < kept.host_ns:  # it was set back: nobody knows how long ago the contact was
            self.at_ns = _NEVER_NS
        else:
            now_ns, self.at_ns = kept.at_ns + host_ns - kept.host_ns, kept.at_ns
        self._saved_ns = self.at_ns
        return now_ns

    def heard(self, at_ns: int) -> None:
        """The centre has surely heard of this member at that time."""
        self.at_ns = max(self.at_ns, at_ns)

    def put_forward(self, jump_ns: int) -> None:
        """The centre put the fleet's time forward: that much of it has not passed in silence."""
        if self.at_ns != _NEVER_NS:
            self.at_ns += jump_ns

    def kept(self, ahead_ns: int) -> Kept:
        """What is to be remembered; the fleet's time is so much ahead of the host's calendar."""
        return Kept(self.at_ns, self.at_ns - ahead_ns)

    @property
    def unsaved(self) -> bool:
        """Whether what is remembered is so old that a new member would fence too early."""
        fences = [
            held.desired.fence_after_s
            for held in self.books.attempts.values()
            if held.desired is not None and held.desired.fence_after_s is not None
        ]
        if not fences:
            return False
        step_ns = max(round(min(fences) * NS_PER_S) // _PARTS, NS_PER_S)
        return self.at_ns - self._saved_ns >= step_ns

    def saved(self) -> None:
        """It is remembered."""
        self._saved_ns = self.at_ns

    @property
    def every_s(self) -> float | None:
        """How often the centre must hear of this member for nothing to be fenced; None: never."""
        fences = [
            held.desired.fence_after_s
            for held in self.books.attempts.values()
            if held.runs_on and held.desired is not None and held.desired.fence_after_s is not None
        ]
        return min(fences) / _PARTS if fences else None

    def fence(self, now_ns: int) -> None:
        """End what must not run on after so long a silence."""
        silent_ns = now_ns - self.at_ns
        for held in list(self.books.attempts.values()):
            limit_s = held.desired.fence_after_s if held.desired is not None else None
            if held.runs_on and limit_s is not None and silent_ns >= limit_s * NS_PER_S:
                why = f"no contact to the centre for {limit_s:g} s"
                self.stage.finish(held, Ended(Outcome.FENCED, why, now_ns))
