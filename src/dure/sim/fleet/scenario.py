"""A fleet scenario: a file that says which clusters, whose work and which modes, ready to run.

Everything that can be wrong is found here, before anything runs, as one `InputError`.
"""

import math
import os
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dure.domain.errors import InputError
from dure.domain.fleet.policy import ClassPolicy, FleetPolicy
from dure.domain.fleet.workloads import Workload, WorkloadKind
from dure.domain.units import NS_PER_S
from dure.kit.files import FieldPath
from dure.kit.words import nearest
from dure.sim.documents import Document, Source
from dure.sim.fleet.faults import CentreFault, ClusterFault, ClusterFaultKind, Fault, NodeFault
from dure.sim.fleet.modes import MODES
from dure.sim.fleet.scenario_file import (
    NEVER,
    ClassPolicyPart,
    FaultPart,
    PolicyPart,
    ScenarioFile,
)
from dure.sim.fleet.scenario_fleet import DataFolder, FleetBuilder
from dure.sim.fleet.scenario_sources import SourceBuilder
from dure.sim.fleet.scenario_tenants import TenancyBuilder
from dure.sim.fleet.scenario_work import Around, WorkBuilder
from dure.sim.fleet.setting import LocalFeatures, Setting

_G_PER_KG = 1000.0
_LONGEST_NS = 3650 * 24 * 3600 * NS_PER_S
_MOST_ROUNDS = 10_000_000
"""Of one run: each takes some milliseconds, however little there is to decide."""
_MOST_SITE_ROUNDS = 500_000_000
"""Rounds times node groups, each of which is looked at."""
DEFAULT_MODES = (
    *(name for name, mode in MODES.items() if mode.baseline),
    "cost-only",
    "carbon-only",
    "dure",
)
"""What is compared unless a scenario says otherwise: not Dure with parts of it off."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What to run and compare."""

    title: str
    file: Path
    setting: Setting
    modes: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """What a reader of the results should know."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line says beside the file."""

    data: Path | None = None
    """Folder with traces, prices and series."""
    seed: int | None = None
    duration_ns: int | None = None
    modes: tuple[str, ...] = ()


def read_scenario(path: Path, overrides: Overrides | None = None) -> Scenario:
    """Read and check a scenario file; raises `InputError` for whatever cannot be run."""
    overrides = overrides or Overrides()
    _check_folder(overrides.data)
    source = Source.read(path)
    document = source.parse(ScenarioFile)
    changes = {"seed": overrides.seed, "duration": overrides.duration_ns}
    document = document.model_copy(
        update={name: value for name, value in changes.items() if value is not None}
    )
    reader = _Reader(source, document, DataFolder(overrides.data))
    return reader.scenario(overrides.modes, cut=overrides.duration_ns is not None)


def _check_folder(data: Path | None) -> None:
    if data is None:
        return
    if not data.is_dir():
        what = "is no folder" if data.exists() else "there is no such folder"
        raise InputError(what, "name the folder with the data", file=str(data), field="--data")
    if not os.access(data, os.R_OK | os.X_OK):
        raise InputError("cannot be read", "name a readable folder", file=str(data), field="--data")


