"""The guide to the demo: its options are the command's."""

import re
from pathlib import Path

from tests.docs.test_gpu_guide import options_of

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guide" / "demo.md").read_text(encoding="utf-8")


def test_every_option_of_the_command_is_told_and_no_other() -> None:
    told = set(re.findall(r"^\| `(--[a-z-]+)`", GUIDE, flags=re.MULTILINE))
    assert told == {each for each in options_of("demo") if each.startswith("--")} - {"--help"}
