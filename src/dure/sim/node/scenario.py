"""A container scenario: a file that says which GPUs, containers and modes, made ready to run.

Everything that can be wrong is found here, before anything runs, as one `InputError`.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from dure.domain.risks import RiskKind
from dure.domain.units import format_bytes_like
from dure.kit.files import FieldPath
from dure.kit.words import nearest
from dure.node.settings import NodeSettings
from dure.sim.documents import Document, Source
from dure.sim.node.faults import Deed, Fault, FaultKind, PersonAct
from dure.sim.node.foreseeing import StatedRisk
from dure.sim.node.model import GpuModel, HostModel
from dure.sim.node.modes import MODES, Mode
from dure.sim.node.run import Setting
from dure.sim.node.scenario_containers import ContainerReader
from dure.sim.node.scenario_file import ScenarioFile
from dure.sim.node.steps import peak_bytes


@dataclass(frozen=True, slots=True)
class Scenario:
    """What to run and compare."""

    title: str
    file: Path
    seed: int
    setting: Setting
    modes: tuple[Mode, ...]


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line says instead of the file."""

    seed: int | None = None
    modes: tuple[str, ...] = ()


def read_scenario(path: Path, overrides: Overrides | None = None) -> Scenario:
    """Read and check a scenario file; raises `InputError` for whatever cannot be run."""
    overrides = overrides or Overrides()
    source = Source.read(path)
    document = source.parse(ScenarioFile)
    seed = document.seed if overrides.seed is None else overrides.seed
    return _Reader(source, document, seed).scenario(overrides.modes)


