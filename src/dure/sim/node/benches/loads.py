"""The loads of the benches: the paper's three sizes, and unlike containers."""

from dataclasses import dataclass

import numpy as np

from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.sim.node.containers import ContainerSpec
from dure.sim.node.model import SECOND_H200, GpuModel, HostModel
from dure.sim.node.run import Setting
from dure.sim.node.steps import Allocate, HostWork, Kernel, Loop, Serve, Step, matmul

_RELEASE_NS = 2 * NS_PER_S
"""All wait at a barrier until then."""
_APART_NS = 50 * NS_PER_MS
"""Between two starts of containers."""
_GB = 1000**3
_SEED = 1


@dataclass(frozen=True, slots=True)
class Size:
    """One of the paper's tasks."""

    side: int
    counts: tuple[int, ...]
    """Of containers, from one on."""
    bounds: tuple[tuple[str, float, float], ...]
    """By mode, what makespan and mean may be at most of plain sharing's at the largest count."""

    @property
    def title(self) -> str:
        return f"{self.side:,}²"

    @property
    def most(self) -> int:
        return self.counts[-1]


_LARGE = (
    ("dure-docker", 0.92, 0.65),
    ("dure-cuda-lock", 0.92, 0.65),
    ("dure-lock-only", 0.92, 0.65),
)
_SMALL = (
    ("dure-docker", 1.02, 1.02),
    ("dure-cuda-lock", 1.05, 0.75),
    ("dure-lock-only", 1.05, 0.75),
)
SIZES = (
    Size(19_456, (1, 2, 3, 4, 5), _LARGE),
    Size(13_312, (1, 2, 4, 6, 8, 10), _LARGE),
    Size(8_192, (1, 4, 8, 12, 16, 20), _SMALL),
)


def products(side: int, count: int, *, apart_ns: int | None = None) -> tuple[ContainerSpec, ...]:
    """The same task so often, released together, or started one by one."""
    return tuple(
        ContainerSpec(
            f"task-{number}",
            matmul(side),
            start_ns=number * (_APART_NS if apart_ns is None else apart_ns),
            release_ns=_RELEASE_NS if apart_ns is None else None,
            image=f"matmul-{side}",
        )
        for number in range(count)
    )


def mixed() -> tuple[ContainerSpec, ...]:
    """A service, products of three sizes, a trainer, and one that allocates and frees in a loop."""
    wait = (("dure.max-wait", "60s"),)
    request: tuple[Step, ...] = (Kernel(5 * NS_PER_MS),)
    gaps_ns = np.random.default_rng(_SEED).exponential(NS_PER_S / 20, 200)
    service = (Allocate(_GB), Serve(tuple(int(at_ns) for at_ns in gaps_ns.cumsum()), request))
    step: tuple[Step, ...] = (Kernel(20 * NS_PER_MS), HostWork(NS_PER_MS))
    jobs: dict[str, tuple[Step, ...]] = {
        "large": matmul(19_456),
        "medium": matmul(13_312),
        "small": matmul(8_192),
        "trainer": (Allocate(2 * _GB), Loop(150, step)),
        "looper": (Loop(8, matmul(8_192)),),
    }
    high = (("dure.priority", "high"), *wait)
    return (
        ContainerSpec("service", service, image="service", labels=high, max_wait_ns=60 * NS_PER_S),
        *(
            ContainerSpec(
                name,
                steps,
                release_ns=_RELEASE_NS,
                image=name,
                labels=wait,
                max_wait_ns=60 * NS_PER_S,
            )
            for name, steps in jobs.items()
        ),
    )


@dataclass(frozen=True, slots=True)
class Variant:
    """Another host than the one the model was fitted to."""

    name: str
    gpu: GpuModel
    host: HostModel
    apart_ns: int | None = None

    def setting(self, side: int, count: int) -> Setting:
        specs = products(side, count, apart_ns=self.apart_ns)
        return Setting(specs, gpus=(self.gpu,), host=self.host)


def variants() -> tuple[Variant, ...]:
    """One thing changed at a time."""
    fitted, host = GpuModel(), HostModel()
    slow_docker = HostModel(docker_pause_ns=100 * NS_PER_MS, docker_resume_ns=100 * NS_PER_MS)
    gpus = {
        "as fitted": fitted,
        "as measured on a second H200": SECOND_H200,
        "NVML window of 1 s": GpuModel(sample_window_ns=NS_PER_S),
        "copies twice as fast": GpuModel(
            copy_in_bytes_per_s=2 * fitted.copy_in_bytes_per_s,
            copy_out_bytes_per_s=2 * fitted.copy_out_bytes_per_s,
            link_bytes_per_s=2 * fitted.link_bytes_per_s,
        ),
        "copies half as fast": GpuModel(
            copy_in_bytes_per_s=fitted.copy_in_bytes_per_s / 2,
            copy_out_bytes_per_s=fitted.copy_out_bytes_per_s / 2,
            link_bytes_per_s=fitted.link_bytes_per_s / 2,
        ),
        "contexts in 0.5 s": GpuModel(context_ns=NS_PER_S // 2),
        "switching loses 3 %": GpuModel(switch_loss=0.03),
    }
    return (
        *(Variant(name, gpu, host) for name, gpu in gpus.items()),
        Variant("docker pause of 100 ms", fitted, slow_docker),
        Variant("started 0.2 s apart", fitted, host, apart_ns=NS_PER_S // 5),
    )
