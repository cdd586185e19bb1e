"""Records pairs, training beside inference, under each way of sharing the GPU."""

import os
import subprocess
import tempfile
import traceback
from pathlib import Path
from typing import Any

from dure.bench.kernel.mps import mps_daemon
from dure.domain.errors import DureError
from recorder.files import save
from recorder.tenants import BEST_EFFORT, HIGH_PRIORITY, SEED, Tenants

MEASURE_S = 6.0
SHARINGS: dict[str, dict[str, str]] = {  # extra environment of the best-effort process
    "time-slice": {},
    "mps": {},
    "mps-priority": {"CUDA_MPS_CLIENT_PRIORITY": "1"},  # 0 is normal, 1 is below normal
    "mps-half": {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"},
}
LOAD_FROM = "time-slice"  # its closed loop sets the Poisson load of every sharing
SOLO_BEST_EFFORT = ("time-slice", "mps", "mps-half")  # priority means nothing to a tenant alone
SOLO_HIGH_PRIORITY = ("time-slice", "mps")  # in the others only the best-effort process differs


def record_pairs(out: Path, measure_s: float) -> None:
    pairs = Pairs(out / "pairs.json", measure_s)
    for sharing, best_effort_env in SHARINGS.items():
        try:
            if not sharing.startswith("mps"):
                pairs.measure(sharing, {}, best_effort_env)
                continue
            with (
                tempfile.TemporaryDirectory() as folder,
                mps_daemon(Path(folder), dict(os.environ)) as environment,
            ):
                pairs.measure(sharing, environment, best_effort_env)
        except (DureError, OSError, subprocess.SubprocessError) as problem:
            # A tenant or the daemon failed; the other sharings are still worth having.
            traceback.print_exc()
            pairs.note(sharing, "failed", "-", {"error": type(problem).__name__})


class Pairs:
    """The rows measured so far, saved after each."""

    def __init__(self, path: Path, measure_s: float) -> None:
        self.path, self.measure_s = path, measure_s
        self.header: dict[str, Any] = {
            "best_effort": BEST_EFFORT,
            "high_priority": HIGH_PRIORITY,
            "measured_s": measure_s,
            "seed": SEED,
            "poisson_load": "half of the requests/s of the closed loop, alone, without MPS",
        }
        self.half_load: dict[str, float] = {}
        self.rows: list[dict[str, Any]] = []

    def note(self, sharing: str, load: str, pair: str, figures: dict[str, Any]) -> None:
        self.rows.append({"pair": pair, "sharing": sharing, "load": load, **figures})
        save(self.path, {**self.header, "rows": self.rows})
        print(self.rows[-1], flush=True)

    def measure(
        self, sharing: str, environment: dict[str, str], best_effort_env: dict[str, str]
    ) -> None:
        tenants = Tenants(environment, best_effort_env, self.measure_s)
        try:
            self.header["machine"] = tenants.warm_up()
            self.measure_alone(tenants, sharing)
            self.measure_together(tenants, sharing)
        finally:
            tenants.close()

    def measure_alone(self, tenants: Tenants, sharing: str) -> None:
        label = f"solo {sharing}"
        if sharing in SOLO_BEST_EFFORT:
            self.note(label, "closed", "-", tenants.measure([BEST_EFFORT]))
        if sharing in SOLO_HIGH_PRIORITY:
            for pair, name in HIGH_PRIORITY.items():
                figures = tenants.measure([name])
                if sharing == LOAD_FROM:
                    self.half_load[pair] = figures["hp_per_s"] / 2
                self.note(label, "closed", pair, figures)
                if rate := self.half_load.get(pair):
                    self.note(label, "poisson", pair, tenants.measure([name], rate))

    def measure_together(self, tenants: Tenants, sharing: str) -> None:
        for pair, name in HIGH_PRIORITY.items():
            self.note(sharing, "closed", pair, tenants.measure([BEST_EFFORT, name]))
        for pair, rate in self.half_load.items():
            names = [BEST_EFFORT, HIGH_PRIORITY[pair]]
            self.note(sharing, "poisson", pair, tenants.measure(names, rate))
