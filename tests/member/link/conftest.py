"""A folder whose processes do not outlive their test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.member.process.beds import end_all


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    end_all(tmp_path)
