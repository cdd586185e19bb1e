import os
import signal
import socket
import time

import httpx
import pytest

from dure.agent import lock
from dure.client.convert import goals_request
from dure.client.schema import (
    LatencyPromise,
    PolicyRequest,
    TenantPatch,
    TenantSpec,
)
from dure.domain.errors import DureError, InputError
from dure.domain.ids import TenantId
from dure.domain.tenant import LatencySlo, Slo
from dure.kernel.goals import Goals, TenantGoal
from tests.agent.conftest import LIMIT_S, Bench, first_line, wait_for

DRY_RUN_S = 300.0
"""The first may have to compile the simulator, on a machine that is busy."""
WEB = TenantSpec(latency_slo=LatencyPromise(target_ns=5_000_000), keep=True)
TRAIN = TenantSpec(tenant_class="best-effort", keep=True, command=("python", "train.py"))


def _crowd(bench: Bench) -> None:
    """A protected server beside best-effort training, both busy."""
    for tenant, mode in (("web", "serve"), ("train", "train")):
        assert first_line(bench.start(tenant, mode)).startswith("ready")


def test_best_effort_work_is_held_for_a_protected_tenant_and_why_says_so(bench: Bench) -> None:
    client = bench.start_agent()
    client.declare("web", WEB)
    client.declare("train", TRAIN)
    _crowd(bench)
    wait_for("a hold", lambda: client.why("train").held_ns > 10_000_000)
    status = client.status()
    assert status.gpus[0].gated
    plan = status.gpus[0].plan
    assert plan is not None
    assert plan.protected == ("web",)
    yields = {m.tenant: m.yields_to for squad in plan.squads for m in squad.members}
    assert yields == {"web": (), "train": ("web",)}
    why = client.why("train")
    assert why.holders[0].tenant == "web"
    assert why.holders[0].promise == "p99 within 5 ms"
    assert why.reasons[0].reason == "promise"
    assert "mostly waiting for web" in why.sentences[0]
    train = next(each for each in status.tenants if each.name == "train")
    assert train.gpu_share > 0.0
    assert train.held_for == "web"
    assert client.why("web").held_share < 0.1


def test_an_agent_that_advises_tries_policies_while_two_share_and_says_what_it_found(
    bench: Bench,
) -> None:
    client = bench.start_agent("advise")
    client.declare("web", WEB)
    client.declare("train", TRAIN)
    assert client.advice().gpus[0].foretold == ()
    _crowd(bench)
    wait_for("a dry run", lambda: bool(client.advice().gpus[0].foretold), DRY_RUN_S)
    found = client.advice()
    assert found.adapt == "advise"
    assert {each.policy for each in found.gpus[0].foretold} == {"jct", "slo", "hybrid"}
    assert found.gpus[0].trouble == ""
    assert client.policy().policies[0].policy == found.gpus[0].inforce.policy
    assert "dure_gpu_dry_runs_total" in client.metrics()


def test_with_one_tenant_nothing_is_gated(bench: Bench) -> None:
    client = bench.start_agent()
    client.declare("web", WEB)
    client.declare("train", TRAIN)
    train = bench.start("train", "train")
    assert first_line(train).startswith("ready")
    gpu = client.status().gpus[0]
    assert (gpu.gated, gpu.gate_note) == (False, "only one tenant has a process here")
    web = bench.start("web", "serve")
    assert first_line(web).startswith("ready")
    assert client.status().gpus[0].gated
    web.kill()
    wait_for("the open gate", lambda: not client.status().gpus[0].gated)


def test_a_switch_of_policy_is_adopted_and_survives_a_restart(bench: Bench) -> None:
    client = bench.start_agent()
    client.declare("web", WEB)
    client.declare("train", TRAIN)
    _crowd(bench)
    request = PolicyRequest(policy="hybrid", parameters={"fairness": 0.25})
    preview = client.set_policy(request.model_copy(update={"dry_run": True}))
    assert preview.policies[0].plan is not None
    assert preview.policies[0].plan.policy == "hybrid"
    assert client.policy().policies[0].policy == "slo"
    answer = client.set_policy(request).policies[0]
    assert (answer.policy, answer.parameters["fairness"]) == ("hybrid", 0.25)
    assert answer.plan is not None
    epoch = answer.plan.epoch
    wait_for("the new plan in force", lambda: client.status().gpus[0].adopted_epoch >= epoch)
    with pytest.raises(InputError, match="'fastest' is not a policy; use one of"):
        client.set_policy(PolicyRequest(policy="fastest"))
    with pytest.raises(InputError, match="fairness"):
        client.set_policy(PolicyRequest(policy="hybrid", parameters={"fairness": 7.0}))
    _end(bench)
    again = bench.start_agent()
    kept = again.policy().policies[0]
    assert (kept.policy, kept.parameters["fairness"]) == ("hybrid", 0.25)


