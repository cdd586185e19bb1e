"""`dure bench speed`: kernels simulated per second of wall time, and how that grows with length."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dure.domain.catalogue import accelerator
from dure.domain.ids import TenantId
from dure.domain.tenant import LatencySlo, Slo, Tenant, TenantClass
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.sim.benches.report import BenchReport, Grid, Tell, Verdict, number, silent
from dure.sim.benches.timing import one_core
from dure.sim.kernel.load import Arrivals, ClosedLoop, TenantLoad, poisson
from dure.sim.kernel.mixes import make_mix
from dure.sim.kernel.models import load_model
from dure.sim.kernel.modes import Mode, baseline, managed
from dure.sim.kernel.run import Setting, run

SIZES = (1, 2, 4, 8)
LEAST_KERNELS_PER_S = 50_000.0
_LINEAR = 1.25
"""Cost per kernel of the longest run over that of the shortest, at most."""
_MIX_SEED = 13
"""A mix of eight tenants, the most there are."""
_SEED = 1
_WARM_UP_NS = 100 * NS_PER_MS


@dataclass(frozen=True, slots=True)
class Speed:
    """One load under one mode at one length."""

    load: str
    mode: str
    size: int
    kernels: int
    wall_s: float

    @property
    def kernels_per_s(self) -> float:
        return self.kernels / self.wall_s

    @property
    def us_per_kernel(self) -> float:
        return 1e6 * self.wall_s / self.kernels


def speed_modes() -> tuple[Mode, ...]:
    """Two baselines and one policy: what the loop costs without and with a machine."""
    return baseline("time-slice"), baseline("mps"), managed("hybrid", side_by_side=True)


def bench_speed(
    *,
    base_ns: int = 2 * NS_PER_S,
    sizes: Sequence[int] = SIZES,
    repeats: int = 3,
    tell: Tell = silent,
) -> BenchReport:
    """Time runs of growing length; of repeated runs the fastest counts."""
    longest_ns = max(sizes) * base_ns
    loads = {"pair": _pair(longest_ns), "mix of 8": _mix(longest_ns)}
    plan = [(load, size) for load in loads for size in sizes]
    rows = []
    with one_core():
        for mode in speed_modes():
            run(mode, _pair(_WARM_UP_NS))
        for index, (load, size) in enumerate(plan):
            tell(f"{load}, {size}×", index / len(plan))
            setting = replace(loads[load], duration_ns=size * base_ns)
            rows += [_time(load, mode, size, setting, repeats) for mode in speed_modes()]
    return BenchReport(
        name="speed",
        title="Speed of the simulator",
        about=(
            "Kernels simulated per second of wall time on one core, compiled code warm: compiling "
            "once per machine takes about a minute and is not counted. `pair` is inference "
            "beside training from recorded models, `mix of 8` the made mix of seed "
            f"{_MIX_SEED}. 1× is {base_ns / NS_PER_S:g} s; shorter runs are the beginning of "
            f"longer ones. Of {repeats} runs the fastest counts."
        ),
        grids=(_grid(rows),),
        verdicts=tuple(_verdicts(rows, sizes)),
        simulated=False,
        figures={"rows": [_data(row) for row in rows]},
    )


def _data(row: Speed) -> dict[str, object]:
    return {
        "load": row.load,
        "mode": row.mode,
        "size": row.size,
        "kernels": row.kernels,
        "wall_s": row.wall_s,
        "kernels_per_s": row.kernels_per_s,
    }


def _pair(duration_ns: int) -> Setting:
    """Inference at random times beside training, from recorded models."""
    rng = np.random.default_rng(_SEED)
    model = load_model("encoder-infer")
    rate_per_s = 0.5 * NS_PER_S / model.gpu_ns
    at_ns = poisson(rng, rate_per_s=rate_per_s, start_ns=0, end_ns=duration_ns)
    tenant = Tenant(
        TenantId("service"),
        tenant_class=TenantClass.GUARANTEED,
        slo=Slo(latency=LatencySlo(30 * NS_PER_MS)),
    )
    service = TenantLoad(tenant, model, Arrivals(at_ns, np.ones(len(at_ns), np.int64)))
    training = Tenant(TenantId("training"), tenant_class=TenantClass.BEST_EFFORT)
    loop = TenantLoad(training, load_model("resnet50-train"), ClosedLoop(0, 4))
    return Setting(accelerator("h200"), (service, loop), duration_ns)


def _mix(duration_ns: int) -> Setting:
    """Eight made tenants; cut off at the end, so that length alone differs."""
    return replace(make_mix(_MIX_SEED, duration_ns=duration_ns).setting, drain_ns=0)


def _time(load: str, mode: Mode, size: int, setting: Setting, repeats: int) -> Speed:
    outcomes = [run(mode, setting) for _ in range(repeats)]
    kernels = int(outcomes[0].device[0]["kernels_done"])
    return Speed(load, mode.name, size, kernels, min(outcome.wall_s for outcome in outcomes))


def _grid(rows: list[Speed]) -> Grid:
    return Grid(
        "Kernels per second of wall time",
        ("load and mode", "length", "kernels", "wall s", "kernels/s", "µs per kernel"),
        tuple(
            (
                f"{row.load}, {row.mode}",
                f"{row.size}×",
                f"{row.kernels:,}",
                number(row.wall_s, 2),
                number(row.kernels_per_s, 0),
                number(row.us_per_kernel, 2),
            )
            for row in sorted(rows, key=lambda row: (row.load != "pair", row.mode, row.size))
        ),
    )


def _verdicts(rows: list[Speed], sizes: Sequence[int]) -> list[Verdict]:
    slowest = min(rows, key=lambda row: row.kernels_per_s)
    by_key = {(row.load, row.mode, row.size): row for row in rows}
    growth = {
        (row.load, row.mode): row.us_per_kernel
        / by_key[row.load, row.mode, min(sizes)].us_per_kernel
        for row in rows
        if row.size == max(sizes)
    }
    (load, mode), most = max(growth.items(), key=lambda item: item[1])
    return [
        Verdict(
            f"at least {LEAST_KERNELS_PER_S:,.0f} kernels per second of wall time",
            f"{slowest.kernels_per_s:,.0f} in the slowest run "
            f"({slowest.load}, {slowest.mode}, {slowest.size}×)",
            slowest.kernels_per_s >= LEAST_KERNELS_PER_S,
        ),
        Verdict(
            f"cost linear in kernels: per kernel at most {_LINEAR:.2f} times as much at "
            f"{max(sizes)}× as at {min(sizes)}×",
            f"at most {most:.2f} times ({load}, {mode})",
            most <= _LINEAR,
        ),
    ]
