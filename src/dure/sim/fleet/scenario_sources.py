"""Work of a scenario that comes from traces or is made like them."""

import datetime
from pathlib import Path

import numpy as np

from dure.domain.errors import InputError
from dure.domain.fleet.workloads import Workload
from dure.domain.ids import WorkloadId
from dure.domain.units import NS_PER_S
from dure.fleet.fit import never_fits
from dure.kit.files import FieldPath
from dure.sim.fleet.generators import Shape, openb_like, philly_like
from dure.sim.fleet.job_loads import Draw, job_workloads
from dure.sim.fleet.openb import NODE_FILE, read_nodes, read_pods
from dure.sim.fleet.philly import LONGEST_S, JobTrace, read_philly
from dure.sim.fleet.scenario_fleet import known_profile
from dure.sim.fleet.scenario_work import Around
from dure.sim.fleet.scenario_work_file import SourcePart

_HOUR_NS = 3600 * NS_PER_S
_DAY_S = 86_400.0
_MOST_WORKLOADS = 2_000_000
"""Of one source: far more than a run can hold."""


class SourceBuilder:
    """Makes the jobs of a scenario's sources."""

    def __init__(self, around: Around) -> None:
        self.notes: list[str] = []
        self.never_fitting: set[WorkloadId] = set()
        self._around = around
        self._source = around.source
        self._file = around.file
        self._data = around.data
        self._tenancy = around.tenancy

    def workloads(self) -> list[Workload]:
        """The jobs of all sources."""
        return [
            workload
            for number, part in enumerate(self._file.sources)
            for workload in self._from_source(part, ("sources", number))
        ]

    def _from_source(self, part: SourcePart, where: FieldPath) -> list[Workload]:
        rng = self._around.rng(part.name)
        rules = part.jobs
        self._check_rules(part, (*where, "jobs"))
        trace = self._trace(part, rng, where)
        if len(trace) > _MOST_WORKLOADS:
            raise self._source.wrong(
                where, f"brings {len(trace):,} jobs", f"stay below {_MOST_WORKLOADS:,}"
            )
        self._check_lengths(part, trace, where)
        shares = dict(rules.tenants) or {self._file.tenants[0].name: 1.0}
        shapes = self._shapes(part, len(trace), rng, where)
        draw = Draw(part.name, rng, self._file.start)
        found = job_workloads(trace, rules, draw, tenants=shares, shapes=shapes)
        self._note_misfits(part.name, found)
        return found

    def _check_lengths(self, part: SourcePart, trace: JobTrace, where: FieldPath) -> None:
        """A factor must leave lengths that a clock of nanoseconds can tell."""
        longest_s = float(trace.duration_s.max(initial=0.0)) * part.jobs.time_factor
        if part.jobs.longest is not None:
            longest_s = min(longest_s, part.jobs.longest / NS_PER_S)
        if longest_s > LONGEST_S:
            raise self._source.wrong(
                (*where, "jobs", "time_factor"),
                f"makes a job of {longest_s / _DAY_S:,.0f} days",
                f"stay within {LONGEST_S / _DAY_S:.0f} days, or cap jobs with `longest`",
            )

    def _trace(self, part: SourcePart, rng: np.random.Generator, where: FieldPath) -> JobTrace:
        length_s = min(part.length or self._file.duration, self._file.duration) / NS_PER_S
        if (part.philly is None) == (part.generated is None):
            raise self._source.wrong(
                where, "needs exactly one of philly and generated", "say where its jobs come from"
            )
        if part.generated is not None:
            expected = part.generated.jobs_per_day * length_s / _DAY_S
            if expected > _MOST_WORKLOADS:
                raise self._source.wrong(
                    (*where, "generated"),
                    f"brings about {expected:,.0f} jobs, more than a run can hold",
                    f"stay below {_MOST_WORKLOADS:,}",
                )
            hour = self._file.start // _HOUR_NS % 24
            return philly_like(
                rng,
                jobs_per_day=part.generated.jobs_per_day,
                length_s=length_s,
                first_hour=hour,
            )
        assert part.philly is not None
        path = self._data.file(part.philly.file, self._source, (*where, "philly"))
        start = datetime.datetime.fromtimestamp(part.philly.start / NS_PER_S, datetime.UTC)
        trace = read_philly(path, start, length_s)
        if part.philly.fraction < 1.0:
            trace = trace.taken(rng.random(len(trace)) < part.philly.fraction)
        if not len(trace):
            raise self._source.wrong(
                (*where, "philly", "fraction"), "leaves no job", "take a larger part"
            )
        return trace

    def _shapes(
        self, part: SourcePart, count: int, rng: np.random.Generator, where: FieldPath
    ) -> list[Shape]:
        match part.jobs.shapes:
            case "openb-like":
                return openb_like(rng, count)
            case "openb":
                path = self._data.file(
                    part.jobs.openb_list, self._source, (*where, "jobs", "shapes")
                )
                known = openb_shapes(path)
                return [known[index] for index in rng.integers(0, len(known), count)]
        return []

    def _check_rules(self, part: SourcePart, where: FieldPath) -> None:
        rules = part.jobs
        for name in rules.tenants:
            self._tenancy.known_tenant(name, (*where, "tenants", name))
        for number, name in enumerate(rules.data):
            self._tenancy.known_artefact(name, (*where, "data", number))
        for number, name in enumerate(rules.profiles or ()):
            known_profile(name, self._source, (*where, "profiles", number))
        known_profile(rules.reference, self._source, (*where, "reference"))
        for priority in rules.priorities:
            if not priority.lstrip("-").isdigit():
                raise self._source.wrong(
                    (*where, "priorities", priority),
                    f"'{priority}' is no priority",
                    "write a whole number",
                )
        if sum(rules.priorities.values()) > 1.0:
            raise self._source.wrong(
                (*where, "priorities"), "shares are more than 1 together", "lower them"
            )

    def _note_misfits(self, name: str, workloads: list[Workload]) -> None:
        """Say at once which jobs of a source can never run, and what would help."""
        groups = self._around.groups
        verdicts: dict[object, tuple[str, str] | None] = {}
        misfits = []
        for workload in workloads:
            key = (workload.demand, workload.gang.workers, workload.kind)
            if key not in verdicts:
                verdicts[key] = never_fits(workload, groups)
            if verdicts[key] is not None:
                misfits.append((workload, verdicts[key]))
        self.never_fitting |= {workload.id for workload, _ in misfits}
        if misfits:
            first, verdict = misfits[0]
            assert verdict is not None
            self.notes.append(
                f"{len(misfits):,} of {len(workloads):,} jobs of '{name}' can never run, such as "
                f"'{first.id}': {verdict[0].partition(': ')[2]}; {verdict[1]}"
            )


def openb_shapes(path: Path) -> list[Shape]:
    """Shapes of a pod list's pods that ask for a GPU; the node list lies beside it."""
    models = {node.model for node in read_nodes(path.parent / NODE_FILE) if node.gpus}
    found = [
        Shape(pod.shape.gpus, pod.shape.gpu_milli, pod.shape.cpu_milli, pod.shape.memory_mib)
        for pod in read_pods(path, models)
        if pod.shape.gpus
    ]
    if not found:
        raise InputError("no pod asks for a GPU", "use another list", file=str(path))
    return found
