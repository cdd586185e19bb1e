"""Live figures of everything: GPUs, tenants, and processes that nobody manages."""

import threading
import time
from dataclasses import dataclass, field

from dure.agent.actor import Actor
from dure.agent.containers.answers import ContainerDesk
from dure.agent.gpu import Gpu
from dure.agent.ports import GpuLibrary
from dure.agent.registry import Declared
from dure.agent.service import Service
from dure.agent.status import Round, absent_status, gpu_status, tenant_status
from dure.client.schema import (
    AgentInfo,
    AgentStatus,
    GpuProcess,
    GpuStatus,
    TenantList,
    TenantStatus,
)
from dure.devices.nvml import GpuState, GpuUser
from dure.domain.errors import InputError

_FRESH_S = 0.5
"""NVML's lists take milliseconds; nobody looks more often than this."""
_MPS_SERVER = "nvidia-cuda-mps-server"


@dataclass(slots=True)
class _Survey:
    """What NVML said last of one GPU."""

    at_s: float
    state: GpuState
    users: list[GpuUser]


@dataclass(slots=True)
class Desk:
    """Answers GET /v1/status and /v1/tenants."""

    service: Service
    nvml: GpuLibrary
    info: AgentInfo
    containers: ContainerDesk | None = None
    """None: this agent does not manage containers."""
    _surveys: dict[int, _Survey] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def status(self) -> AgentStatus:
        """Everything `dure top` shows."""
        gpus, tenants, unmanaged = [], [], []
        declared = self._declared()
        contained = self.containers.pids() if self.containers is not None else set()
        for actor in self.service.actors:
            survey = self._survey(actor)
            shown, seated, pids = self._look(actor, survey, declared)
            gpus.append(shown)
            tenants += seated
            unmanaged += [
                GpuProcess(
                    gpu=actor.uuid,
                    pid=user.pid,
                    name=user.name,
                    memory_bytes=user.memory_bytes,
                    kind=user.kind,
                )
                for user in survey.users
                if user.pid not in pids | contained and user.name != _MPS_SERVER
            ]
        return AgentStatus(
            agent=self.info,
            gpus=tuple(gpus),
            tenants=_with_absent(tenants, declared),
            unmanaged=tuple(unmanaged),
            events=self.service.events.lines(),
            containers=self.containers.status() if self.containers is not None else None,
        )

    def container_desk(self) -> ContainerDesk:
        """Where questions about containers are answered; raises where nobody does."""
        if self.containers is None:
            raise InputError(
                "this agent does not manage containers",
                "start it with `dure agent --manage-containers`",
            )
        return self.containers

    def tenants(self) -> TenantList:
        """All declared tenants."""
        declared = self._declared()
        seated: list[TenantStatus] = []
        for actor in self.service.actors:
            seated += actor.call(lambda gpu: _tenants(gpu, declared))
        return TenantList(tenants=_with_absent(seated, declared))

    def tenant(self, name: str) -> TenantStatus:
        """One tenant, where it has most processes."""
        found = [each for each in self.tenants().tenants if each.name == name]
        self.service.registry.find(name)
        return max(found, key=lambda each: len(each.clients))

    def _declared(self) -> dict[str, Declared]:
        with self.service.lock:
            return dict(self.service.registry.tenants)

    def _look(
        self, actor: Actor, survey: _Survey, declared: dict[str, Declared]
    ) -> tuple[GpuStatus, list[TenantStatus], set[int]]:
        facts = Round(actor.tick_took_ns, survey.state)
        return actor.call(
            lambda gpu: (
                gpu_status(gpu, facts),
                _tenants(gpu, declared),
                {client.pid for client in gpu.clients.values()},
            )
        )

    def _survey(self, actor: Actor) -> _Survey:
        index = actor.gpu.identity.index
        with self._lock:
            known, now_s = self._surveys.get(index), time.monotonic()
            if known is None or now_s - known.at_s > _FRESH_S:
                known = _Survey(now_s, self.nvml.state(index), self.nvml.users(index))
                self._surveys[index] = known
            return known


def _tenants(gpu: Gpu, declared: dict[str, Declared]) -> list[TenantStatus]:
    return [
        tenant_status(gpu, seat, declared[id_])
        for id_, seat in gpu.seats.items()
        if id_ in declared
    ]


def _with_absent(
    seated: list[TenantStatus], declared: dict[str, Declared]
) -> tuple[TenantStatus, ...]:
    names = {each.name for each in seated}
    absent = [absent_status(each) for name, each in declared.items() if name not in names]
    return tuple(sorted([*seated, *absent], key=lambda each: each.name))
