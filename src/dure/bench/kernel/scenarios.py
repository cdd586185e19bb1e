"""The scenarios: which tenants share the GPU, with what load, and what is promised to them."""

from dataclasses import dataclass
from enum import Enum

from dure.bench.kernel.orders import CLOSED, POISSON, TRAIN


class Role(Enum):
    """What a tenant is to the others."""

    SERVICE = "service"
    """Has requests and, where the row promises one, a latency target."""
    BEST_EFFORT = "best-effort"
    PEER = "peer"
    """One of equals: nothing is promised, nobody goes first."""


@dataclass(frozen=True, slots=True)
class BenchTenant:
    """One tenant of a scenario."""

    name: str
    workload: str
    """In the catalogue of dure.bench.workloads."""
    load: str
    role: Role
    capacity_share: float = 0.0
    """Poisson arrivals at this part of what it can serve alone."""
    per_s: float = 0.0
    """Poisson arrivals at this rate, where it is stated."""
    steps: int = 1
    """Of one request."""
    sync_every: int = 4
    """Steps of training between two syncs."""

    @property
    def serves(self) -> bool:
        return self.load in {POISSON, CLOSED}


@dataclass(frozen=True, slots=True)
class BenchScenario:
    """Tenants that share one GPU."""

    name: str
    title: str
    tenants: tuple[BenchTenant, ...]
    slo_factor: float = 0.0
    """Latency target of the `slo` rows as a multiple of the p99 alone; 0: nobody has one."""
    least_best_effort: float = 0.0
    """Part of its throughput alone that best effort must keep under `slo`; 0: not stated."""

    @property
    def promises(self) -> bool:
        return self.slo_factor > 0.0

    def with_role(self, role: Role) -> tuple[BenchTenant, ...]:
        """The tenants of a role."""
        return tuple(tenant for tenant in self.tenants if tenant.role is role)


RELAXED_FACTOR = 5.0
"""Latency target of the relaxed rows and of `hybrid`, as a multiple of the p99 alone."""
LEAST_RELAXED_BEST_EFFORT = 0.58

_TRAIN = BenchTenant("train", "resnet50-train", TRAIN, Role.BEST_EFFORT)


def _service(name: str, workload: str, **more: float) -> BenchTenant:
    return BenchTenant(
        name,
        workload,
        POISSON,
        Role.SERVICE,
        capacity_share=more.get("capacity_share", 0.0),
        per_s=more.get("per_s", 0.0),
        steps=int(more.get("steps", 1)),
    )


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        BenchScenario(
            "a",
            "pair (a): encoder, 24 layers, as one graph, beside ResNet-50 training",
            (_service("encoder", "encoder-infer", capacity_share=0.5), _TRAIN),
            slo_factor=1.25,
            least_best_effort=0.45,
        ),
        BenchScenario(
            "b",
            "pair (b): ResNet-50, batch 8, as one graph, beside ResNet-50 training",
            (_service("resnet", "resnet50-infer", capacity_share=0.5), _TRAIN),
            slo_factor=1.4,
            least_best_effort=0.40,
        ),
        BenchScenario(
            "eager",
            "eager ResNet-50, batch 4, at 15 requests/s, beside ResNet-50 training",
            (_service("eager", "resnet50-eager", per_s=15.0), _TRAIN),
            slo_factor=1.4,
        ),
        BenchScenario(
            "two-inference",
            "two closed loops of inference: encoder and ResNet-50",
            (
                BenchTenant("encoder", "encoder-infer", CLOSED, Role.PEER),
                BenchTenant("resnet", "resnet50-infer", CLOSED, Role.PEER),
            ),
        ),
        BenchScenario(
            "two-training",
            "two trainings: ResNet-50 and a 12-layer encoder",
            (
                BenchTenant("resnet", "resnet50-train", TRAIN, Role.PEER),
                BenchTenant("bert", "bert-train", TRAIN, Role.PEER),
            ),
        ),
        BenchScenario(
            "decode",
            "LLM-like decoding, launch by launch, 8 tokens a request, beside ResNet-50 training",
            (_service("decode", "llm-decode-eager", capacity_share=0.5, steps=8), _TRAIN),
            slo_factor=1.4,
        ),
        BenchScenario(
            "long-kernels",
            "ResNet-50, batch 8, as one graph, beside matrix products of more than 2 ms each",
            (
                _service("resnet", "resnet50-infer", capacity_share=0.5),
                BenchTenant("matmul", "matmul-long", TRAIN, Role.BEST_EFFORT),
            ),
            slo_factor=5.0,
        ),
        BenchScenario(
            "four",
            "two services with a target beside two trainings",
            (
                _service("encoder", "encoder-infer", capacity_share=0.2),
                _service("resnet", "resnet50-infer", capacity_share=0.2),
                _TRAIN,
                BenchTenant("bert", "bert-train", TRAIN, Role.BEST_EFFORT),
            ),
            slo_factor=2.0,
        ),
    )
}
