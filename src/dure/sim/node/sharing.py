"""Something that all who use it share equally: the compute of a GPU, or its link to the host."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from dure.sim.agenda import Agenda

Done = Callable[[int], None]
"""Told the moment at which a piece of work ended."""

_ENOUGH = 1e-6
"""What may be left of a piece of work that ends now: times are whole nanoseconds."""


@dataclass(eq=False, slots=True)
class Piece:
    """Work that is going on."""

    left: float
    done: Done


class EqualShare:
    """Pieces of work that go on at one rate each, which depends on how many there are."""

    def __init__(self, agenda: Agenda, rate: Callable[[int], float]) -> None:
        self._agenda = agenda
        self._rate = rate
        """Of each piece, per nanosecond, by their number."""
        self._pieces: dict[Piece, None] = {}
        self._since_ns = 0
        self._plan = 0
        """Numbers the plans for the next end; an older one is void."""

    def __len__(self) -> int:
        return len(self._pieces)

    def begin(self, now_ns: int, amount: float, done: Done) -> Piece:
        """Start a piece of work."""
        self._advance(now_ns)
        piece = Piece(amount, done)
        self._pieces[piece] = None
        self._replan(now_ns)
        return piece

    def stop(self, now_ns: int, piece: Piece) -> float:
        """Take a piece away before its end; what is left of it."""
        self._advance(now_ns)
        del self._pieces[piece]
        self._replan(now_ns)
        return piece.left

    def _advance(self, now_ns: int) -> None:
        if self._pieces:
            step = (now_ns - self._since_ns) * self._rate(len(self._pieces))
            for piece in self._pieces:
                piece.left -= step
        self._since_ns = now_ns

    def _replan(self, now_ns: int) -> None:
        self._plan += 1
        least = min((piece.left for piece in self._pieces), default=math.inf)
        if math.isfinite(least):
            in_ns = math.ceil(max(0.0, least) / self._rate(len(self._pieces)))
            self._agenda.note(now_ns + in_ns, self._end, self._plan)

    def _end(self, now_ns: int, plan: int) -> None:
        if plan != self._plan:
            return
        self._advance(now_ns)
        ended = [piece for piece in self._pieces if piece.left <= _ENOUGH]
        for piece in ended:
            del self._pieces[piece]
        self._replan(now_ns)
        for piece in ended:
            piece.done(now_ns)
