"""Runs the real helm on the charts."""

import functools
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kube.programs import REQUIRE_VARIABLE, ROOT

CHARTS = ROOT / "deploy" / "helm"
LIMIT_S = 120.0


@functools.cache
def _program() -> tuple[str, str]:
    found = subprocess.run(
        [str(ROOT / "tools" / "build_helm"), "--find"],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    return found.stdout.strip(), found.stderr.strip()


def helm(*words: object, values: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    """One call with these values; skips the test where there is no helm, unless it is required."""
    program, reason = _program()
    if not program and os.environ.get(REQUIRE_VARIABLE) == "all":
        pytest.fail(reason)
    if not program:
        pytest.skip(reason)
    return subprocess.run(
        [program, *map(str, words), "--values", "-"],
        input=yaml.safe_dump(dict(values)),
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


def rendered(
    chart: str, values: Mapping[str, Any], *, release: str = "dure", namespace: str = "dure-system"
) -> list[dict[str, Any]]:
    """What a release would consist of."""
    done = helm("template", release, CHARTS / chart, "--namespace", namespace, values=values)
    assert done.returncode == 0, done.stderr
    return [thing for thing in yaml.safe_load_all(done.stdout) if thing]


def chart_file(chart: str, name: str) -> Path:
    """A file of a chart."""
    return CHARTS / chart / name