class _Reader:
    """Turns one file into a scenario."""

    def __init__(self, source: Source, document: ScenarioFile, data: DataFolder) -> None:
        self._source = source
        self._file = document
        self._data = data

    def scenario(self, wanted: tuple[str, ...], *, cut: bool) -> Scenario:
        source, file = self._source, self._file
        modes = self._modes(wanted)
        self._check_rounds()
        fleets = FleetBuilder(source, file, self._data)
        tenancy = TenancyBuilder(source, file, fleets)
        fleet = fleets.fleet()
        tenants, pools, artefacts = tenancy.tenants(), tenancy.pools(fleet), tenancy.artefacts()
        around = Around(source, file, self._data, fleets, tenancy, fleet)
        self._check_work()
        work, sources = WorkBuilder(around), SourceBuilder(around)
        workloads = [*work.workloads(cut=cut), *sources.workloads()]
        self._check_ids(workloads)
        workloads.sort(key=lambda workload: (workload.submitted_ns, workload.id))
        start = replace(FleetPolicy(), period_ns=file.duration)
        policy = self._policy(start, file.policy, fleets, ("policy",))
        setting = Setting(
            fleet=fleet,
            workloads=tuple(workloads),
            start_ns=file.start,
            duration_ns=file.duration,
            loads=work.loads(),
            tenants=tenants,
            pools=pools,
            artefacts=artefacts,
            policy=policy,
            switches=self._switches(policy, fleets, cut=cut),
            round_ns=file.round,
            faults=self._faults(fleets, cut=cut),
            local=LocalFeatures(**file.local.model_dump()),
            seed=file.seed,
            prices_known_ahead_ns=file.prices_known_ahead,
            carbon_known_ahead_ns=file.carbon_known_ahead,
            name=source.yaml.path.stem,
            never_fitting=frozenset(sources.never_fitting),
        )
        title = file.title or source.yaml.path.stem
        return Scenario(title, source.yaml.path, setting, modes, tuple(sources.notes))

    def _check_work(self) -> None:
        """There is some, and every entry has a name of its own."""
        entries = [
            *(
                (("workloads", number), part.name)
                for number, part in enumerate(self._file.workloads)
            ),
            *((("sources", number), part.name) for number, part in enumerate(self._file.sources)),
        ]
        if not entries:
            raise self._source.wrong((), "brings no work", "add `workloads` or `sources`")
        names: set[str] = set()
        for where, name in entries:
            if name in names:
                raise self._source.wrong(
                    (*where, "name"), f"'{name}' is already taken", "name all work differently"
                )
            names.add(name)

    def _check_ids(self, workloads: list[Workload]) -> None:
        """Numbered names must not be somebody else's either; at least one of two is written out."""
        counts = Counter(str(each.id) for each in workloads)
        twice = {name for name, count in counts.items() if count > 1}
        for number, part in enumerate(self._file.workloads):
            first = f"{part.name}-0" if part.count > 1 else part.name
            names = {first} | {f"{part.name}-{index}" for index in range(1, part.count)}
            for name in sorted(names & twice):
                raise self._source.wrong(
                    ("workloads", number, "name"),
                    f"'{name}' is also the name of a numbered job or service of another entry",
                    "name it differently",
                )

    def _check_rounds(self) -> None:
        """Refuse a run that would not end in a day, before it begins."""
        file = self._file
        if file.duration > _LONGEST_NS:
            raise self._source.wrong(
                ("duration",), "is longer than ten years", "write at most '3650d'"
            )
        if file.round > file.duration:
            raise self._source.wrong(
                ("round",), "is longer than the run", "shorten it or lengthen `duration`"
            )
        rounds = -(-file.duration // file.round)
        sites = sum(len(part.groups) for part in file.clusters)
        most = min(_MOST_ROUNDS, _MOST_SITE_ROUNDS // sites)
        if rounds > most:
            least_s = file.duration / most / NS_PER_S
            raise self._source.wrong(
                ("round",),
                f"makes {rounds:,} rounds of {sites} sites, more than a run can do in a day",
                f"write at least '{math.ceil(least_s * 1000)}ms', or shorten `duration`",
            )

    def _modes(self, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """As asked on the command line, as the file says, else baselines, references and Dure."""
        for number, name in enumerate(self._file.modes or ()):
            if name not in MODES:
                raise self._source.wrong(
                    ("modes", number), f"'{name}' is not a mode", nearest(name, MODES)
                )
        for name in wanted:
            if name not in MODES:
                raise InputError(f"'{name}' is not a mode", nearest(name, MODES), field="--modes")
        return tuple(dict.fromkeys(wanted or self._file.modes or DEFAULT_MODES))

    # Rules

    def _policy(
        self, before: FleetPolicy, part: PolicyPart, fleets: FleetBuilder, where: FieldPath
    ) -> FleetPolicy:
        """A policy with what the part says instead."""
        for name in part.congestion.pinned or {}:
            fleets.known_cluster(name, (*where, "congestion", "pinned", name))
        changes: dict[str, Any] = {
            name: value for name, value in _given(part).items() if name in _PLAIN_RULES
        }
        for kind in WorkloadKind:
            own: ClassPolicyPart = getattr(part, kind.value)
            changes[kind.value] = _class_policy(before.of(kind), part.all_classes, own)
        if part.carbon_budget_kg is not None:
            changes["carbon_budget_g"] = part.carbon_budget_kg * _G_PER_KG
        if part.submissions is not None:
            changes["submissions_ns"] = part.submissions
        if part.reclaim_after is not None:
            never = part.reclaim_after == NEVER
            changes["reclaim_after_ns"] = None if never else part.reclaim_after
        congestion = replace(before.congestion, **_given(part.congestion))
        return replace(before, congestion=congestion, **changes)

    def _switches(
        self, first: FleetPolicy, fleets: FleetBuilder, *, cut: bool
    ) -> tuple[tuple[int, FleetPolicy], ...]:
        """Policies by the time they begin to hold."""
        found: list[tuple[int, FleetPolicy]] = []
        for number, part in enumerate(self._file.switches):
            where: FieldPath = ("switches", number)
            when_ns = self._file.start + part.at
            if found and when_ns <= found[-1][0]:
                raise self._source.wrong(
                    (*where, "at"), "is not after the switch before it", "list them in order"
                )
            if part.at >= self._file.duration:
                if cut:
                    continue
                raise self._source.wrong(
                    (*where, "at"),
                    "lies after the end of the run",
                    "switch earlier or lengthen `duration`",
                )
            policy = self._policy(first, part.policy, fleets, (*where, "policy"))
            found.append((when_ns, policy))
        return tuple(found)

    # Faults

    def _faults(self, fleets: FleetBuilder, *, cut: bool) -> tuple[Fault, ...]:
        found = []
        for number, part in enumerate(self._file.faults):
            where: FieldPath = ("faults", number)
            fault = self._fault(part, fleets, where)
            if part.at < self._file.duration:
                found.append(fault)
            elif not cut:
                raise self._source.wrong(
                    (*where, "at"),
                    "lies after the end of the run",
                    "let it happen earlier or lengthen `duration`",
                )
        return tuple(sorted(found, key=lambda fault: fault.at_ns))

    def _fault(self, part: FaultPart, fleets: FleetBuilder, where: FieldPath) -> Fault:
        kinds = [name for name in ("node", "cluster", "centre") if getattr(part, name)]
        if len(kinds) != 1:
            raise self._source.wrong(
                where,
                f"says {' and '.join(kinds)}" if kinds else "does not say what breaks",
                "give exactly one of node, cluster, centre",
            )
        at_ns = self._file.start + part.at
        if part.node is not None:
            cluster = fleets.known_cluster(part.node.cluster, (*where, "node", "cluster"))
            nodes = sum(
                group.nodes
                for member in self._file.clusters
                if member.name == cluster
                for group in member.groups
            )
            if part.node.node >= nodes:
                raise self._source.wrong(
                    (*where, "node", "node"),
                    f"'{cluster}' has no node {part.node.node}",
                    f"its nodes are 0 to {nodes - 1}",
                )
            return NodeFault(at_ns, part.length, cluster, part.node.node)
        if part.cluster is not None:
            cluster = fleets.known_cluster(part.cluster.name, (*where, "cluster"))
            return ClusterFault(at_ns, part.length, cluster, ClusterFaultKind(part.cluster.kind))
        return CentreFault(at_ns, part.length)


_PLAIN_RULES = (
    "adapt_latency",
    "adapt_locality",
    "forecast",
    "most_moves",
    "most_preemptions",
    "dry_run",
)


def _given(part: Document) -> dict[str, Any]:
    """Fields that say something, by name."""
    values = {name: getattr(part, name) for name in type(part).model_fields}
    return {name: value for name, value in values.items() if value is not None}


def _class_policy(default: ClassPolicy, *parts: ClassPolicyPart) -> ClassPolicy:
    """The default with what the parts say, later ones last."""
    changes: dict[str, Any] = {}
    for part in parts:
        changes |= _given(part)
    for name in ("cool_down", "minimum_runtime"):
        if name in changes:
            changes[f"{name}_ns"] = changes.pop(name)
    return replace(default, **changes)
