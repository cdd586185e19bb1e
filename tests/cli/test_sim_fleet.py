import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Dure
from tests.sim.fleet.scenarios import (
    Fields,
    cluster,
    scenario,
    service,
    tenant,
    training,
    written,
)


@pytest.fixture
def dure(dure: Dure) -> Dure:
    """Run `dure sim fleet` in this process; gives the exit code, stdout and stderr."""
    return partial(dure, "sim", "fleet")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    west = cluster(name="west", region="us-west-2", tariff={"device_hour": {"a100": 5.0}})
    return written(
        tmp_path,
        scenario(duration="4h", clusters=[west, cluster()], workloads=[training(), service()]),
    )


def figures(text: str) -> dict[str, Any]:
    """The JSON without what depends on the speed of this machine."""
    data: dict[str, Any] = json.loads(text)
    for mode in data["modes"]:
        mode.pop("speed")
    return data


def test_json_has_every_figure_and_only_finite_ones(dure: Dure, path: Path) -> None:
    code, out, _ = dure(path, "--json")
    assert code == 0
    data = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))
    assert (data["schema"], data["simulated"], data["workloads"]) == (1, True, 2)
    assert [mode["mode"] for mode in data["modes"]] == ["first-fit", "dure"]
    for mode in data["modes"]:
        assert mode["jobs"]["ended"] == 1
        assert mode["money"]["total"] > 0
        assert len(mode["hourly"]["money"]) == 4
        assert [tenant["tenant"] for tenant in mode["tenants"]].count("lab") == 1


def test_the_same_seed_gives_the_same_figures(dure: Dure, path: Path) -> None:
    once, again = (figures(dure(path, "--json", "--seed", 5)[1]) for _ in range(2))
    assert once == again


@pytest.mark.slow
def test_more_workers_change_no_figure(dure: Dure, path: Path) -> None:
    once = figures(dure(path, "--json")[1])
    assert figures(dure(path, "--json", "--workers", 2)[1]) == once


def test_a_table_is_printed_by_default(dure: Dure, path: Path) -> None:
    code, out, _ = dure(path)
    assert code == 0
    for part in ("Money, USD", "Promises and use", "Bills under dure", "Clusters under dure"):
        assert part in out


def test_bills_of_every_mode_can_be_asked_for(dure: Dure, path: Path) -> None:
    out = dure(path, "--bills")[1]
    assert "Bills under first-fit" in out
    assert "Bills under dure" in out


def test_a_placement_can_be_explained(dure: Dure, path: Path) -> None:
    code, out, _ = dure(path, "--explain", "train", "--modes", "dure")
    assert code == 0
    assert "train (training of lab) under dure" in out
    assert "placed at east/a100" in out
    assert "best alternative: west/a100" in out


def test_a_workload_that_is_never_placed_says_why_in_every_mode_that_knows(
    dure: Dure, tmp_path: Path
) -> None:
    poor = scenario(duration="2h", tenants=[tenant(budget={"money": 0})])
    path = written(tmp_path, poor)
    code, out, _ = dure(path, "--explain", "train", "--modes", "first-fit,dure,cost-only")
    assert code == 0
    said = " ".join(out.split())
    for mode in ("dure", "cost-only"):
        assert f"under {mode}: without a place since 0 s, to the end of the run" in said
    assert said.count("its tenant's money budget has 0 left") == 2
    assert "under first-fit" not in said
    data = json.loads(dure(path, "--json", "--modes", "dure")[1])
    (wait,) = data["modes"][0]["waits"]
    assert (wait["workload"], wait["at_end"]) == ("train", True)
    assert "money budget" in wait["why"]


def test_several_alike_are_explained_together(dure: Dure, tmp_path: Path) -> None:
    path = written(tmp_path, scenario(duration="1h", workloads=[training(count=3)]))
    out = dure(path, "--explain", "train", "--modes", "dure")[1]
    assert all(f"train-{number} (training of lab)" in out for number in range(3))


def test_too_many_alike_are_to_be_named_one_by_one(dure: Dure, tmp_path: Path) -> None:
    path = written(tmp_path, scenario(duration="1h", workloads=[training(count=30)]))
    code, _, err = dure(path, "--explain", "train", "--modes", "dure")
    assert code == 2
    assert "--explain: 'train' is 30 workloads, train-0 to train-29; name one" in err