class _Reader:
    """Turns one file into a scenario."""

    def __init__(self, source: Source, document: ScenarioFile, seed: int) -> None:
        self._source = source
        self._file = document
        self._seed = seed

    def scenario(self, wanted: tuple[str, ...]) -> Scenario:
        reader = ContainerReader(self._source, self._file, self._seed)
        gpu = self._gpu()
        entries = [reader.containers(number) for number in range(len(self._file.containers))]
        for number, alike in enumerate(entries):
            self._check_size(number, peak_bytes(alike[0].steps), gpu)
        containers = tuple(spec for alike in entries for spec in alike)
        names = [spec.name for spec in containers]
        twice = next((name for name, times in Counter(names).items() if times > 1), None)
        if twice is not None:
            where = ("containers", self._entry_of(twice), "name")
            raise self._source.wrong(where, f"'{twice}' is taken already", "choose another name")
        setting = Setting(
            containers=containers,
            gpus=(gpu,) * self._file.gpus.count,
            host=self._host(),
            settings=_changed(NodeSettings(), self._file.dure, leave=("experienced",)),
            experienced=self._file.dure.experienced,
            faults=self._faults(),
            acts=self._acts(names),
            risks=self._risks(),
            limit_ns=self._file.limit,
        )
        title = self._file.title or self._source.yaml.path.stem
        modes = self._modes(wanted)
        return Scenario(title, self._source.yaml.path, self._seed, setting, modes)

    def _gpu(self) -> GpuModel:
        part, model = self._file.gpus, GpuModel()
        return replace(
            model,
            memory_bytes=part.memory or model.memory_bytes,
            sample_window_ns=part.sample_window or model.sample_window_ns,
            context_bytes=part.context_memory or model.context_bytes,
        )

    def _host(self) -> HostModel:
        part = self._file.host
        changed = _changed(HostModel(), part, leave=("cuda_lock",))
        return replace(changed, lockable=part.cuda_lock)

    def _check_size(self, number: int, peak: int, gpu: GpuModel) -> None:
        """What needs more at once than there is cannot run in any mode."""
        if self._file.containers[number].gpus and peak + gpu.context_bytes > gpu.memory_bytes:
            needs = format_bytes_like(peak + gpu.context_bytes, gpu.memory_bytes)
            has = format_bytes_like(gpu.memory_bytes, gpu.memory_bytes)
            raise self._source.wrong(
                ("containers", number),
                f"needs {needs} at once with its context, and a GPU has {has}",
                "allocate less, free in between, or give `gpus` more `memory`",
            )

    def _entry_of(self, name: str) -> int:
        """The last entry that makes a container of this name."""
        entries = [
            number
            for number, part in enumerate(self._file.containers)
            if name in (part.name, *(f"{part.name}-{i}" for i in range(1, part.count + 1)))
        ]
        return entries[-1]

    def _faults(self) -> tuple[Fault, ...]:
        faults = [Fault(FaultKind(part.kind), part.at, part.length) for part in self._file.faults]
        for number, fault in enumerate(faults):
            for other in faults[:number]:
                apart = (
                    fault.at_ns >= other.at_ns + other.length_ns
                    or other.at_ns >= fault.at_ns + fault.length_ns
                )
                if fault.kind is other.kind and not apart:
                    raise self._source.wrong(
                        ("faults", number, "at"),
                        f"the {fault.kind.value} is away already at that time",
                        "let one fault end before the next of its kind begins",
                    )
        return tuple(faults)

    def _acts(self, names: list[str]) -> tuple[PersonAct, ...]:
        for number, part in enumerate(self._file.people):
            if part.container not in names:
                raise self._source.wrong(
                    ("people", number, "container"),
                    f"there is no container '{part.container}'",
                    nearest(part.container, names),
                )
        return tuple(
            PersonAct(part.at, part.container, Deed(part.does)) for part in self._file.people
        )

    def _risks(self) -> tuple[StatedRisk, ...]:
        risks: list[StatedRisk] = []
        for number, part in enumerate(self._file.risks):
            if part.gpu >= self._file.gpus.count:
                raise self._source.wrong(
                    ("risks", number, "gpu"),
                    f"there is no GPU {part.gpu}",
                    f"use 0 to {self._file.gpus.count - 1}, or raise the `count` of `gpus`",
                )
            kind = RiskKind(part.kind)
            reason = part.reason or f"the scenario foresees {part.kind}"
            risk = StatedRisk(kind, part.gpu, part.at, part.length, reason)
            if any(
                (each.kind, each.gpu) == (risk.kind, risk.gpu)
                and each.at_ns < risk.end_ns
                and risk.at_ns < each.end_ns
                for each in risks
            ):
                raise self._source.wrong(
                    ("risks", number, "at"),
                    f"{part.kind} is foreseen for GPU {part.gpu} already at that time",
                    "let one risk end before the next of its kind begins",
                )
            risks.append(risk)
        return tuple(risks)

    def _modes(self, wanted: tuple[str, ...]) -> tuple[Mode, ...]:
        """The rows: as asked on the command line, as the file says, else all."""
        if wanted:
            return tuple(self._mode(name, ("--modes",)) for name in dict.fromkeys(wanted))
        listed = self._file.modes
        if listed is None:
            return tuple(MODES.values())
        twice = next((name for name, times in Counter(listed).items() if times > 1), None)
        if twice is not None:
            place = len(listed) - 1 - listed[::-1].index(twice)
            raise self._source.wrong(
                ("modes", place), f"'{twice}' is listed twice", "leave one of them out"
            )
        return tuple(self._mode(name, ("modes", place)) for place, name in enumerate(listed))

    def _mode(self, name: str, where: FieldPath) -> Mode:
        if name not in MODES:
            raise self._source.wrong(where, f"there is no mode '{name}'", nearest(name, MODES))
        return MODES[name]


_S = TypeVar("_S", NodeSettings, HostModel)


def _changed(values: _S, part: Document, leave: Iterable[str] = ()) -> _S:
    """Settings with what a part of the file says; durations are nanoseconds there."""
    known = set(type(values).__dataclass_fields__)
    changes = {}
    for name in type(part).model_fields:
        said = getattr(part, name)
        if said is not None and name not in leave:
            changes[f"{name}_ns" if f"{name}_ns" in known else name] = said
    return replace(values, **changes)
