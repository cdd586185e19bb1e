"""Files that describe a simulation: read, checked, and refused in one sentence.

A file's shape is a pydantic model derived from `Document`. Whatever does not fit becomes one
`InputError` with the file, the line, the field and the remedy, in this project's words.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from dure.domain.errors import InputError
from dure.domain.units import parse_bytes, parse_duration_ns
from dure.kit.files import FieldPath, FileProblem, YamlFile, read_yaml
from dure.kit.words import BOUNDS, KINDS, nearest


class Misfit(ValueError):  # noqa: N818, what validators raise; people see the `InputError` made of it
    """A value that cannot be used, with the remedy; `key` is set where a mapping's key is wrong."""

    def __init__(self, what: str, remedy: str, key: str = "") -> None:
        self.what = what
        self.remedy = remedy
        self.key = key
        super().__init__(f"{what}; {remedy}")


class Document(BaseModel):
    """A mapping in a file: no unknown fields, no silent conversions."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, data: Any) -> Any:
        if isinstance(data, dict):
            known = [field.alias or name for name, field in cls.model_fields.items()]
            for key in data:
                if key not in known:
                    raise Misfit("there is no such field", nearest(str(key), known), key=str(key))
        return data


def short_form(expand: Callable[[Any], Any]) -> BeforeValidator:
    """Lets a field be written short, as one value instead of a mapping."""
    return BeforeValidator(lambda value: value if isinstance(value, dict) else expand(value))


def choice(*known: str) -> AfterValidator:
    """One of these words."""

    def check(word: str) -> str:
        if word not in known:
            raise Misfit(f"'{word}' is not known here", nearest(word, known))
        return word

    return AfterValidator(check)


def _quantity(parse: Callable[[str], int], kind: str, example: str) -> Callable[[Any], int]:
    def convert(value: Any) -> int:
        if value == 0 and not isinstance(value, bool):
            return 0
        if not isinstance(value, str):
            raise Misfit(
                f"{_shown(value)} is not a {kind}", f"write it with a unit, as '{example}'"
            )
        if value.lstrip().startswith("-"):
            raise Misfit(f"'{value}' is negative", f"write a {kind} such as '{example}'")
        try:
            return parse(value)
        except ValueError as error:
            what, _, remedy = str(error).partition("; ")
            raise Misfit(what, remedy or f"write a smaller {kind}") from error

    return convert


def _above_zero(value: int) -> int:
    if value <= 0:
        raise Misfit("must be longer than nothing", "write a duration above 0")
    return value


def _more_than_nothing(value: int) -> int:
    if value <= 0:
        raise Misfit("must be more than nothing", "write a size above 0, as '1GB'")
    return value


def printable(text: str) -> str:
    """The same text with a question mark for each character that could steer a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise Misfit(f"'{text}' has characters that cannot be shown", "write one line of text")
    return text


Duration = Annotated[int, BeforeValidator(_quantity(parse_duration_ns, "duration", "20ms"))]
"""Nanoseconds, written as `20ms`."""
LongerThanZero = Annotated[Duration, AfterValidator(_above_zero)]
Size = Annotated[int, BeforeValidator(_quantity(parse_bytes, "size", "10GiB"))]
"""Bytes, written as `10GiB`."""
MoreThanZero = Annotated[Size, AfterValidator(_more_than_nothing)]
Line = Annotated[str, AfterValidator(_one_line)]
"""Text that is shown as it is: no line breaks, nothing that steers a terminal."""
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$")]

_D = TypeVar("_D", bound=Document)


@dataclass(frozen=True)
class Source:
    """The file a document came from: makes complaints that say where."""

    yaml: YamlFile

    @classmethod
    def read(cls, path: Path) -> "Source":
        """Parse the file; whatever is wrong with it is an `InputError`."""
        try:
            return cls(read_yaml(path))
        except FileProblem as problem:
            raise _as_input_error(problem) from problem

    def parse(self, model: type[_D]) -> _D:
        """The file as a document."""
        try:
            return model.model_validate(self.yaml.data)
        except ValidationError as error:
            where, what, remedy = _complaint(error.errors()[0])
            raise self.wrong(where, what, remedy) from error

    def wrong(self, where: FieldPath, what: str, remedy: str) -> InputError:
        """A complaint about one field."""
        place, field = self._place(where), printable(self._spoken(where))
        return InputError(printable(what), printable(remedy), file=place, field=field)

    def located(self, error: InputError, where: FieldPath) -> InputError:
        """Somebody else's complaint, with this place."""
        return error.located(file=self._place(where), field=self._spoken(where))

    def _place(self, where: FieldPath) -> str:
        return f"{self.yaml.path}, line {self.yaml.line_of(where)}"

    def _spoken(self, where: FieldPath) -> str:
        """`tenants[web].slo.latency`: list items by their name where they have one."""
        spoken = ""
        value: Any = self.yaml.data
        for step in where:
            value = _inside(value, step)
            if isinstance(step, int):
                name = value.get("name") if isinstance(value, dict) else None
                spoken += f"[{name if isinstance(name, str) else step}]"
            else:
                spoken += f".{step}" if spoken else step
        return spoken


def _inside(value: Any, step: str | int) -> Any:
    try:
        return value[step]
    except (KeyError, IndexError, TypeError):
        return None


def _as_input_error(problem: FileProblem) -> InputError:
    line = f", line {problem.line}" if problem.line else ""
    return InputError(problem.what, problem.remedy, file=f"{problem.file}{line}")


_KINDS = KINDS | {
    "list_type": ("a list", "write one `- …` line for each item"),
    "model_type": ("a mapping", "write `field: value` lines"),
    "dict_type": ("a mapping", "write `name: value` lines"),
}
_KEY = "[key]"
"""What pydantic adds to a place where a mapping's key, not its value, is wrong."""


def _complaint(error: ErrorDetails) -> tuple[FieldPath, str, str]:
    """Where, what and remedy of one validation error."""
    where = tuple(step for step in error["loc"] if step != _KEY)
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, Misfit):
        return (*where, cause.key) if cause.key else where, cause.what, cause.remedy
    if error["type"] == "missing":
        return where, "is missing", f"add `{where[-1]}: …`"
    return (where, *_in_words(error))


def _in_words(error: ErrorDetails) -> tuple[str, str]:
    """What and remedy of a value that is of the wrong kind or size."""
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind in BOUNDS and isinstance(value, float) and not math.isfinite(value):
        kind = "finite_number"
    if kind in BOUNDS:
        bound, words = BOUNDS[kind]
        return f"is {_shown(value)}", f"write a number {words} {context[bound]:g}"
    if kind in _KINDS:
        wanted, remedy = _KINDS[kind]
        return f"is {_shown(value)}, not {wanted}", remedy
    if kind == "too_short":
        return "is empty", f"give at least {context['min_length']}"
    if kind == "string_pattern_mismatch":
        return (
            f"'{value}' cannot be a name",
            "use up to 32 letters, digits, '.', '_' and '-', a letter or digit first",
        )
    return error["msg"].lower(), "correct it"


def _shown(value: Any) -> str:
    """A value as its author wrote it, if that is short."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return f"'{value}'" if isinstance(value, str) else f"{value}"
