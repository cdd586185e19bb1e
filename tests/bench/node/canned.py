"""Cells as if they had been measured."""

from collections.abc import Sequence

from dure.bench.common.shelf import MACHINE
from dure.bench.node.cells import Cell, Outcome, Store
from dure.bench.node.rows import DURE_DOCKER, DURE_LOCK, DURE_SHIM, PLAIN, SERIAL
from dure.bench.node.sets import SERVER, SETS

PHASES = {"setup_s": 0.3, "input_s": 0.2, "kernel_s": 3.0, "output_s": 0.1}
MACHINE_FACTS = {"gpu": "a made GPU", "driver": "1.2", "docker": "20.10", "date": "2026-01-01"}


def keep(store: Store, row: str, ends_s: Sequence[float], repeat: int = 0, **more: object) -> None:
    """Keep a cell whose containers were done after so many seconds."""
    waits = {"waited_s": 1.5} if row.startswith("dure") else {}
    outcomes = tuple(
        Outcome(
            f"m{index:02d}",
            int(index in more.get("failed", ())),  # type: ignore[operator]
            end_s,
            end_s,
            dict(PHASES),
            **waits,
        )
        for index, end_s in enumerate(ends_s)
    )
    share = 0.04 if row.startswith("dure") else None
    store.note(MACHINE, dict(MACHINE_FACTS))
    store.keep(Cell(row, len(ends_s), repeat, outcomes, True, share))


def keep_alike(store: Store, *, alone_s: float, lock: float, docker: float) -> None:
    """A set at its largest count; `lock` and `docker`: makespans of Dure over that of plain."""
    most = SETS[store.folder.name].most
    plain_s = 1.1 * most * alone_s
    keep(store, PLAIN, [plain_s] * most)
    keep(store, SERIAL, [alone_s * (at + 1) for at in range(most)])
    for row, factor in ((DURE_LOCK, lock), (DURE_DOCKER, docker)):
        keep(store, row, [factor * plain_s * (at + 1) / most for at in range(most)])


def keep_mixed(store: Store, p95_ms: dict[str, float], wait_s: float = 2.0) -> None:
    """The mixed set with these tails of its server, by row."""
    store.note(MACHINE, dict(MACHINE_FACTS))
    for row in (PLAIN, SERIAL, DURE_LOCK, DURE_DOCKER, DURE_SHIM):
        if row in p95_ms:
            server = Outcome(SERVER, 0, 8.0, 8.0, {}, p95_ms[row], 0.0)
            other = Outcome("m19456", 0, 9.0, 9.0, dict(PHASES), None, wait_s)
            store.keep(Cell(row, SETS["mixed"].most, 0, (server, other), True))
