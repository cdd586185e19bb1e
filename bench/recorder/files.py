"""Writes JSON with one line per key, and one per row of a list, so that a diff can be read."""

import json
from pathlib import Path
from typing import Any


def save(path: Path, result: dict[str, Any]) -> None:
    lines = ",\n".join(f" {json.dumps(k)}: {value(v)}" for k, v in result.items())
    path.write_text("{\n" + lines + "\n}\n")


def value(v: Any) -> str:
    if isinstance(v, list) and v and not isinstance(v[0], str):
        return "[\n" + ",\n".join("  " + json.dumps(row) for row in v) + "\n ]"
    return json.dumps(v)