def _end(bench: Bench) -> None:
    assert bench.agent is not None
    bench.agent.send_signal(signal.SIGTERM)
    assert bench.agent.wait(LIMIT_S) == 0


def test_a_restart_keeps_tenants_with_all_that_was_said_of_them(bench: Bench) -> None:
    client = bench.start_agent()
    client.declare("web", WEB)
    client.declare("train", TRAIN.model_copy(update={"weight": 2.5}))
    before = {each.name: each.spec for each in client.tenants()}
    _end(bench)
    assert not bench.places.pid_file.exists()
    after = {each.name: each.spec for each in bench.start_agent().tenants()}
    assert after == before
    assert bench.agent is not None
    bench.agent.send_signal(signal.SIGKILL)
    bench.agent.wait(LIMIT_S)
    again = {each.name: each.spec for each in bench.start_agent().tenants()}
    assert again == before


def test_a_killed_agent_leaves_its_tenants_running_ungated(bench: Bench) -> None:
    client = bench.start_agent()
    client.declare("web", WEB)
    client.declare("train", TRAIN)
    _crowd(bench)
    wait_for("a hold", lambda: client.why("train").held_ns > 0)
    assert bench.agent is not None
    bench.agent.send_signal(signal.SIGKILL)
    bench.agent.wait(LIMIT_S)
    time.sleep(1.0)
    assert [program.poll() for program in bench.programs] == [None, None]


def test_a_second_agent_in_the_same_folder_is_refused(bench: Bench) -> None:
    bench.start_agent()
    first = bench.agent
    assert first is not None
    with pytest.raises(DureError, match=f"process {first.pid}\\) already runs"):
        lock.take(bench.places.pid_file)


def test_keys_change_while_a_tenant_runs(bench: Bench) -> None:
    client = bench.start_agent()
    client.declare("web", WEB)
    promise = LatencyPromise(target_ns=9_000_000, percentile=95.0)
    changed = client.change("web", TenantPatch(weight=3.0, latency_slo=promise))
    assert (changed.spec.weight, changed.spec.latency_slo) == (3.0, promise)
    cleared = client.change("web", TenantPatch(latency_slo=None))
    assert cleared.spec.latency_slo is None
    assert cleared.spec.weight == 3.0
    with pytest.raises(InputError, match="no tenant 'nobody'; declared: web"):
        client.change("nobody", TenantPatch(weight=2.0))
    with pytest.raises(InputError, match="best-effort"):
        client.change("web", TenantPatch(latency_slo=promise, tenant_class="best-effort"))
    assert client.tenants()[0].spec.tenant_class == "standard"


def test_reports_of_a_program_replace_what_the_shim_saw(bench: Bench) -> None:
    client = bench.start_agent()
    client.declare("web", WEB)
    assert first_line(bench.start("web", "serve")).startswith("ready")
    client.report_latencies("web", [40_000_000] * 50)
    client.report_progress("web", 30.0, 120.0)

    def seen() -> bool:
        web = client.tenants()[0]
        return web.latency is not None and web.latency.reported and web.progress_done == 30.0

    wait_for("the report in the status", seen)
    web = client.tenants()[0]
    assert web.latency is not None
    assert web.latency.p50_ns == pytest.approx(40e6, rel=0.1)
    assert web.latency.on_time_share == pytest.approx(0.0, abs=0.05)
    assert web.remaining_source == "reported progress"
    with pytest.raises(InputError, match="no tenant"):
        client.report_latencies("nobody", [1])


