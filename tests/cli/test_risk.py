import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dure.cli.main import app

RUNNER = CliRunner()


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    load, heat = rng.normal(100.0, 5.0, 600), rng.normal(60.0, 1.0, 600)
    load[400:] += 40.0
    heat[500] = 95.0
    lines = ["time,load,heat"]
    lines += [f"{second},{load[second]:.3f},{heat[second]:.3f}" for second in range(600)]
    path = tmp_path / "series.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_a_change_and_an_anomaly_are_found_in_their_series(recorded: Path) -> None:
    done = RUNNER.invoke(app, ["risk", str(recorded), "--json"])
    assert done.exit_code == 0
    found = [(each["series"], each["kind"]) for each in json.loads(done.stdout)]
    assert ("load", "change") in found
    assert ("heat", "anomaly") in found
    moved = next(each for each in json.loads(done.stdout) if each["kind"] == "change")
    assert 400 <= int(moved["at"]) <= 410


def test_a_table_says_it_in_words(recorded: Path) -> None:
    done = RUNNER.invoke(app, ["risk", str(recorded)])
    assert "what is usual moved from" in done.stdout


def test_a_quiet_series_says_so(tmp_path: Path) -> None:
    path = tmp_path / "quiet.csv"
    path.write_text("time,x\n" + "\n".join(f"{n},{10 + n % 3}" for n in range(300)))
    assert "Nothing out of the usual" in RUNNER.invoke(app, ["risk", str(path)]).stdout


def test_river_can_be_asked_instead(recorded: Path) -> None:
    pytest.importorskip("river")
    done = RUNNER.invoke(app, ["risk", str(recorded), "--detector", "river", "--json"])
    assert ("load", "change") in [(e["series"], e["kind"]) for e in json.loads(done.stdout)]
