"""Shards that nobody measured: cells with known figures, to see what is made of them."""

from dure.bench.common.shelf import MACHINE
from dure.bench.kernel.orders import Answer
from dure.bench.kernel.scenarios import SCENARIOS
from dure.bench.kernel.store import CALIBRATION, Cell, Store

MACHINE_FACTS = {"gpu": "a made GPU", "driver": "1.2", "date": "2026-01-01", "host": "a desk"}


def service(p99_ms: float, *, late: int = 0, count: int = 200) -> Answer:
    """Latencies from 1 ms up, whose p99 is the one stated."""
    body = [1.0] * (count - 3) + [p99_ms] * 3
    return Answer(count, count / 10.0, tuple(body), (5000.0,) * late, 0.0, 10.0)


def training(per_s: float) -> Answer:
    return Answer(round(10 * per_s), per_s, first_s=0.0, last_s=10.0)


def keep_pair(
    store: Store,
    rows: dict[str, tuple[float, float]],
    *,
    pair: str = "a",
    seconds: float = 12.0,
    repeats: int = 5,
    late: dict[str, int] | None = None,
) -> None:
    """A pair whose service has a p99 of 10 ms alone, and training 30 steps a second alone.

    `rows` gives the service's p99 in ms and training's steps a second.
    """
    name = SCENARIOS[pair].tenants[0].name
    store.note(MACHINE, MACHINE_FACTS)
    store.note(CALIBRATION, {"capacity_per_s": {name: 40.0}})
    for repeat in range(repeats):
        alone = {name: service(10.0)}
        store.keep(Cell(f"solo+{name}", repeat, seconds, 1.0, alone))
        store.keep(Cell("solo+train", repeat, seconds, 1.0, {"train": training(30.0)}))
        for row, (p99_ms, per_s) in rows.items():
            count = (late or {}).get(row, 0)
            answers = {name: service(p99_ms, late=count), "train": training(per_s)}
            store.keep(Cell(row, repeat, seconds, 1.0, answers))
