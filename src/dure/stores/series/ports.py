"""What the recorder and those who ask need of a series store, and what can go wrong with one."""

from collections.abc import Sequence
from typing import Protocol

from dure.domain.errors import DureError, InputError
from dure.domain.series import MOST_POINTS, Found, Range, Sample, Selector


class SeriesError(DureError):
    """The series store cannot be used now; it may later."""


class SeriesStore(Protocol):
    """Keeps samples and finds them again; from any thread."""

    def write(self, samples: Sequence[Sample]) -> int:
        """Keep samples, all or (where this raises `SeriesError`) none; tells how many were of
        a time that cannot be kept. What comes again for the same
        series and moment counts as another sample, or replaces the one before."""

    def query(self, selector: Selector, span: Range) -> list[Found]:
        """Series with samples in a span, in the order of their labels; each point sums up one
        step, which begins at a multiple of the step."""

    def names(self) -> list[str]:
        """Names of all series, in order."""

    def tend(self) -> bool:
        """What is to be done now and then: sum up, forget what is too old or too much; whether
        something is left to be done soon."""

    def close(self) -> None:
        """Write what is not written, and end."""


def aligned(span: Range) -> Range:
    """The span with edges at multiples of its step; refuses what cannot be answered."""
    if span.step_ms < 1 or span.end_ms <= span.start_ms:
        raise InputError("the span is empty", "let it end after it starts, in steps above nought")
    start_ms = span.start_ms // span.step_ms * span.step_ms
    end_ms = -(-span.end_ms // span.step_ms) * span.step_ms
    found = Range(start_ms, end_ms, span.step_ms)
    if found.points > MOST_POINTS:
        raise InputError(
            f"{found.points:,} points are too many for one answer",
            f"ask for a shorter span or longer steps, at most {MOST_POINTS:,} points",
        )
    return found
