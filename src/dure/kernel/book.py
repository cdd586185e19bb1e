"""What is known of one tenant's kernels: durations, widths, classes, speed on fewer units.

No offline profiling: everything is learned from the launches the shim happened to time.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dure.domain.accelerator import AcceleratorProfile
from dure.domain.kernel import KernelClass, KernelProfile, KernelSignature, classify
from dure.domain.readings import KernelSample
from dure.kernel.interference import ClassMix

SHARES = (0.25, 0.5, 0.75)
"""Shares of the device at which speed is tracked; between them it is interpolated."""

_SOLO_STEP = 0.2
_MIX_STEP = 0.05
_SPEED_STEP = 0.1
_PRIOR_SPEED_STEP = 0.2
"""How fast modelled speeds are taken up, beside measured ones."""
_ALONE_OF_COMPANY = 0.7
"""A kernel first met in company is taken to be this much shorter alone."""
_FULL = 0.97
"""A set of at least this share counts as the whole device."""
_BOOK_LIMIT = 4096
"""Signatures kept per tenant; beyond it the oldest go."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """What follows from a kernel's launch shape alone."""

    kernel_class: KernelClass
    width_share: float
    speeds: tuple[float, ...]
    """Modelled speed at `SHARES`, by waves of blocks."""


@dataclass(slots=True)
class _Entry:
    solo_ns: float
    samples: int
    certain: bool
    """Measured alone on the whole device, not guessed from company."""
    shape: _Shape


@dataclass(slots=True)
class KernelBook:
    """Learned behaviour of one tenant's kernels."""

    profile: AcceleratorProfile
    _entries: dict[KernelSignature, _Entry] = field(default_factory=dict)
    mix: ClassMix = (1.0, 0.0, 0.0, 0.0)
    width_share: float = 1.0
    """Share of the device its kernels fill, weighted by time."""
    kernel_ns: float = 50_000.0
    """Duration of a typical launch alone."""
    _speeds: list[float] = field(default_factory=lambda: list(SHARES))
    _seen: int = 0

    def learn(self, sample: KernelSample) -> float | None:
        """Take in timed launches; returns how long they would have taken alone, if in company."""
        mean_ns = sample.total_ns / max(sample.launches, 1)
        entry = self._entries.get(sample.signature)
        alone = not sample.company
        share = sample.sms / self.profile.sms
        if entry is None:
            self._make_room()
            solo_ns = mean_ns * (1.0 if alone else _ALONE_OF_COMPANY)
            entry = _Entry(solo_ns, 0, alone and share >= _FULL, self._shape(sample, solo_ns))
            self._entries[sample.signature] = entry
        entry.samples += sample.launches
        self._learn_shape(entry)
        if not alone:
            return sample.launches * entry.solo_ns / self.speed(share)
        if share >= _FULL:
            step = _SOLO_STEP if entry.certain else 1.0
            entry.solo_ns += step * (mean_ns - entry.solo_ns)
            if not entry.certain:
                entry.certain = True
                entry.shape = self._shape(sample, entry.solo_ns)
        elif entry.certain:
            self._learn_speed(share, entry.solo_ns / max(mean_ns, 1.0))
        return None

    def speed(self, share: float) -> float:
        """Speed on a share of the device, relative to all of it: concave, between 0 and 1."""
        if share >= _FULL:
            return 1.0
        low_share, low_speed = 0.0, 0.0
        for known_share, known_speed in zip((*SHARES, 1.0), (*self._speeds, 1.0), strict=True):
            if share <= known_share:
                part = (share - low_share) / (known_share - low_share)
                return low_speed + part * (known_speed - low_speed)
            low_share, low_speed = known_share, known_speed
        return 1.0

    def speeds(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """`speed` for many shares at once."""
        known = np.interp(shares, (0.0, *SHARES, 1.0), (0.0, *self._speeds, 1.0))
        return np.where(shares >= _FULL, 1.0, known)

    def profiles(self) -> tuple[KernelProfile, ...]:
        """Everything learned, for reports."""
        return tuple(
            KernelProfile(
                signature,
                entry.solo_ns,
                entry.samples,
                classify(signature, entry.solo_ns, self.profile),
            )
            for signature, entry in self._entries.items()
        )

    def without_kernels(self) -> "KernelBook":
        """The same, of the tenant as a whole alone."""
        return replace(self, _entries={}, _speeds=list(self._speeds))

    def _learn_shape(self, entry: _Entry) -> None:
        """Move class mix, width and the prior of speed towards this kernel."""
        step = max(_MIX_STEP, 1.0 / (1.0 + self._seen))
        self._seen += 1
        shape = entry.shape
        keep = 1.0 - step
        mix = [part * keep for part in self.mix]
        mix[shape.kernel_class] += step
        self.mix = (mix[0], mix[1], mix[2], mix[3])
        self.width_share += step * (shape.width_share - self.width_share)
        self.kernel_ns += step * (entry.solo_ns - self.kernel_ns)
        for index, modelled in enumerate(shape.speeds):
            self._speeds[index] += _PRIOR_SPEED_STEP * step * (modelled - self._speeds[index])

    def _learn_speed(self, share: float, speed: float) -> None:
        nearest = min(range(len(SHARES)), key=lambda index: abs(SHARES[index] - share))
        if abs(SHARES[nearest] - share) <= 0.13:
            known = self._speeds[nearest]
            self._speeds[nearest] = min(1.0, max(0.02, known + _SPEED_STEP * (speed - known)))
        ordered = sorted(self._speeds)
        self._speeds[:] = ordered

    def _shape(self, sample: KernelSample, solo_ns: float) -> _Shape:
        signature, sms = sample.signature, self.profile.sms
        whole = signature.waves(sms)
        return _Shape(
            classify(signature, solo_ns, self.profile),
            signature.width_sms(self.profile) / sms,
            tuple(whole / signature.waves(int(share * sms)) for share in SHARES),
        )

    def _make_room(self) -> None:
        if len(self._entries) >= _BOOK_LIMIT:
            del self._entries[next(iter(self._entries))]
