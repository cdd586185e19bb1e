import json
import sys
from collections.abc import Callable

import pytest

from dure.cli import main as cli
from dure.domain.fleet.catalogue import CATALOGUE

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `dure fleet …` in this process; gives the exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dure", "fleet", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        output = capsys.readouterr()
        return int(ended.value.code or 0), output.out, output.err

    return run


def test_catalogue_lists_every_accelerator_on_a_line(fleet: Run) -> None:
    code, out, err = fleet("catalogue")
    assert (code, err) == (0, "")
    lines = [line.split(maxsplit=9) for line in out.splitlines()]
    rows = {line[0]: line for line in lines if len(line) == 10 and line[2] in ("gpu", "npu")}
    assert set(rows) == set(CATALOGUE)
    assert rows["t4"][1:9] == ["NVIDIA", "gpu", "16", "65", "-", "130", "320", "7-70"]
    assert rows["atom"][9].strip() == "whole, queue"


def test_catalogue_is_split_and_not_cut_in_a_narrow_terminal(
    fleet: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dure.cli.fleet._WIDTH", 80)
    out = fleet("catalogue")[1]
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "Accelerators (continued)" in out
    assert "…" not in out
    assert "whole, mig, mps, time-slice, queue" in out


def test_catalogue_as_json_has_every_profile_whole(fleet: Run) -> None:
    code, out, _ = fleet("catalogue", "--json")
    found = {each["name"]: each for each in json.loads(out)["accelerators"]}
    assert code == 0
    assert set(found) == set(CATALOGUE)
    assert found["h100"]["power"] == {"idle_w": CATALOGUE["h100"].power.idle_w, "peak_w": 700}


def test_one_accelerator_shows_slices_partitions_and_sources(fleet: Run) -> None:
    code, out, err = fleet("catalogue", "h100")
    assert (code, err) == (0, "")
    assert "1g.10gb" in out
    assert "4g.40gb + 2g.20gb + 1g.10gb" in out
    for source in CATALOGUE["h100"].sources.values():
        assert source.url in out
        assert source.kind.value in out


def test_one_accelerator_as_json_has_masks_and_sources(fleet: Run) -> None:
    code, out, _ = fleet("catalogue", "RNGD", "--json")
    found = json.loads(out)
    slices = {each["name"]: each for each in found["slices"]}
    assert code == 0
    assert slices["4core.24gb"]["masks"] == [15, 240]
    assert slices["4core.24gb"]["memory_bytes"] == 24 * 10**9
    assert found["sources"]["idle_w"]["kind"] == "estimate"
    assert ["4core.24gb", "4core.24gb"] in found["partitions"]["core-group"]


def test_an_unknown_accelerator_is_refused_with_the_nearest_name(fleet: Run) -> None:
    code, out, err = fleet("catalogue", "a100-40")
    assert (code, out) == (2, "")
    assert err == "'a100-40' is not a known accelerator; did you mean 'a100-40gb'?\n"
