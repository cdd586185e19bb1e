import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dure.cli import main as cli

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `dure bench` in this process; gives the exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dure", "bench", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        output = capsys.readouterr()
        return int(ended.value.code or 0), output.out, output.err

    return run


@pytest.mark.parametrize(
    "arguments",
    [
        ("pairs", "--seeds", "1", "--duration", "200ms", "--workers", "1"),
        ("mixes", "--seeds", "11", "--duration", "200ms", "--workers", "1"),
        ("search", "--tenants", "5", "--cases", "1"),
        ("decide", "--tenants", "1,2", "--events", "2"),
        ("speed", "--duration", "20ms", "--repeats", "1"),
        ("switch", "--switches", "2"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_every_bench_prints_json_and_writes_a_page(
    bench: Run, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    page = tmp_path / "deep" / "page.md"
    code, out, _ = bench(*arguments, "--json", "--out", page)
    data = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))
    assert code == 0
    assert data["bench"] == arguments[0]
    assert data["verdicts"]
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# {data['title']}\n")
    assert "imulated" in text
    assert f"- command: `dure bench {' '.join(arguments)} --json --out {page}`" in text
    assert "- machine: " in text
    assert "numba" in text


def test_a_table_and_verdicts_are_printed_by_default(bench: Run) -> None:
    code, out, _ = bench("decide", "--tenants", "4", "--events", "2")
    assert code == 0
    assert "median µs" in out
    assert "median decision for 4 tenants ≤ 300 µs" in out


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("mixes", "--seeds", "one"), "--seeds: 'one' is not a list of numbers"),
        (("mixes", "--seeds", "3-1"), "--seeds: '3-1' is out of range"),
        (("mixes", "--seeds", "1,,2"), "--seeds: '1,,2' is not a list of numbers"),
        (("search", "--tenants", "40"), "use numbers from 2 to 12"),
        (("pairs", "--duration", "0s"), "--duration: must be longer than nothing"),
        (("decide", "--out", "/"), "--out: / is a folder"),
    ],
)
def test_a_wrong_command_line_is_one_sentence_and_runs_nothing(
    bench: Run, arguments: tuple[str, ...], part: str
) -> None:
    code, out, err = bench(*arguments)
    assert (code, out) == (2, "")
    assert part in err
    assert err.count("\n") == 1
