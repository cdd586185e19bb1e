"""What workloads really use of what they asked for: drawn by lot, told from time to time.

The truth of a workload depends on the seed and its name alone, so it is the same in every mode.
Runs of one service use alike.
"""

import zlib

import numpy as np

from dure.domain.fleet.events import UsageObserved
from dure.domain.fleet.policy import MINUTE_NS
from dure.domain.fleet.workloads import Workload

_MOST_USED = 1.1
"""Largest use, over what was asked: a slice often has a little more than its owner asked for."""
_MEMORY_SHAPE = (5.0, 2.5)
"""Beta distribution of the peak of device memory, as a share of the largest use: mean 0.73 of what
was asked, one in twelve above it. People ask for memory by the worst case they have met."""
_COMPUTE_SHAPE = (2.2, 2.4)
"""The same of compute: mean 0.53 of what was asked, widely spread; mean GPU utilisation of the
Philly clusters was 52 % (Jeon et al., USENIX ATC 2019)."""
_SPREAD = 0.03
"""Standard deviation of one report's peak over another's, as a share of it."""
_SAMPLE_NS = MINUTE_NS
"""How often a cluster looks at what its instances use."""


_DRAWN = 4096
"""Different uses that are drawn; each workload has one of them, by its name."""


class TrueUse:
    """The true use of every workload of a run."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        memory = self._rng.beta(*_MEMORY_SHAPE, size=_DRAWN)
        compute = self._rng.beta(*_COMPUTE_SHAPE, size=_DRAWN)
        self._memory: list[float] = (_MOST_USED * memory).tolist()
        self._compute: list[float] = (_MOST_USED * compute).tolist()

    def shares(self, workload: Workload) -> tuple[float, float]:
        """Memory and compute a workload usually uses at most, as shares of what it asked for."""
        name = f"{workload.tenant}/{workload.service_name or workload.id}"
        lot = zlib.crc32(name.encode()) % _DRAWN
        return self._memory[lot], self._compute[lot]

    def observed(self, workload: Workload, since_ns: int, now_ns: int) -> UsageObserved:
        """What a cluster has seen of an instance between two moments: the highest of it."""
        memory, compute = self.shares(workload)
        factors = 1.0 + _SPREAD * self._rng.standard_normal(2)
        return UsageObserved(
            now_ns,
            workload.id,
            memory_bytes=round(workload.demand.memory_bytes * memory * float(factors[0])),
            compute_share=compute * float(factors[1]),
            samples=max(1, (now_ns - since_ns) // _SAMPLE_NS),
        )