def test_goals_choose_a_policy_and_change_the_tenants_they_name(bench: Bench) -> None:
    client = bench.start_agent()
    client.declare("web", TenantSpec(keep=True))
    client.declare("train", TRAIN)
    goals = Goals(tenants=(TenantGoal(TenantId("web"), slo=Slo(latency=LatencySlo(7_000_000))),))
    preview = client.apply_goals(goals_request(goals, dry_run=True))
    assert preview.policy == "slo"
    assert client.tenants()[1].spec.latency_slo is None
    answer = client.apply_goals(goals_request(goals))
    assert answer.reasons
    assert client.policy().policies[0].policy == "slo"
    specs = {each.name: each.spec for each in client.tenants()}
    assert specs["web"].latency_slo == LatencyPromise(target_ns=7_000_000)
    assert specs["train"] == TRAIN
    unknown = Goals(tenants=(TenantGoal(TenantId("nobody"), weight=2.0),))
    with pytest.raises(InputError, match="there is no such tenant"):
        client.apply_goals(goals_request(unknown))


def test_processes_nobody_manages_are_shown(bench: Bench) -> None:
    bench.stranger = os.getpid()
    client = bench.start_agent()
    client.declare("web", WEB)
    assert first_line(bench.start("web", "idle")).startswith("ready")
    shown = client.status().unmanaged
    assert [(each.pid, each.name, each.memory_bytes) for each in shown] == [
        (os.getpid(), "stranger", 7)
    ]


def test_a_tenants_processes_are_ended_on_request_and_then_it_can_be_forgotten(
    bench: Bench,
) -> None:
    client = bench.start_agent()
    client.declare("web", WEB)
    program = bench.start("web", "serve")
    assert first_line(program).startswith("ready")
    with pytest.raises(InputError, match="has 1 running process"):
        client.forget("web")
    answer = client.end("web")
    assert (answer.asked, answer.killed) == ((program.pid,), ())
    assert program.wait(LIMIT_S) == -signal.SIGTERM
    wait_for("the slot's return", lambda: client.status().gpus[0].clients == 0)
    client.forget("web")
    assert client.tenants() == ()


def test_scribbled_counters_do_not_stop_the_agent(bench: Bench) -> None:
    client = bench.start_agent()
    client.declare("web", WEB)
    client.declare("train", TRAIN)
    assert first_line(bench.start("train", "scribble")).startswith("ready")
    assert first_line(bench.start("web", "serve")).startswith("ready")
    before = client.status().gpus[0].ticks
    wait_for("ticks", lambda: client.status().gpus[0].ticks > before + 25)
    status = client.status()
    assert status.gpus[0].gated
    assert not [line for line in status.events if line.kind == "planning"]
    web = next(each for each in status.tenants if each.name == "web")
    assert web.gpu_share > 0.0


def test_over_tcp_one_may_look_and_report_and_nothing_else(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        bench.http_port = free.getsockname()[1]
    client = bench.start_agent()
    client.declare("web", WEB)
    assert first_line(bench.start("web", "idle")).startswith("ready")
    with httpx.Client(base_url=f"http://127.0.0.1:{bench.http_port}") as tcp:
        assert tcp.get("/v1/status").json()["tenants"][0]["name"] == "web"
        said = tcp.post("/v1/tenants/web/reports", json={"done": 1, "total": 4})
        assert said.status_code == 204
        wait_for("the report", lambda: client.tenants()[0].progress_total == 4.0)
        for method, path in (
            ("PUT", "/v1/tenants/web"),
            ("DELETE", "/v1/tenants/web"),
            ("PUT", "/v1/policy"),
            ("POST", "/v1/tenants/web/end"),
        ):
            assert tcp.request(method, path, json={}).status_code in (404, 405)


def test_what_cannot_be_read_is_refused_with_the_place(bench: Bench) -> None:
    bench.start_agent()
    transport = httpx.HTTPTransport(uds=str(bench.places.api_socket))
    with httpx.Client(transport=transport, base_url="http://agent") as raw:
        cases = (
            ({"wieght": 1}, "wieght: extra inputs are not permitted"),
            ({"weight": -1}, "weight: input should be greater than 0"),
            ({"latency_slo": {"target_ns": 0}}, "latency_slo.target_ns: input should be greater"),
        )
        for body, words in cases:
            answer = raw.put("/v1/tenants/web", json=body)
            assert answer.status_code == 422
            assert words in answer.json()["error"]
        assert raw.put("/v1/tenants/web", content=b"{").status_code == 422
        assert raw.get("/v1/nothing").json()["error"] == "GET /v1/nothing: Not Found"
        assert raw.get("/v1/tenants/nobody/why").status_code == 404
