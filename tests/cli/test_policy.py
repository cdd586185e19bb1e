import json
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from dure.cli import main as cli
from dure.cli.policy import describe_policies
from dure.kernel.policies.registry import POLICIES

Run = Callable[..., tuple[int, str, str]]

GOALS = """\
tenants:
  web:   {latency: p99 <= 20ms, importance: high}
  train: {deadline: 2h, weight: 2}
  batch: {floor: 10%, memory: {reserve: 20GiB}}
fairness: 0.3
"""


@pytest.fixture
def policy(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `dure policy …` in this process; gives the exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dure", "policy", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        output = capsys.readouterr()
        return int(ended.value.code or 0), output.out, output.err

    return run


@pytest.fixture
def goals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("goals.yaml")
    path.write_text(GOALS, encoding="utf-8")
    return path


def test_apply_prints_policy_parameters_tenants_and_reasons(policy: Run, goals: Path) -> None:
    code, out, err = policy("apply", "goals.yaml")
    assert (code, err) == (0, "")
    assert out.startswith("policy hybrid\n")
    assert "fairness = 0.3\n" in out
    assert "starvation_s = 2  (default)" in out
    for word in ("web", "guaranteed", "p99 within 20 ms", "2 h", "10 %", "Promises to web"):
        assert word in out
    assert "dure sim kernel SCENARIO.yaml --goals goals.yaml" in out


def test_apply_gives_every_figure_as_json(policy: Run, goals: Path) -> None:
    code, out, _ = policy("apply", "goals.yaml", "--json", "--gpu", "h200")
    result = json.loads(out)
    assert code == 0
    assert result["policy"] == "hybrid"
    assert result["chosen"] == {"fairness": 0.3}
    assert set(result["parameters"]) == {field.name for field in fields(POLICIES["hybrid"])}
    assert [tenant["name"] for tenant in result["tenants"]] == ["web", "train", "batch"]
    assert result["tenants"][0]["slo"] == {"latency": {"target_ns": 20000000, "percentile": 99.0}}
    assert len(result["reasons"]) >= 4


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("objective: win\n", "goals.yaml, line 1: objective: 'win' is not known here; "),
        ("objective: keep promises\n", "goals.yaml: objective: promises are to be kept, but "),
        (
            "tenants: {a: {memory: {reserve: 30GiB}}}\n",
            "goals.yaml: tenants.a.memory: tenant 'a' reserves 30 GiB of memory where ",
        ),
    ],
)
def test_bad_goals_are_one_sentence_and_exit_2(
    policy: Run, goals: Path, text: str, sentence: str
) -> None:
    goals.write_text(text, encoding="utf-8")
    code, out, err = policy("apply", "goals.yaml", "--gpu", "l4")
    assert (code, out) == (2, "")
    assert err.startswith(sentence)
    assert err.count("\n") == 1


def test_an_unknown_gpu_is_refused(policy: Run, goals: Path) -> None:
    code, _, err = policy("apply", "goals.yaml", "--gpu", "gtx")
    assert code == 2
    assert "--gpu: 'gtx' is not a known accelerator" in err


def test_a_missing_file_exits_2(policy: Run) -> None:
    code, _, err = policy("apply", "none.yaml")
    assert code == 2
    assert "none.yaml: there is no such file; check the path" in err


def test_list_shows_every_parameter_with_its_default(policy: Run) -> None:
    code, out, _ = policy("list", "--json")
    assert code == 0
    listed = {entry["name"]: entry for entry in json.loads(out)["policies"]}
    assert list(listed) == list(POLICIES)
    for name, kind in POLICIES.items():
        shown = {entry["name"]: entry["default"] for entry in listed[name]["parameters"]}
        assert shown == {field.name: field.default for field in fields(kind)}


def test_list_is_a_table_for_people(policy: Run) -> None:
    code, out, _ = policy("list")
    assert code == 0
    assert all(name in out for name in (*POLICIES, "starvation_s", "fairness"))


def test_every_policy_says_what_it_is_for_and_every_parameter_what_it_means() -> None:
    for entry in describe_policies():
        assert entry["purpose"]
        for parameter in entry["parameters"]:
            assert parameter["meaning"], f"{entry['name']}.{parameter['name']}"