def test_the_transfer_is_what_will_be_paid_and_the_weight_its_own_term(
    dure: Dure, tmp_path: Path
) -> None:
    fields = scenario(
        duration="1h",
        clusters=[cluster(), cluster(name="west", region="us-west-2")],
        network={"egress": 0.1},
        artefacts=[{"name": "w", "size": "100GB", "places": ["west"]}],
        workloads=[
            training(name="far", clusters=["east"], data=["w"]),
            training(name="near", clusters=["west"], data=["w"]),
        ],
        policy={"all": {"locality_weight": 1.5}, "adapt_locality": False},
    )
    data = json.loads(dure(written(tmp_path, fields), "--json", "--modes", "dure")[1])
    terms = {each["workload"]: dict(each["terms"]) for each in data["modes"][0]["explanations"]}
    assert terms["far"]["transfer"] == pytest.approx(10.0)
    assert terms["far"]["locality"] == pytest.approx(5.0)
    assert not {"transfer", "locality"} & set(terms["near"])


def test_modes_and_duration_can_be_chosen(dure: Dure, path: Path) -> None:
    data = json.loads(dure(path, "--json", "--modes", "race", "--duration", "1h")[1])
    assert [mode["mode"] for mode in data["modes"]] == ["race"]
    assert data["duration_s"] == 3600.0


def test_a_report_is_written(dure: Dure, path: Path, tmp_path: Path) -> None:
    report = tmp_path / "deep" / "report.html"
    assert dure(path, "--html", report)[0] == 0
    assert report.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        (
            scenario(clusters=[cluster(groups=[{"profile": "a1000", "nodes": 1}])]),
            ("clusters[east].groups[0].profile", "did you mean 'a100'?"),
        ),
        (
            scenario(clusters=[cluster(tariff={"currency": "EURO", "device_hour": {}})]),
            ("clusters[east].tariff.currency", "no exchange rate for 'EURO'"),
        ),
        (
            scenario(clusters=[cluster(groups=[{"profile": "a100", "nodes": -1}])]),
            ("groups[0].nodes", "is -1"),
        ),
        (scenario(workloads=[training(gang=99)]), ("workloads[train]", "room for 4 of its 99")),
        (scenario(workloads=[training(tenant="nobody")]), ("tenant", "no tenant 'nobody'")),
        (scenario(clusters=[cluster(carbon={"zone": "KR"})]), ("carbon.zone", "--data DIR")),
        (scenario(clusters=[cluster(carbon=float("nan"))]), ("carbon.constant", "is nan")),
    ],
)
def test_bad_input_exits_2_with_one_line_and_runs_nothing(
    dure: Dure, tmp_path: Path, fields: Fields, parts: tuple[str, ...]
) -> None:
    report = tmp_path / "report.html"
    code, out, err = dure(written(tmp_path, fields), "--html", report)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith(f"{tmp_path / 'scenario.yaml'}, line ")
    assert all(part in err for part in parts)
    assert not report.exists()


def test_a_malformed_row_of_a_trace_exits_2_with_line_and_column(
    dure: Dure, tmp_path: Path
) -> None:
    trace = tmp_path / "data" / "sia" / "traces" / "philly.csv"
    trace.parent.mkdir(parents=True)
    trace.write_text(
        "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-01 01:00:00,60,one,60,a\n",
        encoding="utf-8",
    )
    path = written(tmp_path, scenario(sources=[{"name": "jobs", "philly": {}}]))
    code, out, err = dure(path, "--data", tmp_path / "data")
    assert (code, out) == (2, "")
    assert err.startswith(f"{trace}, line 2: column 'num_gpus': 'one' is no whole number")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("nowhere.yaml",), "nowhere.yaml: there is no such file"),
        (("{path}", "--modes", "dura"), "--modes: 'dura' is not a mode; did you mean 'dure'?"),
        (("{path}", "--duration", "long"), "--duration: 'long' is not a duration"),
        (("{path}", "--data", "nowhere"), "nowhere: --data: there is no such folder"),
        (("{path}", "--html", "/"), "--html: / is a folder"),
        (("{path}", "--html", "{path}"), "is the scenario itself"),
        (("{path}", "--explain", "trian"), "no workload 'trian'; did you mean 'train'?"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(
    dure: Dure, path: Path, arguments: tuple[str, ...], part: str
) -> None:
    code, out, err = dure(*(argument.format(path=path) for argument in arguments))
    assert (code, out) == (2, "")
    assert part in err
