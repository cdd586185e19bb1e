"""Runs sets in passes: first what has to show something in all of them, then the rest."""

import contextlib
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from dure.bench.node.bed import Bed, emulated_bed, make_image, real_bed
from dure.bench.node.cells import Store
from dure.bench.node.daemon import connect, docker_daemon
from dure.bench.node.sets import SETS
from dure.bench.node.shard import Host, Settings, Shard


def run_sets(
    names: Sequence[str],
    settings: Settings,
    folder: Path,
    *,
    where: "Callable[[Path], contextlib.AbstractContextManager[Bed]]",
    docker_bin: Path | None,
    tell: Callable[[str], None],
) -> bool:
    """Run them; whether nothing is missing any more."""
    began_s = time.monotonic()

    def say(said: str) -> None:
        tell(f"[{time.monotonic() - began_s:6.1f} s] {said}")

    shards = [Shard(SETS[name], settings, Store(folder / name), say) for name in names]
    with _host(where, docker_bin) as host:
        for repeats, largest in _passes(settings.repeats):
            for shard in shards:
                if shard.wanted(repeats, largest=largest):
                    say(f"== {shard.set.title}, {'all' if largest else 'fewer'} of them")
                    shard.run(host, repeats, largest=largest)
    return not any(
        shard.missing(repeats, largest=largest)
        for repeats, largest in _passes(settings.repeats)
        for shard in shards
    )


def _passes(repeats: int) -> list[tuple[int, bool]]:
    """All sets at their largest count once, then again, then at the other counts."""
    return [*((repeat, True) for repeat in range(1, repeats + 1)), (repeats, False)]


def on_this_gpu(scratch: Path) -> "contextlib.AbstractContextManager[Bed]":
    """On the GPU of this machine."""
    return real_bed(scratch)


def on_the_emulator(scale: float) -> "Callable[[Path], contextlib.AbstractContextManager[Bed]]":
    """On the emulator, things taking that part of their time."""
    return lambda scratch: emulated_bed(scratch, scale)


@contextlib.contextmanager
def _host(
    where: "Callable[[Path], contextlib.AbstractContextManager[Bed]]", docker_bin: Path | None
) -> Iterator[Host]:
    with contextlib.ExitStack() as stack:
        stack.enter_context(_ends_in_order())
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dure-bench-")))
        bed = stack.enter_context(where(scratch))
        docker_host = stack.enter_context(docker_daemon(scratch, docker_bin))
        client = connect(docker_host)
        stack.callback(client.close)
        version = str(client.version()["Version"])
        known = replace(bed, machine={**bed.machine, "docker": version})
        yield Host(client, make_image(client), known, docker_host)


@contextlib.contextmanager
def _ends_in_order() -> Iterator[None]:
    """Let SIGTERM end the bench as an error does, so that containers and daemons go with it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
