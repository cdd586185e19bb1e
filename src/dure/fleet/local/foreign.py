"""What others than Dure use of the nodes of one group: closed off as far as it is free.

Others may take more than is free, since nobody asks us. Then all that is free is closed off, and
what Dure's own instances give back is closed off as well until the others have what they use.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dure.domain.units import MIB
from dure.fleet.packing.packer import Packer
from dure.fleet.packing.withholding import Withheld, hand_back, withhold, withhold_these


class Use(NamedTuple):
    """Of one node."""

    devices: int
    cpu_milli: int
    host_memory_bytes: int

    @property
    def host_mib(self) -> int:
        """Host memory as the packing core counts it."""
        return -(-self.host_memory_bytes // MIB)


NOTHING = Use(0, 0, 0)


class Foreign:
    """Nodes are numbered within their group here."""

    def __init__(self, packer: Packer, nodes: int, device_bytes: int) -> None:
        self._packer = packer
        self._device_bytes = device_bytes
        self._uses: dict[int, Use] = {}
        self._held: dict[int, Withheld] = {}
        self.amounts: NDArray[np.int64] = np.zeros((5, nodes), dtype=np.int64)
        """What is closed off, in the rows of `Field.used`."""

    def __bool__(self) -> bool:
        return bool(self._uses)

    def on(self, node: int) -> bool:
        """Whether anybody else uses a node."""
        return node in self._uses

    def devices(self, node: int) -> tuple[int, ...]:
        """Devices that are closed off on a node, as rows of the device matrix."""
        held = self._held.get(node)
        return () if held is None else tuple(held.devices)

    def set(self, node: int, use: Use) -> None:
        """This is all that others use of a node now."""
        self.lift(node)
        if use == NOTHING:
            self._uses.pop(node, None)
        else:
            self._uses[node] = use
        self.settle(node)

    def lift(self, node: int) -> None:
        """Open what was closed off on a node; `settle` closes it off again."""
        held = self._held.pop(node, None)
        if held is not None:
            hand_back(self._packer, node, held)
            self.amounts[:, node] = 0

    def settle(self, node: int) -> None:
        """Something changed on a node: close off what others use, as far as it is free."""
        use = self._uses.get(node)
        if use is None:
            return
        self.lift(node)
        held = withhold(self._packer, node, use.devices, use.cpu_milli, use.host_mib)
        self._keep(node, held)

    def freed(self, node: int) -> None:
        """Dure gave something back on a node; closed off where others use more than was free."""
        use, held = self._uses.get(node), self._held.get(node)
        if use is None or held is None or self._packer.wondering:
            return
        has = (len(held.devices), held.cpu_milli, held.host_mib)
        if has != (use.devices, use.cpu_milli, use.host_mib):
            self.settle(node)

    def _keep(self, node: int, held: Withheld) -> None:
        count = len(held.devices)
        self._held[node] = held
        self.amounts[:, node] = (
            1000 * count,
            self._device_bytes * count,
            1000 * count,
            held.cpu_milli,
            held.host_mib * MIB,
        )

    # Snapshots

    def save(self) -> list[Any]:
        """By node: what is used, and the devices that are closed off for it."""
        return [(node, tuple(use), self.devices(node)) for node, use in self._uses.items()]

    def load(self, saved: list[Any]) -> None:
        """The reverse, once all that Dure has is taken."""
        for node, use, devices in saved:
            it = self._uses[node] = Use(*use)
            held = withhold_these(self._packer, node, list(devices), it.cpu_milli, it.host_mib)
            self._keep(node, held)
