import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dure.bench.kernel.store import Store
from dure.cli import main as cli
from tests.bench.kernel.canned import keep_pair

Run = Callable[..., tuple[int, str, str]]
ROWS = {"mps-priority": (139.0, 19.0), "slo": (12.0, 14.0), "hybrid": (30.0, 16.0)}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dure", "bench", "kernel", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        output = capsys.readouterr()
        return int(ended.value.code or 0), output.out, output.err

    return run


def test_without_a_gpu_it_says_so_and_runs_nothing(
    bench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, err = bench("--pair", "a", "--out", tmp_path / "shards")
    assert code == 2
    assert out == ""
    assert "needs an NVIDIA GPU" in err
    assert not (tmp_path / "shards").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--pair", "z"), "'z' is not known; use a, b,"),
        (("--rows", "mps,fast"), "'fast' is not known; use time-slice, mps,"),
    ],
)
def test_an_unknown_name_is_refused_with_those_known(
    bench: Run, arguments: tuple[str, ...], words: str
) -> None:
    code, _, err = bench(*arguments)
    assert code == 2
    assert words in err


def test_merge_writes_page_and_plot_of_what_was_kept(bench: Run, tmp_path: Path) -> None:
    keep_pair(Store(tmp_path / "shards" / "a"), ROWS)
    page = tmp_path / "deep" / "kernel.md"
    code, out, _ = bench("--merge", "--out", tmp_path / "shards", "--page", page)
    assert code == 0
    assert "Dure slo, isolated" in out
    text = page.read_text(encoding="utf-8")
    assert "**Measured** on a made GPU, driver 1.2." in text
    assert "- date: 2026-01-01" in text
    assert "| pass | (a) Dure slo, isolated: p99 of encoder within 1.25× alone |" in text
    assert "(kernel.svg)" in text
    picture = page.with_suffix(".svg").read_text(encoding="utf-8")
    assert picture.startswith("<svg")
    assert ">slo</text>" in picture


def test_json_holds_every_verdict(bench: Run, tmp_path: Path) -> None:
    keep_pair(Store(tmp_path / "shards" / "a"), ROWS)
    page = tmp_path / "kernel.md"
    code, out, _ = bench("--merge", "--json", "--out", tmp_path / "shards", "--page", page)
    data = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))
    assert code == 0
    assert data["bench"] == "kernel"
    assert data["simulated"] is False
    assert {item["passed"] for item in data["verdicts"]} >= {True, False}
