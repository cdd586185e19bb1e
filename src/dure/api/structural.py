"""Documents as structural schemas, which is what Kubernetes asks of custom resources.

A value has one type there: of fields that have a short form the long one is left, what may be null
without meaning anything by it may be left out instead. Defaults are not written: the centre has
them, and an object shows what its owner wrote.
"""

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

_KEPT = (
    *("type", "description", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength"),
    *("minItems", "maxItems", "maxProperties"),
)
"""Keywords that mean the same in both."""
MOST_PROPERTIES = 1000
"""Of a mapping that states no limit of its own: rules need one to know what they cost."""


def structural(model: type[BaseModel], *, leave_out: Collection[str] = ()) -> Schema:
    """The schema of a document, without some of its fields."""
    whole = model.model_json_schema(by_alias=True, mode="validation")
    made = _Reader(whole.get("$defs", {})).read(whole)
    for name in leave_out:
        del made["properties"][name]
    required = [name for name in made.get("required", ()) if name not in leave_out]
    made.pop("required", None)
    if required:
        made["required"] = required
    return made


class _Reader:
    """Reads one schema with its definitions."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions

    def read(self, said: Schema) -> Schema:
        """The same in the words of Kubernetes."""
        said = self._resolved(said)
        options = said.get("anyOf")
        if options is not None:
            return self._one_of(said, options)
        made = {name: said[name] for name in _KEPT if name in said}
        if "description" in made:
            made["description"] = " ".join(made["description"].split())
        if "const" in said:
            made["enum"] = [said["const"]]
        for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if bound in said:
                made |= {limit: said[bound], bound: True}
        if "items" in said:
            made["items"] = self.read(said["items"])
        if "properties" in said:
            made["properties"] = {
                name: self.read(each) for name, each in said["properties"].items()
            }
            if said.get("required"):
                made["required"] = list(said["required"])
        elif said.get("type") == "object":
            made |= self._mapping(said)
        return made

    def _mapping(self, said: Schema) -> Schema:
        values = said.get("additionalProperties")
        inner = self.read(values) if isinstance(values, dict) else {}
        if not inner.get("type"):
            return {"x-kubernetes-preserve-unknown-fields": True}
        return {
            "additionalProperties": inner,
            "maxProperties": said.get("maxProperties", MOST_PROPERTIES),
        }

    def _one_of(self, said: Schema, options: list[Schema]) -> Schema:
        """The longest form of several; the others are other ways to write it."""
        resolved = [self._resolved(each) for each in options]
        real = [each for each in resolved if each.get("type") != "null"]
        chosen = next((each for each in real if each.get("type") == "object"), real[0])
        made = self.read(chosen)
        if len(real) < len(resolved) and said.get("default") is not None:
            made["nullable"] = True
        if "description" in said:
            made["description"] = " ".join(said["description"].split())
        return made

    def _resolved(self, said: Schema) -> Schema:
        """What a reference points at, with what is said beside it."""
        while "$ref" in said:
            name = said["$ref"].rpartition("/")[2]
            rest = {key: value for key, value in said.items() if key != "$ref"}
            said = {**self._definitions[name], **rest}
        return said
