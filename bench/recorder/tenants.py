"""Keeps one process per tenant of the shared GPU, and has some of them measure at once."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from dure.bench.common.statistics import percentile
from dure.bench.kernel.orders import CLOSED, POISSON, TRAIN, Answer, Order
from dure.bench.kernel.workers import Workers

BEST_EFFORT = "resnet50-train"
HIGH_PRIORITY = {"a": "encoder-infer", "b": "resnet50-infer"}  # by the name of the pair
RAMP_S = 0.5  # every tenant runs this long before anything counts
SEED = 7


class Tenants:
    """Warmed up one after another, so that none tunes beside another."""

    def __init__(
        self, environment: Mapping[str, str], best_effort_env: Mapping[str, str], measure_s: float
    ) -> None:
        self.measure_s = measure_s
        self.folder = tempfile.TemporaryDirectory(prefix="dure-recorder-")
        self.workers = Workers(Path(self.folder.name))
        for name in (BEST_EFFORT, *HIGH_PRIORITY.values()):
            extra = best_effort_env if name == BEST_EFFORT else {}
            self.workers.start(name, name, {**environment, **extra})

    def warm_up(self) -> dict[str, Any]:
        """The machine, as the tenants see it."""
        seen: dict[str, Any] = {}
        names = (BEST_EFFORT, *HIGH_PRIORITY.values())
        self.workers.ask_to_build(names)
        for error in self.workers.built(names).values():
            raise error
        for name in names:
            seen = self.workers.warm_up(name)
        return seen

    def measure(self, names: Sequence[str], poisson_per_s: float | None = None) -> dict[str, Any]:
        """Run the named tenants at once, the others idle."""
        answers = self.workers.measure({name: self.order(name, poisson_per_s) for name in names})
        figures: dict[str, Any] = {}
        for name, answer in answers.items():
            figures |= best_effort(answer) if name == BEST_EFFORT else high_priority(answer)
        return figures

    def order(self, name: str, poisson_per_s: float | None) -> Order:
        if name == BEST_EFFORT:
            return Order(TRAIN, 0.0, self.measure_s, RAMP_S)
        kind = POISSON if poisson_per_s else CLOSED
        return Order(kind, 0.0, self.measure_s, RAMP_S, poisson_per_s or 0.0, SEED)

    def close(self) -> None:
        self.workers.close()
        self.folder.cleanup()


def best_effort(answer: Answer) -> dict[str, Any]:
    return {"be_per_s": round(answer.per_s, 2)}


def high_priority(answer: Answer) -> dict[str, Any]:
    return {
        "hp_per_s": round(answer.per_s, 2),
        "mean_ms": round(fmean(answer.latencies_ms), 3),
        **{f"p{p}_ms": round(percentile(answer.latencies_ms, p), 3) for p in (50, 95, 99)},
        "unserved": len(answer.unserved_ms),  # arrived in the window, not answered when it closed
    }
