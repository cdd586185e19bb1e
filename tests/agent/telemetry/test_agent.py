"""An agent's measurements, from its GPUs to whoever asks: over HTTP, as series, on the terminal."""

import json
import time

import httpx
import pytest

from dure.client import report_feedback
from dure.client.api import AgentClient
from dure.client.schema import LatencyPromise, TenantSpec
from dure.domain.errors import InputError
from dure.domain.metrics.catalogue import ALL
from tests.agent.conftest import Bench, bench, first_line, wait_for
from tests.kube.ports import free_port

__all__ = ["bench"]

WEB = TenantSpec(latency_slo=LatencyPromise(target_ns=5_000_000), keep=True)
KNOWN = {name for metric in ALL for name in metric.series}


def _values(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def _points(client: AgentClient, name: str, **labels: str) -> list[float]:
    answer = client.series(name, labels, since="1m", step="1s")
    return [point.last for series in answer.series for point in series.points]


def test_what_is_measured_is_found_as_series_and_by_prometheus(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.http_port = free_port()
    client = bench.start_agent()
    client.declare("web", WEB)
    assert first_line(bench.start("web", "serve")).startswith("ready")

    def launches() -> list[float]:
        seen = _points(client, "dure_tenant_launches_total", tenant="web")
        return [count for count in seen if count > 0]  # it may be seen before its first one

    wait_for("series of launches", lambda: len(launches()) > 2)
    assert launches()[-1] > launches()[0]
    assert _points(client, "dure_tenant_launches_total", tenant="nobody") == []
    assert "dure_gpu_policy_info" in client.series_names()

    monkeypatch.setenv("DURE_SOCKET", str(bench.places.shim_socket))
    monkeypatch.setenv("DURE_TENANT", "web")
    assert report_feedback(good=True), "as the program itself passes it on"
    client.feedback("web", "bad", "slow\x1b[31m today")
    text = ""

    def counted() -> bool:
        nonlocal text
        text = httpx.get(f"http://127.0.0.1:{bench.http_port}/metrics").text
        return 'dure_feedback_total{tenant="web",verdict="bad"} 1.0' in text

    wait_for("feedback is counted", counted)
    found = _values(text)
    named = {name.partition("{")[0] for name in found}
    assert {name for name in named if name.startswith("dure_")} <= KNOWN
    assert "pid=" not in text
    assert not [name for name in named if name.startswith("dure_gpu_power")], "NVML is absent here"
    said = [event.text for event in client.status().events if event.kind == "feedback"]
    assert said == ["web is found good", "web is found bad: slow [31m today"]

    from dure.cli.main import app

    monkeypatch.setenv("DURE_RUN_DIR", str(bench.folder))
    app(["metrics", "dure_tenant_launches_total", "--rate", "--since", "1m"], standalone_mode=False)
    assert "web" in capsys.readouterr().out
    app(["metrics", "dure_leads", "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["series"] == []
    app(["feedback", "web", "good"], standalone_mode=False)
    assert "noted" in capsys.readouterr().out


def test_a_question_that_cannot_be_answered_is_refused_with_a_reason(bench: Bench) -> None:
    client = bench.start_agent()
    with pytest.raises(InputError, match="no series is named"):
        client.series("", {})
    with pytest.raises(InputError, match="is not a duration"):
        client.series("x", {}, since="soon")
    with pytest.raises(InputError, match="too many for one answer"):
        client.series("x", {}, since="10d", step="1s")
    with pytest.raises(InputError, match="no tenant 'nobody'"):
        client.feedback("nobody", "good")


def test_an_agent_whose_series_cannot_be_kept_shares_all_the_same(bench: Bench) -> None:
    bench.folder.mkdir(parents=True)
    bench.places.series_file.mkdir()  # no file can be there
    client = bench.start_agent()
    client.declare("web", WEB)
    assert first_line(bench.start("web", "serve")).startswith("ready")
    wait_for("a launch", lambda: client.status().tenants[0].launches > 0)
    wait_for("a reading", lambda: "dure_tenant_launches_total" in client.metrics())
    assert [e for e in client.status().events if "no series are kept" in e.text]
    with pytest.raises(InputError, match="keeps no series"):
        client.series_names()


def test_series_outlive_the_agent(bench: Bench) -> None:
    client = bench.start_agent()
    wait_for("a series", lambda: bool(_points(client, "dure_agent_ticks_total")))
    assert bench.agent is not None
    bench.agent.kill()
    bench.agent.wait()
    time.sleep(1.1)
    again = bench.start_agent()
    before_ms = int((time.time() - 1.0) * 1000)
    wait_for("points", lambda: len(_points(again, "dure_agent_ticks_total")) >= 2)
    answer = again.series("dure_agent_ticks_total", {}, since="1m", step="1s")
    assert answer.series[0].points[0].at_ms < before_ms
    assert bench.places.series_file.stat().st_size > 0
