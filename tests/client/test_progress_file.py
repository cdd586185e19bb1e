"""A job of the fleet says how far it is in a file its cluster names."""

import json
from pathlib import Path

import pytest

from dure.client.report import PROGRESS_VARIABLE, report_load, report_progress


def test_progress_goes_to_the_file_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "progress.json"
    monkeypatch.setenv(PROGRESS_VARIABLE, str(file))
    assert report_progress(30, 120, saved=15)
    assert json.loads(file.read_text()) == {"done": 0.25, "saved": 0.125}
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_cannot_be_written_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROGRESS_VARIABLE, "/no/such/folder/progress.json")
    assert not report_progress(1, 2)
    assert not report_progress(-1, 2)


def test_an_instance_of_a_service_says_its_load_in_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "progress.json"
    monkeypatch.setenv(PROGRESS_VARIABLE, str(file))
    assert report_load(requests_per_s=12.5, queue=3, latency_s=0.25)
    assert json.loads(file.read_text()) == {
        "requests_per_s": 12.5,
        "queue_length": 3,
        "latency_ms": 250.0,
    }
    for absurd in (-1.0, float("nan"), float("inf")):
        assert not report_load(requests_per_s=absurd)
