"""The guide to metrics names every family of metrics, and commands that exist."""

import re
from pathlib import Path

import pytest

from dure.domain.metrics.catalogue import ALL
from tests.docs.test_gpu_guide import options_of

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guide" / "metrics.md").read_text(encoding="utf-8")
NAMES = {name for metric in ALL for name in metric.series} | {metric.name for metric in ALL}


def test_every_metric_is_of_a_family_that_the_guide_tells() -> None:
    rows = [line.split("|")[1] for line in GUIDE.splitlines() if line.startswith("| `dure_")]
    families = tuple(word for row in rows for word in re.findall(r"`(dure_[a-z_]+)`", row))
    assert families
    for metric in ALL:
        assert metric.name.startswith(families), metric.name
    for family in families:
        assert any(name.startswith(family) for name in NAMES), family


def test_every_metric_that_the_guide_names_exists() -> None:
    named = set(re.findall(r"\b(dure_[a-z_]+[a-z])\b(?!_)", GUIDE))
    whole = {name for name in named if f"`{name}_`" not in GUIDE and f"{name}_" not in GUIDE}
    assert whole <= NAMES


@pytest.mark.parametrize("line", re.findall(r"^dure [a-z].*$", GUIDE, flags=re.MULTILINE))
def test_every_command_of_the_guide_exists(line: str) -> None:
    words = line.partition("#")[0].split()
    known = options_of(words[1])
    for word in words:
        if re.match(r"-{1,2}[a-z]", word):
            assert word in known, line


def test_every_reason_of_a_loss_is_told() -> None:
    from dure.domain.series import Fault

    for fault in Fault:
        assert f'reason="{fault.value}"' in GUIDE
