"""Journal lines: a machine's settings, and each event with its instructions, as JSON and back.

Types are tagged by their names, integers stay integers, and floats come back bit for bit, so a
decoded event is equal to the one that was recorded.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args

from pydantic import ConfigDict, Discriminator, Tag, TypeAdapter, ValidationError, with_config

from dure.domain.events import Event
from dure.domain.instructions import Instruction
from dure.kernel.machine import MachineSettings

FORMAT = "dure-kernel-journal"
VERSION = 1
"""Raised whenever an older reader would misread a line."""

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
    settings: MachineSettings


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


def encode_header(settings: MachineSettings) -> bytes:
    """The first line of a journal, without its end."""
    return _HEADERS.dump_json(_Header(settings=settings))


def decode_header(line: bytes) -> MachineSettings:
    """The settings of the recorded machine."""
    opening = _decoded(_OPENINGS.validate_json, line)
    if opening.get("format") != FORMAT:
        raise MalformedLine(f"'format' is not '{FORMAT}'")
    if opening.get("version") != VERSION:
        raise UnknownVersion(opening.get("version"))
    header: _Header = _decoded(_HEADERS.validate_json, line)
    return header.settings


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
