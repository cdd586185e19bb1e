"""One run: a setting under one mode, from its start to its end in virtual time."""

import gc
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dure.domain.units import MIB
from dure.sim.fleet.collect import charge_unfinished, collect
from dure.sim.fleet.modes import Mode, mode_named
from dure.sim.fleet.results import FleetResult
from dure.sim.fleet.setting import Setting
from dure.sim.fleet.world import World

Progress = Callable[[float], None]
"""Told the share of virtual time that has passed."""


def run(setting: Setting, mode: Mode | str, progress: Progress | None = None) -> FleetResult:
    """Run a setting under a mode; returns all its figures."""
    return run_world(setting, mode, progress)[1]


def run_world(
    setting: Setting, mode: Mode | str, progress: Progress | None = None
) -> tuple[World, FleetResult]:
    """The same, with the world as it is at the end, for whoever wants to look closer."""
    if isinstance(mode, str):
        mode = mode_named(mode)
    chosen = mode
    switches = tuple((when_ns, chosen.change(policy)) for when_ns, policy in setting.switches)
    setting = replace(setting, switches=switches)
    started = time.perf_counter()
    world = World(
        setting,
        chosen.make_centre(setting),
        lambda index: chosen.make_local(setting, index),
        first_start_keeps=chosen.race,
    )
    _keep_freed_memory()
    # Hundreds of thousands of long-lived records make each collection slow, and hardly anything is
    # cyclic: what is freed is freed by its count of references.
    collects = gc.isenabled()
    gc.disable()
    try:
        now_ns = setting.start_ns
        while now_ns < setting.end_ns:
            world.round(now_ns)
            now_ns += setting.round_ns
            if progress is not None:
                progress(min(1.0, (now_ns - setting.start_ns) / setting.duration_ns))
        world.finish(setting.end_ns)
    finally:
        if collects:
            gc.enable()
    charge_unfinished(world)
    return world, collect(world, chosen.name, time.perf_counter() - started)


_KEPT_BYTES = 30 * MIB
"""Just below the largest block that the C library of Linux learns from (32 MiB)."""


def _keep_freed_memory() -> None:
    """Let the C library keep memory that is freed, up to twice as much as this.

    Each round makes and frees the same large tables. By default their pages go back to the system
    and are cleared for the next round, which takes as long as filling them. Elsewhere than with
    glibc this does nothing.
    """
    np.empty(_KEPT_BYTES, dtype=np.uint8)
