"""The guide to the dashboard: its options, addresses and pictures are there."""

import re
from pathlib import Path

import pytest

from dure.api.reruns import RerunRequest
from dure.server.rest.routes import ROUTERS
from tests.docs.test_gpu_guide import options_of

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "guide"
GUIDE = (FOLDER / "dashboard.md").read_text(encoding="utf-8")
MOST_PICTURE_BYTES = 150_000


def test_every_option_of_the_command_is_told_and_no_other() -> None:
    told = set(re.findall(r"^\| `(--[a-z-]+)`", GUIDE, flags=re.MULTILINE))
    assert told == {each for each in options_of("dashboard") if each.startswith("--")} - {"--help"}


def test_every_question_to_the_centre_exists() -> None:
    paths = {getattr(route, "path", "") for router in ROUTERS for route in router.routes}
    for path in ("/v1/overview", "/v1/reruns", "/v1/reruns/choices"):
        assert f"{path}`" in GUIDE
        assert path in paths
    assert RerunRequest(mode="first-fit").minutes == 60, "the guide says: the last hour"


@pytest.mark.parametrize("name", re.findall(r"!\[[^\]]+\]\(([^)]+)\)", GUIDE))
def test_pictures_are_there_and_small(name: str) -> None:
    picture = FOLDER / name
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < MOST_PICTURE_BYTES
