"""What is shipped to watch Dure with: every query names a metric that exists, every rule works."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dure.domain.metrics.catalogue import ALL
from dure.domain.metrics.kinds import MetricKind
from tests.stores.services import find_program

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "monitoring"
NAMES = {name: metric for metric in ALL for name in metric.series}
_NAME = re.compile(r"\bdure_[a-z_]+\b")
_LABELS = re.compile(r"\b(dure_[a-z_]+)\{([^}]*)\}")
_BY = re.compile(r"\bby \(([a-z_, ]*)\)")
ADDED = {"instance", "job", "le", "quantile"}
"""Labels that Prometheus adds, and those of histograms."""
LIMIT_S = 60.0


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (FOLDER / "grafana" / "dashboards" / "dure.json").read_text(encoding="utf-8")
    )
    return found


def queries() -> list[str]:
    panels = [panel for panel in dashboard()["panels"] if panel["type"] != "row"]
    shown = [target["expr"] for panel in panels for target in panel["targets"]]
    variables = dashboard()["templating"]["list"]
    return [*shown, *(v["query"]["query"] for v in variables if v["type"] == "query")]


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


@pytest.mark.parametrize("query", [*queries(), *(rule["expr"] for rule in rules())])
def test_every_query_names_metrics_and_labels_that_exist(query: str) -> None:
    named = set(_NAME.findall(query))
    assert named
    assert named <= set(NAMES)
    known = {label for name in named for label in NAMES[name].labels} | ADDED
    for name, inside in _LABELS.findall(query):
        labels = {part.split("=")[0].strip("!~ ") for part in inside.split(",")}
        assert labels <= set(NAMES[name].labels) | ADDED
    for labels in _BY.findall(query):
        assert {label.strip() for label in labels.split(",")} <= known


def test_rates_are_of_counters_and_histograms_alone() -> None:
    asked = re.compile(r"(?:rate|increase)\((dure_[a-z_]+)")
    for query in [*queries(), *(rule["expr"] for rule in rules())]:
        for name in asked.findall(query):
            assert NAMES[name].kind is not MetricKind.GAUGE, query


def test_metrics_are_named_as_prometheus_wants_them() -> None:
    for metric in ALL:
        assert re.fullmatch(r"dure_[a-z]+(_[a-z]+)*", metric.name)
        assert metric.help
        assert metric.help.endswith(".")
        assert (metric.kind is MetricKind.COUNTER) == metric.name.endswith("_total")
        assert "pid" not in metric.labels
        assert len(metric.labels) == len(set(metric.labels))
    assert len(NAMES) == sum(len(metric.series) for metric in ALL)


def test_every_alert_says_what_it_means_and_what_to_do() -> None:
    for rule in rules():
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["action"]
        assert rule["labels"]["severity"] in ("info", "warning", "critical")


def test_panels_have_titles_and_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        assert panel["title"]
        place = panel["gridPos"]
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not cells & taken
        taken |= cells


def test_the_stack_mounts_files_that_are_there() -> None:
    stack = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
    for service in stack["services"].values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (FOLDER / source).exists(), source
            else:
                assert source in stack["volumes"]
        for port in service["ports"]:
            assert port.startswith("127.0.0.1:")


def run_promtool(*words: object) -> None:
    done = subprocess.run(
        [find_program("promtool"), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.services
def test_promtool_takes_rules_and_configuration(tmp_path: Path) -> None:
    run_promtool("check", "rules", FOLDER / "alerts.yaml")
    token = tmp_path / "token"
    token.write_text("x", encoding="utf-8")
    text = (FOLDER / "prometheus.yaml").read_text(encoding="utf-8")
    config = tmp_path / "prometheus.yaml"
    config.write_text(text.replace("/run/secrets/dure_token", str(token)), encoding="utf-8")
    (tmp_path / "alerts.yaml").symlink_to(FOLDER / "alerts.yaml")
    run_promtool("check", "config", config)


CASES = [
    ("DureNobodyLeads", {'dure_leads{instance="a"}': "0x60", 'dure_leads{instance="b"}': "0x60"}),
    ("DureTwoLead", {'dure_leads{instance="a"}': "1x60", 'dure_leads{instance="b"}': "1x60"}),
    ("DureClusterBehind", {'dure_cluster_reconcile_lag_seconds{cluster="c"}': "0+10x60"}),
    ("DureClusterDrifts", {'dure_cluster_drift_attempts{cluster="c"}': "3x60"}),
    ("DureTenantLate", {'dure_tenant_on_time_ratio{tenant="t",gpu="g"}': "0.5x60"}),
    (
        "DurePlacementSlow",
        {
            'dure_job_placement_seconds_bucket{le="60.0"}': "0x60",
            'dure_job_placement_seconds_bucket{le="300.0"}': "0+10x60",
            'dure_job_placement_seconds_bucket{le="+Inf"}': "0+10x60",
        },
    ),
    (
        "DureStartSlowBurn",
        {
            'dure_job_start_seconds_bucket{le="300.0"}': "0+1x60",
            'dure_job_start_seconds_bucket{le="+Inf"}': "0+10x60",
            "dure_job_start_seconds_count": "0+10x60",
        },
    ),
    ("DureBadFeedback", {'dure_feedback_total{tenant="t",verdict="bad"}': "0+1x60"}),
    (
        "DureGpuMemoryNearlyFull",
        {
            'dure_gpu_memory_used_bytes{gpu="g"}': "80+0.3x60",
            'dure_gpu_memory_bytes{gpu="g"}': "100x60",
        },
    ),
    ("DureSeriesLost", {'dure_series_lost_samples_total{reason="overflow"}': "0+5x60"}),
]


@pytest.mark.services
@pytest.mark.parametrize(("alert", "series"), CASES, ids=[name for name, _ in CASES])
def test_an_alert_fires_for_what_it_is_for_and_not_for_health(
    tmp_path: Path, alert: str, series: dict[str, str]
) -> None:
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    healthy = [
        {"series": 'dure_leads{instance="a"}', "values": "1x60"},
        {"series": 'dure_tenant_on_time_ratio{tenant="t",gpu="g"}', "values": "1x60"},
        {"series": 'dure_cluster_reconcile_lag_seconds{cluster="c"}', "values": "0x60"},
    ]
    count = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)'
    tests = [
        {
            "interval": "30s",
            "input_series": given,
            "promql_expr_test": [
                {
                    "expr": f"sgn({count})",
                    "eval_time": "28m",
                    "exp_samples": [{"labels": "{}", "value": fires}],
                }
            ],
        }
        for given, fires in ((inputs, 1), (healthy, 0))
    ]
    file = tmp_path / "test.yaml"
    file.write_text(
        yaml.safe_dump({"rule_files": [str(FOLDER / "alerts.yaml")], "tests": tests}),
        encoding="utf-8",
    )
    run_promtool("test", "rules", file)
