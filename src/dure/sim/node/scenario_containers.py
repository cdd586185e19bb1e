"""The containers of a scenario file, with the steps of their programs."""

import zlib

import numpy as np

from dure.domain.errors import InputError
from dure.domain.units import NS_PER_S
from dure.kit.files import FieldPath
from dure.kit.words import nearest
from dure.node.labels import Labels, parse_labels
from dure.sim.documents import Source
from dure.sim.node import steps
from dure.sim.node.containers import ContainerSpec, HealthCheck
from dure.sim.node.scenario_file import ContainerPart, ScenarioFile, ServePart, StepPart

_DEEPEST = 8
"""Loops within loops."""
_MOST_OPERATIONS = 1_000_000
"""Of one container: more takes minutes to simulate."""


class ContainerReader:
    """Turns the containers of one file into what the world runs."""

    def __init__(self, source: Source, document: ScenarioFile, seed: int) -> None:
        self._source = source
        self._file = document
        self._seed = seed

    def containers(self, number: int) -> list[ContainerSpec]:
        """All containers of one entry."""
        part = self._file.containers[number]
        where: FieldPath = ("containers", number)
        self._check(part, where)
        labels = tuple(part.labels.items())
        wishes = _wishes(labels)
        health = part.health
        return [
            ContainerSpec(
                name=name,
                steps=self._program(part, where, name),
                start_ns=part.at + index * part.every,
                release_ns=part.release,
                gpus=tuple(part.gpus),
                image=part.image or part.name,
                labels=labels,
                project=part.project,
                health=None
                if health is None
                else HealthCheck(health.interval, health.retries, health.restart),
                restarts=part.restarts,
                outside=part.outside,
                max_wait_ns=wishes.max_wait_ns,
                deadline_ns=wishes.deadline_ns,
            )
            for index, name in enumerate(_names(part))
        ]

    def _check(self, part: ContainerPart, where: FieldPath) -> None:
        count = self._file.gpus.count
        for place, gpu in enumerate(part.gpus):
            if gpu >= count:
                raise self._source.wrong(
                    (*where, "gpus", place),
                    f"there is no GPU {gpu}",
                    f"use 0 to {count - 1}, or raise the `count` of `gpus`",
                )
            if gpu in part.gpus[:place]:
                raise self._source.wrong(
                    (*where, "gpus", place), f"GPU {gpu} is listed twice", "leave one out"
                )
        if part.release is not None and part.release < part.at + (part.count - 1) * part.every:
            raise self._source.wrong(
                (*where, "release"),
                "is before the last of these containers starts",
                "release them later, or leave it out",
            )
        if part.outside and (part.labels or part.project or part.health or part.restarts):
            raise self._source.wrong(
                (*where, "outside"),
                "a program outside containers has no labels, project, health check or restarts",
                "leave them out",
            )

    def _program(self, part: ContainerPart, where: FieldPath, name: str) -> tuple[steps.Step, ...]:
        if (part.program is None) == (part.steps is None):
            raise self._source.wrong(
                where, "needs either a `program` or `steps`", "give exactly one of them"
            )
        if part.program is not None:
            if part.program not in self._file.programs:
                known = self._file.programs
                remedy = nearest(part.program, known) if known else "describe it in `programs`"
                raise self._source.wrong(
                    (*where, "program"), f"there is no program '{part.program}'", remedy
                )
            where, listed = ("programs", part.program), self._file.programs[part.program]
        else:
            where, listed = (*where, "steps"), part.steps or []
        made = _StepReader(self._source, self._rng(name), bool(part.gpus)).read(listed, where)
        if (count := _operations(made)) > _MOST_OPERATIONS:
            raise self._source.wrong(
                where, f"comes to {count:,} operations", f"use at most {_MOST_OPERATIONS:,}"
            )
        return made

    def _rng(self, name: str) -> np.random.Generator:
        """A container's own randomness: that of another does not change it."""
        return np.random.default_rng((self._seed, zlib.crc32(name.encode())))


class _StepReader:
    """Turns the steps of one container's program into what a process runs."""

    def __init__(self, source: Source, rng: np.random.Generator, on_gpu: bool) -> None:
        self._source = source
        self._rng = rng
        self._on_gpu = on_gpu

    def read(
        self, parts: list[StepPart], where: FieldPath, depth: int = 0
    ) -> tuple[steps.Step, ...]:
        if depth > _DEEPEST:
            raise self._source.wrong(
                where, f"is more than {_DEEPEST} loops deep", "write it with fewer"
            )
        return tuple(
            step
            for number, part in enumerate(parts)
            for step in self._step(part, (*where, number), depth)
        )

    def _step(self, part: StepPart, where: FieldPath, depth: int) -> tuple[steps.Step, ...]:
        said = [name for name in type(part).model_fields if getattr(part, name) is not None]
        if len(said) != 1:
            found = f"says {' and '.join(f'`{name}`' for name in said)}" if said else "is empty"
            raise self._source.wrong(where, found, "write one thing in each step")
        (kind,) = said
        value = getattr(part, kind)
        if not self._on_gpu and kind not in ("host", "loop", "serve"):
            raise self._source.wrong(
                (*where, kind), "a container without a GPU cannot do that", "give it `gpus`"
            )
        match kind:
            case "loop":
                inner = self.read(value.steps, (*where, "loop", "steps"), depth + 1)
                return (steps.Loop(value.times, inner),)
            case "serve":
                inner = self.read(value.steps, (*where, "serve", "steps"), depth + 1)
                return (steps.Serve(self._arrivals(value, where), inner),)
            case "matmul":
                return steps.matmul(value)
            case "free":
                return (steps.Free(value or None),)
            case "close":
                if not value:
                    raise self._source.wrong((*where, "close"), "is false", "leave it out")
                return (steps.Close(),)
        simple: dict[str, steps.Step] = {
            "host": steps.HostWork(value),
            "allocate": steps.Allocate(value),
            "copy_in": steps.Copy(value, into_gpu=True),
            "copy_out": steps.Copy(value, into_gpu=False),
            "kernel": steps.Kernel(value),
            "meet": steps.Meet(value),
        }
        return (simple[kind],)

    def _arrivals(self, part: ServePart, where: FieldPath) -> tuple[int, ...]:
        if (part.rate is None) == (part.period is None):
            raise self._source.wrong(
                (*where, "serve"), "needs either a `rate` or a `period`", "give exactly one"
            )
        if part.period is not None:
            return tuple(number * part.period for number in range(part.requests))
        gaps = self._rng.exponential(NS_PER_S / (part.rate or 1.0), part.requests)
        return tuple(int(at_ns) for at_ns in gaps.cumsum())


def _names(part: ContainerPart) -> list[str]:
    if part.count == 1:
        return [part.name]
    return [f"{part.name}-{number}" for number in range(1, part.count + 1)]


def _wishes(labels: tuple[tuple[str, str], ...]) -> Labels:
    """What the labels ask for; nothing where they cannot be read, as the machine says by itself."""
    try:
        return parse_labels(labels)
    except InputError:
        return Labels()


def _operations(listed: tuple[steps.Step, ...]) -> int:
    count = 0
    for step in listed:
        match step:
            case steps.Loop():
                count += step.times * _operations(step.steps)
            case steps.Serve():
                count += len(step.arrivals_ns) * (2 + _operations(step.steps))
            case _:
                count += 1
    return count
