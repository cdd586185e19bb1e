"""Tenants of a scenario: from what the file says to a load with its kernels and arrivals."""

import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dure.domain.accelerator import AcceleratorProfile
from dure.domain.catalogue import accelerator
from dure.domain.ids import TenantId
from dure.domain.tenant import (
    AvailabilitySlo,
    Goal,
    LatencySlo,
    MemoryClaim,
    Slo,
    Tenant,
    TenantClass,
    ThroughputSlo,
)
from dure.domain.units import NS_PER_S, format_duration
from dure.kit.files import FieldPath
from dure.kit.words import nearest
from dure.sim.documents import Source
from dure.sim.kernel.load import (
    Arrivals,
    ClosedLoop,
    KernelSpec,
    LoadChange,
    Program,
    TenantLoad,
    changing_poisson,
    periodic,
    poisson,
)
from dure.sim.kernel.models import MODEL_NAMES, load_model
from dure.sim.kernel.physics import Physics
from dure.sim.kernel.scenario_file import (
    ArrivalsPart,
    JobPart,
    KernelPart,
    LoadChangePart,
    ScenarioFile,
    SloPart,
    TenantPart,
)
from dure.sim.kernel.solo import scale_program, solo_request_ns
from dure.sim.kernel.traces import read_trace

RECORDED_ON = "h200"
"""The GPU the built-in models were recorded on."""
_MOST_REQUESTS = 5_000_000
_MOST_LAUNCHES = 200_000
"""In one iteration; the largest recorded model has some thousands."""


