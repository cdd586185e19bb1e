"""What a field manager owns of an object, cut out of it by the object's own `managedFields`.

Whoever applies as a manager that others apply as, too, must name all that the manager owns: what
it leaves out would be removed.
"""

import json
from collections.abc import Mapping
from typing import Any

from dure.kube.resources import Object


def owned_by(thing: Object, manager: str, subresource: str = "") -> Object | None:
    """The fields that a manager has applied; None: it has applied nothing."""
    for entry in thing["metadata"].get("managedFields") or ():
        if (
            entry.get("manager") == manager
            and entry.get("operation") == "Apply"
            and (entry.get("subresource") or "") == subresource
        ):
            found = _cut(thing, entry.get("fieldsV1") or {})
            return found if isinstance(found, dict) else {}
    return None


def _cut(value: Any, fields: Mapping[str, Any]) -> Any:
    """The part of a value that a set of fields names; all of it where the set names no parts."""
    parts = {name: inner for name, inner in fields.items() if name != "."}
    if not parts:
        return value
    if isinstance(value, dict):
        return {
            name[2:]: _cut(value[name[2:]], inner)
            for name, inner in parts.items()
            if name.startswith("f:") and name[2:] in value
        }
    if isinstance(value, list):
        return [item for name, inner in parts.items() for item in _items(value, name, inner)]
    return value


def _items(values: list[Any], name: str, inner: Mapping[str, Any]) -> list[Any]:
    """Members of a list by their keys (`k:`), values (`v:`) or places (`i:`)."""
    kind, said = name[:2], name[2:]
    if kind == "k:":
        keys = json.loads(said)
        return [
            {**keys, **_cut(each, inner)}
            for each in values
            if all(each.get(key) == value for key, value in keys.items())
        ]
    if kind == "v:":
        wanted = json.loads(said)
        return [each for each in values if each == wanted]
    if kind == "i:" and int(said) < len(values):
        return [_cut(values[int(said)], inner)]
    return []
