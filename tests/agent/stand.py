"""A stand-in for NVML, and an agent process that uses it: for tests without any driver."""

import sys
from pathlib import Path

from dure.agent.main import run
from dure.agent.options import AgentOptions
from dure.client.places import Places
from dure.devices.nvml import GpuFacts, GpuState, GpuUser
from dure.domain.adaptation import AdaptBy

UUIDS = tuple(f"GPU-0000000{index}-1111-2222-3333-444444444444" for index in range(4))


class PaperGpus:
    """GPUs that exist on paper: what the agent needs to know of them, and nothing that runs."""

    def __init__(self, count: int, stranger: int | None = None) -> None:
        self._count = count
        self._stranger = stranger

    def gpus(self) -> list[GpuFacts]:
        return [
            GpuFacts(index, UUIDS[index], "NVIDIA H200", 141 * 10**9, 132, (9, 0))
            for index in range(self._count)
        ]

    def state(self, index: int) -> GpuState:
        return GpuState(memory_used_bytes=5, utilization=0.5)

    def users(self, index: int) -> list[GpuUser]:
        if self._stranger is None:
            return []
        return [GpuUser(self._stranger, "stranger", 7, "compute")]

    def close(self) -> None:
        pass


if __name__ == "__main__":
    folder, count, stranger, policy, port, adapt = sys.argv[1:7]
    gpus = PaperGpus(int(count), int(stranger) or None)
    http = ("127.0.0.1", int(port)) if int(port) else None
    options = AgentOptions(
        places=Places(Path(folder)), policy=policy, http=http, adapt=AdaptBy(adapt)
    )
    run(options, lambda: gpus)
