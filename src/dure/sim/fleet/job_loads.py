"""Jobs of a trace as workloads: whose they are, what they ask for, when they must be done."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.profiles import DataType
from dure.domain.fleet.workloads import Demand, Gang, Sla, Work, Workload, WorkloadKind
from dure.domain.ids import ArtefactId, TenantId, WorkloadId
from dure.domain.units import MIB, NS_PER_S
from dure.sim.fleet.generators import Shape
from dure.sim.fleet.philly import JobTrace
from dure.sim.fleet.scenario_work_file import JobRulesPart

HOUR_S = 3600.0
_WHOLE = 1000


@dataclass(frozen=True, slots=True)
class Draw:
    """What decides by lot, on which clock, under which name."""

    name: str
    """First part of the workloads' ids."""
    rng: np.random.Generator
    start_ns: int


def job_workloads(
    trace: JobTrace,
    rules: JobRulesPart,
    draw: Draw,
    *,
    tenants: dict[str, float],
    shapes: Sequence[Shape] = (),
) -> list[Workload]:
    """The jobs of a trace as workloads, in order of submission.

    `tenants` are shares of all jobs; a group of the trace goes to one of them as a whole.
    With `shapes` (one for each job) jobs of one device ask for what these say; larger jobs keep
    the trace's number of devices.
    """
    owner = share_out(trace.groups, tenants)
    count = len(trace)
    lots = _Lots(draw.rng, count, rules)
    submitted = draw.start_ns + np.round(trace.submitted_s * NS_PER_S).astype(np.int64)
    lengths = trace.duration_s * rules.time_factor
    if rules.longest is not None:
        lengths = np.minimum(lengths, rules.longest / NS_PER_S)
    demands = _Demands(rules)
    found = []
    for number in range(count):
        devices = int(trace.devices[number])
        shape = shapes[number] if shapes else None
        if shape is not None and devices == 1:
            demand, workers = demands.of_shape(shape)
        else:
            demand, workers = demands.of_devices(devices, int(lots.memory[number]))
        length_s = float(lengths[number])
        submitted_ns = int(submitted[number])
        found.append(
            Workload(
                id=WorkloadId(f"{draw.name}-{number}"),
                tenant=owner[trace.groups[number]],
                kind=WorkloadKind.BATCH
                if lots.batch[number] and devices == 1
                else WorkloadKind.TRAINING,
                demand=demand,
                submitted_ns=submitted_ns,
                priority=int(lots.priority[number]),
                work=Work(length_s, rules.reference, rules.compute_bound),
                gang=_gang(workers, rules, elastic=bool(lots.elastic[number])),
                sla=_sla(
                    submitted_ns, length_s, devices, rules, patient=bool(lots.patient[number])
                ),
                data=(ArtefactId(rules.data[lots.data[number]]),) if rules.data else (),
                profiles=demands.profiles,
                delay_tolerant=bool(lots.patient[number]),
            )
        )
    return found


class _Lots:
    """What is drawn for every job; one column each, so that one rule does not disturb another."""

    def __init__(self, rng: np.random.Generator, count: int, rules: JobRulesPart) -> None:
        self.memory: NDArray[np.int64] = rng.integers(0, len(rules.memory), count)
        self.batch = rng.random(count) < rules.batch
        self.patient = rng.random(count) < rules.delay_tolerant
        self.elastic = rng.random(count) < rules.elastic
        self.data: NDArray[np.int64] = rng.integers(0, max(1, len(rules.data)), count)
        rank = rng.random(count)
        self.priority = np.zeros(count, dtype=np.int64)
        reached = 0.0
        for priority, share in rules.priorities.items():
            self.priority[(rank >= reached) & (rank < reached + share)] = int(priority)
            reached += share


class _Demands:
    """Demands of jobs, each made once: equal ones are the same object."""

    def __init__(self, rules: JobRulesPart) -> None:
        self._rules = rules
        self._known: dict[object, tuple[Demand, int]] = {}
        self._reference = device_profile(rules.reference)
        self.profiles = frozenset(rules.profiles) if rules.profiles else None

    def of_devices(self, devices: int, memory: int) -> tuple[Demand, int]:
        """Whole devices, in workers of as many as one link domain should have."""
        key = (devices, memory)
        if key not in self._known:
            each = max(
                part
                for part in range(1, min(devices, self._rules.worker_devices) + 1)
                if devices % part == 0
            )
            demand = Demand(
                memory_bytes=self._rules.memory[memory],
                cpu_milli=round(self._rules.cpu_per_device * 1000 * each),
                host_memory_bytes=self._rules.host_memory_per_device * each,
                data_type=DataType(self._rules.data_type),
                devices=each,
                whole=True,
            )
            self._known[key] = demand, devices // each
        return self._known[key]

    def of_shape(self, shape: Shape) -> tuple[Demand, int]:
        """What a shape says, shares being those of the reference device."""
        if shape not in self._known:
            share, kind = shape.device_milli / _WHOLE, DataType(self._rules.data_type)
            part = shape.device_milli < _WHOLE
            demand = Demand(
                memory_bytes=round(share * self._reference.memory_bytes),
                compute_tops=share * self._reference.tops.get(kind, 0.0) if part else 0.0,
                cpu_milli=shape.cpu_milli,
                host_memory_bytes=shape.host_memory_mib * MIB,
                data_type=kind,
                devices=shape.devices,
                whole=not part,
            )
            self._known[shape] = demand, 1
        return self._known[shape]


def _gang(workers: int, rules: JobRulesPart, *, elastic: bool) -> Gang:
    most = round(workers * rules.growth_factor) if elastic else None
    return Gang(
        workers=workers,
        most_workers=most if most is not None and most > workers else None,
        checkpoint_s=rules.checkpoint / NS_PER_S if rules.checkpoint else None,
        checkpoint_bytes=rules.checkpoint_size,
    )


def _sla(
    submitted_ns: int, length_s: float, devices: int, rules: JobRulesPart, *, patient: bool
) -> Sla:
    """A deadline by the job's own length, and a penalty by its size; capped by both."""
    slack_ns = rules.patient_slack if patient else rules.slack
    allowed_ns = round(length_s * (1.0 + rules.slack_factor) * NS_PER_S) + slack_ns
    per_hour = rules.penalty_per_device_hour * devices
    cap = rules.cap_factor * per_hour * max(1.0, length_s / HOUR_S)
    return Sla(
        deadline_ns=submitted_ns + allowed_ns, penalty_per_hour_late=per_hour, penalty_cap=cap
    )


def share_out(groups: Sequence[str], tenants: dict[str, float]) -> dict[str, TenantId]:
    """A tenant for each group, the largest groups first, so that jobs come near the shares."""
    total, shares = len(groups), sum(tenants.values())
    missing = {name: total * share / shares for name, share in tenants.items()}
    owner = {}
    for group, size in sorted(Counter(groups).items(), key=lambda item: (-item[1], item[0])):
        neediest = max(missing, key=lambda name: missing[name])
        owner[group] = TenantId(neediest)
        missing[neediest] -= size
    return owner
