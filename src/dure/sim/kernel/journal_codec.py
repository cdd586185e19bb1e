"""Journal lines: what a machine was, and each event with its instructions, as JSON and back.

Types are tagged by their names, integers stay integers, and floats come back bit for bit, so a
decoded event is equal to the one that was recorded.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args

from pydantic import ConfigDict, Discriminator, Tag, TypeAdapter, ValidationError, with_config

from dure import __version__
from dure.domain.events import Event
from dure.domain.instructions import Instruction
from dure.kernel.machine import KernelMachine, MachineSettings
from dure.kit.images import ImageError, image_of, value_of

FORMAT = "dure-kernel-journal"
VERSION = 2
"""Raised whenever an older reader would misread a line."""
_PACKAGES = ("dure.domain", "dure.kernel")
"""Where the parts of a machine come from."""

_EXACT = ConfigDict(strict=True, extra="forbid", ser_json_inf_nan="constants")


class MalformedLine(ValueError):  # noqa: N818, a finding that the reader of the file words
    """A line is not what its place in a journal asks for."""


class UnknownVersion(ValueError):  # noqa: N818, likewise
    """A journal of another format version."""

    def __init__(self, version: object) -> None:
        self.version = version
        super().__init__(version)


@with_config(_EXACT)
@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    format: str = FORMAT
    version: int = VERSION
    dure: str = __version__
    """What recorded it."""
    settings: MachineSettings
    image: list[Any] | None = None
    """The machine as it was when the recording began; None: it was new."""


def _tagged(union: object) -> Any:
    """Pairs of a type's name and its value, for every type of a union."""
    pairs = tuple(
        Annotated[tuple[Literal[kind.__name__], kind], Tag(kind.__name__)]  # type: ignore[name-defined, valid-type]
        for kind in get_args(union)
    )
    return Annotated[Union[pairs], Discriminator(_tag)]  # noqa: UP007, built at run time


def _tag(pair: object) -> Hashable:
    return str(pair[0]) if isinstance(pair, list | tuple) and pair else None


_HEADERS: TypeAdapter[_Header] = TypeAdapter(_Header)
_OPENINGS: TypeAdapter[dict[str, object]] = TypeAdapter(dict[str, object])
_ENTRIES: TypeAdapter[Any] = TypeAdapter(
    tuple[_tagged(Event), tuple[_tagged(Instruction), ...]],  # type: ignore[misc, arg-type]
    config=_EXACT,
)


@dataclass(frozen=True, slots=True)
class Beginning:
    """What the first line says."""

    settings: MachineSettings
    """The machine was started with."""
    image: list[Any] | None
    dure: str
    """The version that recorded it."""

    def machine(self) -> KernelMachine:
        """The machine as it was; raises where this version has no such machine."""
        if self.image is None:
            return KernelMachine(self.settings)
        try:
            made = value_of(self.image, _PACKAGES)
        except ImageError as error:
            raise MalformedLine(f"image: {error}") from error
        if not isinstance(made, KernelMachine):
            raise MalformedLine("image: is of no kernel machine")
        return made


def encode_header(settings: MachineSettings, machine: KernelMachine | None = None) -> bytes:
    """The first line of a journal, without its end; a machine that has run is told as it is."""
    image = None if machine is None else image_of(machine)
    return _HEADERS.dump_json(_Header(settings=settings, image=image))


def decode_header(line: bytes) -> Beginning:
    """What the recorded machine was."""
    opening = _decoded(_OPENINGS.validate_json, line)
    if opening.get("format") != FORMAT:
        raise MalformedLine(f"'format' is not '{FORMAT}'")
    if opening.get("version") != VERSION:
        raise UnknownVersion(opening.get("version"))
    header: _Header = _decoded(_HEADERS.validate_json, line)
    return Beginning(header.settings, header.image, header.dure)


def encode_entry(event: Event, instructions: tuple[Instruction, ...]) -> bytes:
    """One event and what the machine answered, without the end of the line."""
    answers = tuple((type(answer).__name__, answer) for answer in instructions)
    return _ENTRIES.dump_json(((type(event).__name__, event), answers))


def decode_entry(line: bytes) -> tuple[Event, tuple[Instruction, ...]]:
    """An event and its instructions, equal to what was recorded."""
    (_, event), answers = _decoded(_ENTRIES.validate_json, line)
    return event, tuple(answer for _, answer in answers)


def _decoded(validate: Callable[[bytes], Any], line: bytes) -> Any:
    try:
        return validate(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        story = f"{where}: {first['msg']}" if where else first["msg"]
        raise MalformedLine(" ".join(story.split())) from error
