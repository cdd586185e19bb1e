"""A snapshot of a machine and of what its tenants asked for lately: what a dry run starts from.

It is small and holds copies, so that it may go to another thread or process. Kernels are reduced to
the few that take most of the time; everything else that was learned (patience, weights, who slows
whom) comes along, so that a dry run begins where the real machine stands.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from heapq import nlargest

from dure.domain.adaptation import Choice
from dure.domain.ids import TenantId
from dure.domain.kernel import KernelProfile
from dure.domain.units import NS_PER_S
from dure.kernel.interference import Interference
from dure.kernel.machine import KernelMachine, MachineSettings
from dure.kernel.objective import ScoreMeter, Sums
from dure.kernel.track import Track

_KERNELS = 12
"""Of each tenant, those that take most of its time: beyond a dozen they only slow the dry run."""
RECENT_NS = 4 * NS_PER_S
"""What tenants ask for is taken from so long: short enough to follow a step in load."""


@dataclass(frozen=True, slots=True)
class TenantSketch:
    """One tenant: what was learned of it, and what it asked for lately."""

    track: Track
    kernels: tuple[KernelProfile, ...]
    window_ns: float
    lately: Sums
    run_ns: float
    """Device time of one of its jobs, between two pauses; 0: unknown."""
    left_ns: float
    """Device time until the job under way is done."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A machine as it stands."""

    now_ns: int
    settings: MachineSettings
    tenants: tuple[TenantSketch, ...]
    interference: Interference


Lately = tuple[float, dict[TenantId, Sums]]
"""How long was looked at, and what each tenant did in that time."""


def recent(meter: ScoreMeter) -> Lately:
    """What tenants asked for lately, as a snapshot wants it."""
    return meter.over(RECENT_NS)


def take_snapshot(machine: KernelMachine, lately: Lately, now_ns: int) -> Snapshot:
    """Copy what a dry run needs."""
    window_ns, done = lately
    return Snapshot(
        now_ns,
        machine.settings,
        tuple(_sketch(track, window_ns, done) for track in machine.tracks.values()),
        copy.deepcopy(machine.interference),
    )


def _sketch(track: Track, window_ns: float, lately: Mapping[TenantId, Sums]) -> TenantSketch:
    kernels = nlargest(
        _KERNELS, track.book.profiles(), key=lambda each: each.samples * each.solo_ns
    )
    return TenantSketch(
        copy.deepcopy(replace(track, book=track.book.without_kernels())),
        tuple(kernels),
        window_ns,
        copy.copy(lately.get(track.id, Sums())),
        track.run_mean_ns,
        track.remaining()[0],
    )


def revive(snapshot: Snapshot, choice: Choice) -> KernelMachine:
    """A machine that goes on from a snapshot under another policy."""
    settings = replace(snapshot.settings, policy=choice.policy, parameters=choice.parameters)
    return KernelMachine(
        settings,
        interference=copy.deepcopy(snapshot.interference),
        tracks={each.track.id: copy.deepcopy(each.track) for each in snapshot.tenants},
    )
