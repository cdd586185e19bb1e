"""Runs shards one after another, on the GPU of this machine or on the emulator."""

import contextlib
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dure.bench.common.machine import emulated_machine, gpu_machine
from dure.bench.common.shelf import MACHINE
from dure.bench.kernel.bed import Surroundings
from dure.bench.kernel.emulated import emulated_surroundings
from dure.bench.kernel.scenarios import SCENARIOS
from dure.bench.kernel.shard import Settings, Shard
from dure.bench.kernel.specials import SPECIALS
from dure.bench.kernel.store import Store
from dure.domain.errors import DureError


def known_shards() -> tuple[str, ...]:
    """Every shard there is."""
    return (*SCENARIOS, *SPECIALS)


def run_shards(
    names: Sequence[str],
    settings: Settings,
    folder: Path,
    *,
    emulated: bool,
    tell: Callable[[str], None],
) -> bool:
    """Run them; whether nothing is missing any more."""
    machine = emulated_machine() if emulated else gpu_machine()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_ended_in_order())
        surroundings = Surroundings()
        if emulated:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="dure-emulator-"))
            surroundings = emulated_surroundings(Path(scratch))
        return _run_all(names, settings, Store(folder), (surroundings, machine), tell)


@contextlib.contextmanager
def _ended_in_order() -> Iterator[None]:
    """Have a bench that is told to end take its tenants, agents and MPS daemon with it."""

    def end(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # told twice, it still ends in order
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run_all(
    names: Sequence[str],
    settings: Settings,
    kept: Store,
    where: tuple[Surroundings, dict[str, Any]],
    tell: Callable[[str], None],
) -> bool:
    folder, (surroundings, machine) = kept.folder, where
    began_s = time.monotonic()
    finished = True

    def say(said: str) -> None:
        tell(f"[{time.monotonic() - began_s:6.1f} s] {said}")

    for name in names:
        left_s = settings.limit_s - (time.monotonic() - began_s)
        say(f"== {name}")
        own = replace(settings, limit_s=left_s)
        try:
            if name in SCENARIOS:
                shard = Shard(SCENARIOS[name], own, folder, say)
                finished &= shard.run(surroundings, machine)
            else:
                store = Store(folder / name)
                store.note(MACHINE, machine)
                found = SPECIALS[name].run(store, own, surroundings, say)
                finished &= SPECIALS[name].complete(found, own)
        except (DureError, OSError, subprocess.SubprocessError) as error:
            # its parts that were measured are kept, and the other shards are not to miss their turn
            say(f"{name} broke off: {error}")
            finished = False
    return finished
