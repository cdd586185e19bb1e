"""Made pod lists and nodes with the published shapes of openb, for whoever has not the trace.

The node list is that of the GPU cluster, kind by kind. Pods are drawn from the frequent shapes of
the default list; the other lists differ from it as theirs do: more shares of GPUs, more pods with
several GPUs, pods that name GPU models, fewer pods without a GPU.
"""

from dataclasses import dataclass

import numpy as np

from dure.domain.errors import InputError
from dure.kit.words import nearest
from dure.sim.fleet.openb import PodShape, PodTrace, TraceNode, TracePod

_NODES = (
    (549, 96_000, 393_216, 8, "G2"),
    (387, 104_000, 524_288, 2, "T4"),
    (107, 16_000, 122_880, 2, "P100"),
    (39, 128_000, 786_432, 8, "G3"),
    (28, 32_000, 131_072, 4, "V100M16"),
    (22, 64_000, 262_144, 2, "P100"),
    (21, 96_000, 786_432, 8, "V100M32"),
    (19, 8_000, 32_768, 1, "V100M16"),
    (17, 96_000, 393_216, 4, "T4"),
    (9, 48_000, 376_832, 4, "V100M32"),
    (7, 64_000, 262_144, 8, "V100M16"),
    (3, 8_000, 61_440, 1, "P100"),
    (2, 8_000, 61_440, 2, "P100"),
    (2, 128_000, 1_048_576, 1, "A10"),
    (1, 82_000, 344_064, 8, "V100M16"),
)
"""How many, CPU milli, host MiB, GPUs, model."""

_WHOLE = (
    (0.36, 11_300, 49_152),
    (0.16, 3_152, 5_600),
    (0.16, 11_908, 47_104),
    (0.12, 18_708, 64_512),
    (0.12, 8_000, 32_768),
    (0.08, 15_200, 80_896),
)
"""Pods with whole GPUs: share, and CPU milli and host MiB for each GPU."""
_PARTS = (
    (0.35, 810, 3_152, 5_600),
    (0.13, 470, 11_908, 47_104),
    (0.12, 470, 8_000, 30_517),
    (0.09, 650, 11_908, 47_104),
    (0.11, 320, 4_000, 22_888),
    (0.05, 230, 4_000, 30_517),
    (0.05, 460, 6_000, 6_144),
    (0.04, 590, 3_152, 5_600),
    (0.03, 550, 4_152, 10_600),
    (0.03, 160, 4_000, 15_258),
)
"""Pods with a share of one GPU: share, GPU milli, CPU milli, host MiB."""
_NO_GPU = ((0.35, 12_500, 57_344), (0.3, 32_000, 49_152), (0.35, 8_000, 30_517))
_SPECS = (("T4",), ("G2",), ("P100",), ("V100M16", "V100M32"))


@dataclass(frozen=True, slots=True)
class _Mix:
    """How a list differs from the default one, as shares of its pods."""

    no_gpu: float = 0.13
    parts: float = 0.43
    """Of the pods with one GPU or less."""
    several: float = 0.01
    """Pods with 2, 4 or 8 GPUs."""
    specs: float = 0.0
    """Of the pods with a GPU, those that name models."""


_MIXES = {
    "default": _Mix(),
    "gpushare100": _Mix(parts=1.0, several=0.0),
    "gpuspec10": _Mix(specs=0.1),
    "multigpu20": _Mix(several=0.03),
    "gpushare40": _Mix(parts=0.56),
    "cpu100": _Mix(no_gpu=0.1),
}
MADE_LISTS = tuple(_MIXES)
_PODS = 8_152
_SEED = 2023
"""The list is fixed; the seeds of a bench draw the order."""


def made_trace(name: str) -> PodTrace:
    """The made counterpart of a pod list."""
    if name not in _MIXES:
        raise InputError(
            f"there is no made pod list '{name}'", nearest(name, MADE_LISTS), field="--trace"
        )
    rng = np.random.default_rng(_SEED)
    mix = _MIXES[name]
    pods = tuple(TracePod(f"pod-{index:05}", _pod(mix, rng)) for index in range(_PODS))
    return PodTrace(name, _nodes(), pods)


def _nodes() -> tuple[TraceNode, ...]:
    """Their kinds in no order, as FGD breaks ties by name."""
    kinds = [kind for kind in _NODES for _ in range(kind[0])]
    order = np.random.default_rng(_SEED).permutation(len(kinds)).tolist()
    return tuple(TraceNode(f"node-{row:04}", *kinds[at][1:]) for row, at in enumerate(order))


def _pod(mix: _Mix, rng: np.random.Generator) -> PodShape:
    kind, part, spec, which = rng.random(4)
    if kind < mix.no_gpu:
        _, cpu, memory = _NO_GPU[_draw([row[0] for row in _NO_GPU], which)]
        return PodShape(cpu, memory, 0, 0)
    models = _SPECS[int(rng.integers(len(_SPECS)))] if spec < mix.specs else ()
    if kind < mix.no_gpu + mix.several:
        _, cpu, memory = _WHOLE[_draw([row[0] for row in _WHOLE], which)]
        gpus = (2, 4, 8)[int(rng.integers(3))]
        return PodShape(cpu // 2 * gpus, memory // 2 * gpus, gpus, 1000)
    if part < mix.parts:
        _, milli, cpu, memory = _PARTS[_draw([row[0] for row in _PARTS], which)]
        return PodShape(cpu, memory, 1, milli, models)
    _, cpu, memory = _WHOLE[_draw([row[0] for row in _WHOLE], which)]
    return PodShape(cpu, memory, 1, 1000, models)


def _draw(shares: list[float], at: float) -> int:
    edges = np.cumsum(shares)
    return min(int(np.searchsorted(edges, at * edges[-1], side="right")), len(shares) - 1)
