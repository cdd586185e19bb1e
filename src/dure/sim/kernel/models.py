"""Built-in programs: kernel sequences recorded from real models on one H200.

Recorded by `bench/record_kernels.py`; each file says when and on what. Durations, launch shapes
and host times are measured; the share of memory bandwidth is set by what a kernel's name says
bounds it, and by how much of the device it fills.
"""

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from dure.domain.accelerator import AcceleratorProfile
from dure.domain.catalogue import accelerator
from dure.domain.errors import InputError
from dure.domain.units import NS_PER_MS, NS_PER_US
from dure.sim.kernel.load import KernelSpec, Program

_RECORDED_ON = "h200"
_BANDWIDTH = {"memory": 0.8, "compute": 0.35}
"""Share of memory bandwidth of a kernel that fills the device, by what bounds it."""
_GAP_NS = (300, 1_200)
"""Gaps between kernels are kept within what back-to-back launches show; tracing adds to them."""
_ALIKE = 1.15
"""Launches of one signature count as the same kernel while their durations differ by less."""
_PAIRS = "pairs"

MODEL_NAMES: tuple[str, ...] = tuple(
    sorted(
        file.name.removesuffix(".json")
        for file in resources.files("dure.sim.kernel").joinpath("recordings").iterdir()
        if file.name.endswith(".json") and not file.name.startswith(_PAIRS)
    )
)


def recording(name: str) -> dict[str, Any]:
    """A recorded file as it is."""
    folder = resources.files("dure.sim.kernel").joinpath("recordings")
    data: dict[str, Any] = json.loads(folder.joinpath(f"{name}.json").read_text())
    return data


@cache
def load_model(name: str, iteration_ms: float | None = None) -> Program:
    """A built-in program; `iteration_ms` stretches it to a given length alone."""
    if name not in MODEL_NAMES:
        raise InputError(
            f"'{name}' is not a built-in model", f"use one of {', '.join(MODEL_NAMES)}"
        )
    data = recording(name)
    profile = accelerator(_RECORDED_ON)
    host_ns = round(data["host_us_per_launch"] * NS_PER_US)
    book = _Book(profile, data["signatures"], host_ns)
    sequence = tuple(book.kernel(*row) for row in data["sequence"])
    program = Program(
        name=name,
        kernels=book.specs(),
        sequence=sequence,
        graph=data["graph"],
        graph_host_ns=host_ns,
        sync_every=data["sync_every"],
    )
    if iteration_ms is None:
        return program
    return _stretched(program, iteration_ms * NS_PER_MS / program.gpu_ns)


@dataclass(slots=True)
class _Kind:
    """Launches taken for the same kernel."""

    signature: int
    total_ns: float = 0.0
    gaps_ns: float = 0.0
    launches: int = 0


class _Book:
    """Finds launches that are alike and averages them."""

    def __init__(
        self, profile: AcceleratorProfile, signatures: list[list[Any]], host_ns: int
    ) -> None:
        self._profile = profile
        self._signatures = signatures
        self._host_ns = host_ns
        self._numbers: dict[tuple[int, int], int] = {}
        self._kinds: list[_Kind] = []

    def kernel(self, signature: int, duration_ns: float, gap_ns: float) -> int:
        """The number of the kernel this launch belongs to."""
        length = round(math.log(max(duration_ns, 1.0), _ALIKE))
        number = self._numbers.setdefault((signature, length), len(self._kinds))
        if number == len(self._kinds):
            self._kinds.append(_Kind(signature))
        kind = self._kinds[number]
        kind.total_ns += duration_ns
        kind.gaps_ns += min(max(gap_ns, _GAP_NS[0]), _GAP_NS[1])
        kind.launches += 1
        return number

    def specs(self) -> tuple[KernelSpec, ...]:
        """Every kernel found."""
        return tuple(self._spec(kind) for kind in self._kinds)

    def _spec(self, kind: _Kind) -> KernelSpec:
        name, blocks, threads, registers, static, dynamic, bound = self._signatures[kind.signature]
        blocks = max(1, blocks)
        resident = self._profile.resident_blocks(threads, registers, static + dynamic)
        filled = min(1.0, blocks / (resident * self._profile.sms))
        return KernelSpec(
            name=name,
            blocks=blocks,
            threads=max(1, threads),
            resident=resident,
            solo_ns=max(kind.total_ns / kind.launches, 500.0),
            bandwidth_share=_BANDWIDTH[bound] * filled,
            gap_ns=round(kind.gaps_ns / kind.launches),
            host_ns=self._host_ns,
        )


def _stretched(program: Program, factor: float) -> Program:
    """The same program with every kernel and gap longer or shorter."""
    kernels = tuple(
        KernelSpec(
            kernel.name,
            kernel.blocks,
            kernel.threads,
            kernel.resident,
            kernel.solo_ns * factor,
            kernel.bandwidth_share,
            round(kernel.gap_ns * factor),
            kernel.host_ns,
        )
        for kernel in program.kernels
    )
    return Program(
        program.name,
        kernels,
        program.sequence,
        program.graph,
        program.graph_host_ns,
        program.sync_every,
    )
