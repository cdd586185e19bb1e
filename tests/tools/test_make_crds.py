"""The custom resources that are shipped are those that the documents make."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "make_crds.py"
HOMES = (ROOT / "deploy" / "crds", ROOT / "deploy" / "helm" / "dure-member" / "crds")


@pytest.mark.parametrize("home", HOMES, ids=lambda home: home.parent.name)
def test_the_files_are_what_the_tool_writes_now(home: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(TOOL), str(tmp_path)], check=True)
    made = {file.name: file.read_text(encoding="utf-8") for file in tmp_path.iterdir()}
    there = {file.name: file.read_text(encoding="utf-8") for file in home.iterdir()}
    assert there == made, "run tools/make_crds.py"
