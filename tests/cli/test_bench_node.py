import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dure.bench.node.cells import Store
from dure.cli import main as cli
from tests.bench.node.canned import keep_alike

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dure", "bench", "node", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        output = capsys.readouterr()
        return int(ended.value.code or 0), output.out, output.err

    return run


def test_without_a_gpu_it_says_so_and_runs_nothing(
    bench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, err = bench("--set", "8192", "--out", tmp_path / "shards")
    assert code == 2
    assert out == ""
    assert "needs an NVIDIA GPU" in err
    assert not (tmp_path / "shards").exists()


def test_without_docker_it_says_what_to_do(
    bench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    code, _, err = bench("--emulated", "--set", "8192", "--out", tmp_path / "shards")
    assert code == 2
    assert "no Docker daemon answers here" in err
    assert "--docker-bin" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "z"), "'z' is not known; use 19456, 13312,"),
        (("--rows", "plain,fast"), "'fast' is not known; use plain, dure-lock,"),
        (("--counts", "many"), "'many' is not a list of numbers"),
    ],
)
def test_an_unknown_name_is_refused_with_those_known(
    bench: Run, arguments: tuple[str, ...], words: str
) -> None:
    code, _, err = bench(*arguments)
    assert code == 2
    assert words in err


def test_merge_writes_page_and_plot_of_what_was_kept(bench: Run, tmp_path: Path) -> None:
    keep_alike(Store(tmp_path / "shards" / "13312"), alone_s=1.0, lock=0.9, docker=0.95)
    page = tmp_path / "deep" / "node.md"
    code, out, _ = bench("--merge", "--out", tmp_path / "shards", "--page", page)
    assert code == 0
    assert "Dure, CUDA lock" in out
    text = page.read_text(encoding="utf-8")
    assert "**Measured** on a made GPU, driver 1.2, docker 20.10." in text
    assert "- date: 2026-01-01" in text
    assert "## Table 1 of the paper" in text
    assert "(node.svg)" in text
    assert page.with_suffix(".svg").read_text(encoding="utf-8").startswith("<svg")


def test_json_holds_every_verdict(bench: Run, tmp_path: Path) -> None:
    keep_alike(Store(tmp_path / "shards" / "19456"), alone_s=3.0, lock=0.9, docker=0.95)
    page = tmp_path / "node.md"
    code, out, _ = bench("--merge", "--json", "--out", tmp_path / "shards", "--page", page)
    data = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))
    assert code == 0
    assert data["bench"] == "node"
    assert {item["passed"] for item in data["verdicts"]} >= {True, False}
