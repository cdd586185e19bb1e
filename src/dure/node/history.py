"""What is remembered of images: how much memory they take, how long their bursts last."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import median

from dure.domain.units import MIB, NS_PER_S

STEPS_PER_DOUBLING = 2
"""Peaks that differ by less than about 40 % are one size of a task."""
SIZES_PER_IMAGE = 16
IMAGES = 256
ANSWERS_KEPT = 1024
LENGTHS_KEPT = 7
"""Lengths of bursts the median is taken of."""
LONGER = 1.25
"""Two bursts in a row that are so many times longer than that say that they have become longer."""
LONGER_NS = NS_PER_S // 2
"""If only they are longer by so much, too: samples lag, and short lengths are not known so well."""
SAME_PEAK = 0.95
"""Memory from this part of a remembered peak on counts as having reached it."""


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """One size of task of one image."""

    image: str
    peak_bytes: int
    lengths_ns: tuple[int, ...] = ()
    """Last bursts, alone, from the start of the input copy to the last of the results."""
    held_lengths_ns: tuple[int, ...] = ()
    """The same from the launch on, of those whose input had been copied before."""
    share: float | None = None
    """Part of the GPU's time used in bursts, alone."""
    inputs_ns: tuple[int, ...] = ()
    """Time from the allocation to the first launch, of those that were not held in between."""
    gaps: bool | None = None
    """Whether bursts leave the GPU idle now and then, or their end shows only by that; None: not
    known."""

    @property
    def input_ns(self) -> int | None:
        """The time its input takes. The shortest seen, as work is never seen too early."""
        return min(self.inputs_ns, default=None)

    @property
    def burst_ns(self) -> int | None:
        """The usual length of a burst."""
        return _usual(self.held_lengths_ns or self.lengths_ns, self.gaps is False)

    def left_ns(self, held: bool) -> int | None:
        """The usual length of a burst, counted from its launch or from its input copy."""
        return _usual(self.held_lengths_ns if held else self.lengths_ns, self.gaps is False)


@dataclass(frozen=True, slots=True)
class Burst:
    """One burst that ended."""

    peak_bytes: int
    length_ns: int
    held: bool
    """It began at the launch: the input had been copied before it was let go."""
    share: float | None
    gaps: bool | None = None
    """It left the GPU idle now and then, or at its end and kept its memory; None: not known."""


@dataclass(slots=True)
class History:
    """Records by image and size; the least recently used go first."""

    _records: dict[str, dict[int, ImageRecord]] = field(default_factory=dict)
    _asked: dict[tuple[str, int], tuple[ImageRecord, ...]] = field(default_factory=dict)
    """Answers of `candidates`, which is asked for every container at every look."""

    @classmethod
    def of(cls, records: Iterable[ImageRecord]) -> "History":
        """What an earlier run had learned."""
        history = cls()
        for record in records:
            history._keep(record)
        return history

    def records(self) -> tuple[ImageRecord, ...]:
        """Everything known, to be kept for a later run."""
        return tuple(record for sizes in self._records.values() for record in sizes.values())

    def learn(self, image: str, burst: Burst) -> None:
        """Take in one burst."""
        known = self._records.get(image, {}).get(_size(burst.peak_bytes))
        record = known or ImageRecord(image, burst.peak_bytes)
        lengths, held = record.lengths_ns, record.held_lengths_ns
        if burst.held:
            held = (*held, burst.length_ns)[-LENGTHS_KEPT:]
        else:
            lengths = (*lengths, burst.length_ns)[-LENGTHS_KEPT:]
        self._keep(
            replace(
                record,
                peak_bytes=max(record.peak_bytes, burst.peak_bytes),
                lengths_ns=lengths,
                held_lengths_ns=held,
                share=burst.share if burst.share is not None else record.share,
                gaps=burst.gaps if burst.gaps is not None else record.gaps,
            )
        )

    def learn_gaps(self, image: str, memory_bytes: int) -> None:
        """A task of some kind that is known leaves the GPU idle within a burst."""
        record = self.find(image, memory_bytes)
        if record is not None and record.gaps is not True:
            self._keep(replace(record, gaps=True))

    def learn_input(self, image: str, memory_bytes: int, input_ns: int) -> None:
        """Take in the time from one allocation to the launch after it."""
        known = self._records.get(image, {}).get(_size(memory_bytes))
        record = known or ImageRecord(image, memory_bytes)
        inputs_ns = (*record.inputs_ns, input_ns)[-LENGTHS_KEPT:]
        self._keep(replace(record, inputs_ns=inputs_ns))

    def candidates(self, image: str, memory_bytes: int) -> tuple[ImageRecord, ...]:
        """Sizes a task of this image may have that uses so much memory by now, smallest first."""
        found = self._asked.get((image, memory_bytes))
        if found is None:
            sizes = self._records.get(image, {}).values()
            able = [size for size in sizes if size.peak_bytes >= SAME_PEAK * memory_bytes]
            found = tuple(sorted(able, key=lambda record: record.peak_bytes))
            if len(self._asked) >= ANSWERS_KEPT:
                self._asked.clear()
            self._asked[image, memory_bytes] = found
        return found

    def find(self, image: str, memory_bytes: int) -> ImageRecord | None:
        """The smallest size that this task may have."""
        found = self.candidates(image, memory_bytes)
        return found[0] if found else None

    def peak_bytes(self, image: str) -> int | None:
        """Most memory a task of this image took."""
        found = self._records.get(image, {}).values()
        return max((record.peak_bytes for record in found), default=None)

    def _keep(self, record: ImageRecord) -> None:
        self._asked.clear()
        sizes = self._records.pop(record.image, {})
        size = _size(record.peak_bytes)
        sizes.pop(size, None)
        sizes[size] = record
        if len(sizes) > SIZES_PER_IMAGE:
            del sizes[next(iter(sizes))]
        self._records[record.image] = sizes
        if len(self._records) > IMAGES:
            del self._records[next(iter(self._records))]


@lru_cache(maxsize=ANSWERS_KEPT)
def _usual(lengths_ns: tuple[int, ...], follow: bool) -> int | None:
    """Asked for every container at every look; `follow`: soon takes longer ones for usual, since an
    end that comes before it is due shows at once."""
    if not lengths_ns:
        return None
    usual_ns, longer_ns = round(median(lengths_ns)), min(lengths_ns[-2:])
    longer = longer_ns > max(LONGER * usual_ns, usual_ns + LONGER_NS)
    return longer_ns if follow and longer else usual_ns


def _size(peak_bytes: int) -> int:
    return round(STEPS_PER_DOUBLING * math.log2(max(peak_bytes, MIB) / MIB))