class TenantBuilder:
    """Makes the loads of one scenario."""

    def __init__(self, source: Source, document: ScenarioFile, gpu: AcceleratorProfile) -> None:
        self.notes: list[str] = []
        self._source = source
        self._file = document
        self._gpu = gpu
        self._names: set[str] = set()

    def load(self, number: int) -> TenantLoad:
        """The load of the tenant in this place of the list."""
        part = self._file.tenants[number]
        where: FieldPath = ("tenants", number)
        if part.name in self._names:
            raise self._source.wrong(
                (*where, "name"), f"'{part.name}' is already taken", "name every tenant differently"
            )
        self._names.add(part.name)
        self._check_stay(part, where)
        program = self._program(part, where)
        work = self._work(part, program, where)
        leaves_ns = part.leaves
        if leaves_ns is None and self._file.drain and isinstance(work, ClosedLoop):
            leaves_ns = self._file.duration
        return TenantLoad(
            tenant=_tenant(part),
            program=program,
            work=work,
            joins_ns=part.joins,
            leaves_ns=leaves_ns,
            reports_latency=part.reports.latency,
            reports_progress=part.reports.progress,
            memory_bytes=part.memory.use,
        )

    def _check_stay(self, part: TenantPart, where: FieldPath) -> None:
        duration = self._file.duration
        if part.joins >= duration:
            raise self._source.wrong(
                (*where, "joins"),
                f"{format_duration(part.joins)} lies beyond the run's duration of "
                f"{format_duration(duration)}",
                "let it join earlier or lengthen `duration`",
            )
        if part.leaves is not None and part.leaves <= part.joins:
            raise self._source.wrong(
                (*where, "leaves"),
                f"it leaves at {format_duration(part.leaves)} but joins at "
                f"{format_duration(part.joins)}",
                "let it leave after it joins",
            )
        if part.deadline is not None and part.deadline <= part.joins:
            raise self._source.wrong(
                (*where, "deadline"),
                f"its deadline of {format_duration(part.deadline)} is over when it joins at "
                f"{format_duration(part.joins)}",
                "count deadlines from the start of the run",
            )

    # Programs

    def _program(self, part: TenantPart, where: FieldPath) -> Program:
        if (part.model is None) == (part.kernels is None):
            raise self._source.wrong(
                where,
                "needs either `model` or `kernels`",
                "name a built-in model or list the kernels of one iteration",
            )
        if part.model is not None:
            program = self._model(part.model, (*where, "model"))
        else:
            program = self._listed(part, where)
        if part.graph is not None:
            program = replace(program, graph=part.graph)
        if part.sync_every is not None:
            program = replace(program, sync_every=part.sync_every)
        return program

    def _model(self, name: str, where: FieldPath) -> Program:
        if name not in MODEL_NAMES:
            raise self._source.wrong(
                where, f"'{name}' is not a built-in model", nearest(name, MODEL_NAMES)
            )
        program = load_model(name)
        recorded = accelerator(RECORDED_ON)
        same = ("sms", "bandwidth_bytes_per_s")
        if all(getattr(self._gpu, field) == getattr(recorded, field) for field in same):
            return program
        self.notes.append(
            f"model '{name}' was recorded on {RECORDED_ON}; its kernels are scaled to this "
            "GPU's compute units and bandwidth, an estimate"
        )
        return scale_program(program, recorded, self._gpu)

    def _listed(self, part: TenantPart, where: FieldPath) -> Program:
        assert part.kernels is not None
        kernels = tuple(
            self._kernel(kernel, number, (*where, "kernels", number))
            for number, kernel in enumerate(part.kernels)
        )
        sequence = tuple(
            number for number, kernel in enumerate(part.kernels) for _ in range(kernel.repeat)
        )
        if len(sequence) > _MOST_LAUNCHES:
            raise self._source.wrong(
                (*where, "kernels"),
                f"make {len(sequence)} launches an iteration",
                f"use at most {_MOST_LAUNCHES}",
            )
        return Program(part.name, kernels, sequence)

    def _kernel(self, part: KernelPart, number: int, where: FieldPath) -> KernelSpec:
        gpu = self._gpu
        for field, needed, available in (
            ("threads", part.threads, gpu.threads_per_sm),
            ("registers", part.registers * part.threads, gpu.registers_per_sm),
            ("shared_memory", part.shared_memory, gpu.shared_bytes_per_sm),
            ("resident", part.resident or 0, gpu.blocks_per_sm),
        ):
            if needed > available:
                raise self._source.wrong(
                    (*where, field),
                    f"a compute unit of {gpu.name} has room for {available}, not {needed}",
                    "make the block smaller",
                )
        resident = part.resident or gpu.resident_blocks(
            part.threads, part.registers, part.shared_memory
        )
        return KernelSpec(
            name=part.name or f"kernel-{number}",
            blocks=part.blocks,
            threads=part.threads,
            resident=resident,
            solo_ns=float(part.duration),
            bandwidth_share=part.bandwidth,
            gap_ns=part.gap,
            host_ns=part.host,
        )

    # Arrivals

    def _work(self, part: TenantPart, program: Program, where: FieldPath) -> ClosedLoop | Arrivals:
        arrivals = part.arrivals
        where = (*where, "arrivals")
        kinds = [name for name in ArrivalsPart.model_fields if name in arrivals.model_fields_set]
        if len(kinds) != 1:
            raise self._source.wrong(
                where,
                f"says {' and '.join(kinds)}" if kinds else "is empty",
                f"give exactly one of {', '.join(ArrivalsPart.model_fields)}",
            )
        if arrivals.closed is not None or kinds == ["closed"]:
            closed = arrivals.closed
            return ClosedLoop(closed.think, closed.iterations) if closed else ClosedLoop()
        start_ns = part.joins
        end_ns = min(part.leaves or self._file.duration, self._file.duration)
        if arrivals.poisson is not None:
            rate = self._rate(arrivals, program, (*where, "poisson"))
            changes = self._changes(arrivals.poisson.changes, (*where, "poisson", "changes"))
            most = max([1.0, *(change.factor for change in changes)])
            self._check_count(most * rate * (end_ns - start_ns) / NS_PER_S, (*where, "poisson"))
            rng = np.random.default_rng([self._file.seed, zlib.crc32(part.name.encode())])
            if changes:
                at_ns = changing_poisson(
                    rng, rate_per_s=rate, changes=changes, start_ns=start_ns, end_ns=end_ns
                )
            else:
                at_ns = poisson(rng, rate_per_s=rate, start_ns=start_ns, end_ns=end_ns)
            return _same_size(at_ns, arrivals.poisson.iterations)
        if arrivals.periodic is not None:
            period_ns = arrivals.periodic.period
            self._check_count((end_ns - start_ns) / period_ns, (*where, "periodic"))
            at_ns = periodic(period_ns=period_ns, start_ns=start_ns, end_ns=end_ns)
            return _same_size(at_ns, arrivals.periodic.iterations)
        if arrivals.trace is not None:
            path = self._source.yaml.path.parent / Path(arrivals.trace.file)
            at_ns, sizes = read_trace(path, arrivals.trace.iterations)
            return self._in_time(at_ns + start_ns, sizes, end_ns, (*where, "trace"))
        if arrivals.jobs is not None:
            return self._jobs(arrivals.jobs, start_ns, end_ns, (*where, "jobs"))
        raise self._source.wrong((*where, kinds[0]), "is empty", "describe it or choose another")

    def _changes(self, parts: list[LoadChangePart], where: FieldPath) -> tuple[LoadChange, ...]:
        found: list[LoadChange] = []
        for number, part in enumerate(parts):
            ends_ns = found[-1].at_ns + found[-1].over_ns if found else 0
            if part.at < ends_ns:
                raise self._source.wrong(
                    (*where, number, "at"),
                    f"{format_duration(part.at)} is before the change before it is over, at "
                    f"{format_duration(ends_ns)}",
                    "let one change end before the next begins",
                )
            found.append(LoadChange(part.at, part.over, part.factor))
        return tuple(found)

    def _rate(self, arrivals: ArrivalsPart, program: Program, where: FieldPath) -> float:
        part = arrivals.poisson
        assert part is not None
        if (part.rate is None) == (part.load is None):
            raise self._source.wrong(
                where,
                "needs either `rate` or `load`",
                "give requests per second, or the share of what the GPU could serve alone",
            )
        if part.rate is not None:
            return part.rate
        assert part.load is not None
        return part.load * NS_PER_S / solo_request_ns(program, part.iterations, Physics())

    def _check_count(self, count: float, where: FieldPath) -> None:
        if count > _MOST_REQUESTS:
            raise self._source.wrong(
                where,
                f"brings {count:,.0f} requests",
                f"stay below {_MOST_REQUESTS:,} with a lower rate or a shorter `duration`",
            )

    def _in_time(
        self,
        at_ns: NDArray[np.int64],
        sizes: NDArray[np.int64],
        end_ns: int,
        where: FieldPath,
    ) -> Arrivals:
        kept = at_ns < end_ns
        if not kept.any():
            raise self._source.wrong(
                where, "has no request within the run", "lengthen `duration` or use another file"
            )
        return Arrivals(at_ns[kept], sizes[kept])

    def _jobs(self, jobs: list[JobPart], start_ns: int, end_ns: int, where: FieldPath) -> Arrivals:
        for number, job in enumerate(jobs):
            if not start_ns <= job.at < end_ns:
                raise self._source.wrong(
                    (*where, number, "at"),
                    f"{format_duration(job.at)} lies outside the tenant's stay from "
                    f"{format_duration(start_ns)} to {format_duration(end_ns)}",
                    "let the job arrive while its tenant is there",
                )
        ordered = sorted(jobs, key=lambda job: job.at)
        return Arrivals(
            np.asarray([job.at for job in ordered], np.int64),
            np.asarray([job.iterations for job in ordered], np.int64),
        )


def _same_size(at_ns: NDArray[np.int64], iterations: int) -> Arrivals:
    return Arrivals(at_ns, np.full(len(at_ns), iterations, np.int64))


def _tenant(part: TenantPart) -> Tenant:
    slo = _slo(part.slo)
    goal = Goal.SLO if slo else Goal.FINISH if part.arrivals.jobs else Goal.GOODPUT
    return Tenant(
        id=TenantId(part.name),
        weight=part.weight,
        tenant_class=TenantClass(part.tenant_class),
        goal=Goal(part.goal) if part.goal else goal,
        slo=slo,
        memory=MemoryClaim(part.memory.limit, part.memory.reserve),
        floor_share=part.floor,
        expected_ns=part.expect,
        deadline_ns=part.deadline,
    )


def _slo(part: SloPart) -> Slo:
    latency, throughput, availability = part.latency, part.throughput, part.availability
    return Slo(
        latency=LatencySlo(latency.target, latency.percentile) if latency else None,
        throughput=ThroughputSlo(throughput.rate, throughput.window) if throughput else None,
        availability=(
            AvailabilitySlo(availability.share, availability.floor, availability.hold)
            if availability
            else None
        ),
    )
