"""What is wrong with a document, in words people use: which field, what, and the remedy."""

import math
import types
from collections.abc import Iterable
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from dure.api.problems import FieldProblem
from dure.kit.words import BOUNDS, KINDS, nearest, printable

MOST_COMPLAINTS = 20
"""Of one document; who has more reads the description first."""
_KINDS = KINDS | {
    "list_type": ("a list", "write a list"),
    "model_type": ("an object", "write its fields and values"),
    "dict_type": ("an object", "write names and values"),
}
_LENGTHS = {
    "too_long": "is too long",
    "too_short": "is too short",
    "string_too_long": "is too long",
    "string_too_short": "is too short",
}
_SHOWN = 40
_MOST_NAME = 320
"""Characters of a name that are repeated: the longest that a label may have, and some."""
_NOT_JSON = "json_invalid"
_STEPS_OF_KEYS = "[key]"
"""What pydantic adds to a place where a mapping's key, not its value, is wrong."""


def complaints(error: ValidationError, model: type[BaseModel]) -> list[FieldProblem]:
    """Everything that is wrong with a document that should have been a `model`."""
    found = error.errors(include_url=False)[:MOST_COMPLAINTS]
    return [_complaint(each, model) for each in found]


def misfits(found: Iterable[ErrorDetails]) -> list[FieldProblem]:
    """The same of a path or a query, whose errors begin with which of them it is."""
    told = []
    for each in found:
        said = _complaint(each, BaseModel)
        told.append(said.model_copy(update={"field": place(each["loc"][1:])}))
    return told


def is_not_json(error: ValidationError) -> bool:
    """Whether the text was no JSON at all."""
    if error.error_count() != 1:
        return False
    return error.errors(include_url=False)[0]["type"] == _NOT_JSON


def place(steps: Iterable[str | int]) -> str:
    """`mounts[0].path`."""
    spoken = ""
    for step in steps:
        if isinstance(step, int):
            spoken += f"[{step}]"
        elif step != _STEPS_OF_KEYS:
            spoken += f".{shown_name(step)}" if spoken else shown_name(step)
    return spoken


def shown_name(name: str) -> str:
    """A name that somebody wrote, if that is short, and nothing that could steer a terminal."""
    return printable(name if len(name) <= _MOST_NAME else f"{name[:_MOST_NAME]}…")


def _complaint(error: ErrorDetails, model: type[BaseModel]) -> FieldProblem:
    what, remedy = _in_words(error, model)
    return FieldProblem(field=place(error["loc"]), detail=printable(what), remedy=printable(remedy))


def _in_words(error: ErrorDetails, model: type[BaseModel]) -> tuple[str, str]:
    """What and remedy of one error."""
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    match kind:
        case "missing":
            words = "is missing", f"add {error['loc'][-1]}"
        case "extra_forbidden":
            *above, name = error["loc"]
            words = "there is no such field", nearest(str(name), _fields_at(model, above))
        case "value_error":
            what, _, remedy = str(context["error"]).partition("; ")
            words = what, remedy or "correct it"
        case "enum" | "literal_error":
            known = context["expected"].replace(" or ", ",").split(",")
            near = nearest(str(value), [word.strip(" '") for word in known])
            words = f"{_shown(value)} is not known here", near
        case "json_invalid":
            words = f"is no JSON ({context['error']})", "correct it"
        case "string_pattern_mismatch":
            shape = f"write it so that it matches {context['pattern']}"
            words = f"{_shown(value)} does not fit", shape
        case _:
            words = _measured(error)
    return words


def _measured(error: ErrorDetails) -> tuple[str, str]:
    """What and remedy of a value of the wrong kind or size."""
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind in BOUNDS:
        bound, words = BOUNDS[kind]
        if isinstance(value, float) and not math.isfinite(value):
            return f"is {value}, not a finite number", "write an ordinary number"
        return f"is {_shown(value)}", f"write a number {words} {context[bound]:g}"
    if kind in _LENGTHS:
        return _LENGTHS[kind], error["msg"]
    if kind in _KINDS:
        wanted, remedy = _KINDS[kind]
        return f"is {_shown(value)}, not {wanted}", remedy
    return error["msg"], "correct it"


def _shown(value: Any) -> str:
    """A value as its author wrote it, if that is short."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = f"'{value}'" if isinstance(value, str) else f"{value}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _fields_at(model: type[BaseModel], steps: Iterable[str | int]) -> list[str]:
    """The names of the fields that the object at a place may have."""
    present: type[BaseModel] | None = model
    for step in steps:
        if present is None or isinstance(step, int):
            continue
        field = next((f for n, f in present.model_fields.items() if step in _names(n, f)), None)
        present = None if field is None else _model_in(field.annotation)
    return [] if present is None else [_names(n, f)[0] for n, f in present.model_fields.items()]


def _names(name: str, field: Any) -> tuple[str, ...]:
    written = field.validation_alias or field.alias or name
    return (str(written), name)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The document that a field holds, alone, in a list or among others."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in {Annotated, Union, types.UnionType, list, dict}:
        for part in get_args(annotation):
            found = _model_in(part)
            if found is not None:
                return found
    return None
