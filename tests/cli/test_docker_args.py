import shlex
from pathlib import Path

import pytest
import yaml

from tests.cli.agents import CannedAgent, agent_status
from tests.cli.conftest import Dure

SHIM = "/opt/venv/dure/libdure.so"


@pytest.fixture
def declaring(agent: CannedAgent, no_agent: Path) -> CannedAgent:
    """An agent that takes the tenant `api`."""
    agent.says(
        "PUT",
        "/v1/tenants/api",
        {
            "name": "api",
            "gpu": None,
            "environment": {
                "LD_PRELOAD": SHIM,
                "DURE_SOCKET": f"{no_agent}/shim.sock",
                "DURE_TENANT": "api",
                "CUDA_MPS_PIPE_DIRECTORY": f"{no_agent}/mps/pipe",
            },
        },
    )
    return agent


def test_a_container_gets_folder_shim_environment_and_gpu(
    dure: Dure, declaring: CannedAgent, no_agent: Path
) -> None:
    code, out, err = dure("docker-args", "--tenant", "api", "--gpu", "0")
    assert code == 0
    words = shlex.split(out)
    assert words[:2] == ["--gpus", "device=0"]
    given = list(zip(words[::2], words[1::2], strict=True))
    assert [value for key, value in given if key == "--volume"] == [
        f"{no_agent}:/run/dure",
        f"{SHIM}:/opt/dure/libdure.so:ro",
    ]
    assert [value for key, value in given if key == "--env"] == [
        "CUDA_MPS_PIPE_DIRECTORY=/run/dure/mps/pipe",
        "DURE_SOCKET=/run/dure/shim.sock",
        "DURE_TENANT=api",
        "LD_PRELOAD=/opt/dure/libdure.so",
    ]
    assert "dure forget api" in err


def test_the_tenant_stays_declared_without_a_process_that_holds_it(
    dure: Dure, declaring: CannedAgent
) -> None:
    dure("docker-args", "--tenant", "api")
    sent = [body for method, _, body in declaring.asked if method == "PUT"]
    assert [body["keep"] for body in sent] == [True]


def test_what_was_said_of_a_known_tenant_is_kept(dure: Dure, agent: CannedAgent) -> None:
    agent.says("PUT", "/v1/tenants/web", {"name": "web", "gpu": None, "environment": {}})
    code, _, err = dure("docker-args", "--tenant", "web")
    assert (code, err) == (0, "")
    sent = [body for method, _, body in agent.asked if method == "PUT"]
    assert sent[0]["class"] == "guaranteed"
    assert sent[0]["latency_slo"]["target_ns"] == 20_000_000


def test_compose_is_a_service_of_a_compose_file(dure: Dure, declaring: CannedAgent) -> None:
    code, out, _ = dure("docker-args", "--tenant", "api", "--compose", "--image", "my/api")
    assert code == 0
    service = yaml.safe_load(out)["services"]["api"]
    assert service["image"] == "my/api"
    assert service["environment"]["DURE_TENANT"] == "api"
    device = service["deploy"]["resources"]["reservations"]["devices"][0]
    assert device == {"driver": "nvidia", "capabilities": ["gpu"], "count": "all"}
    assert "ipc" not in service


def test_under_mps_the_container_shares_the_hosts_memory_segments(
    dure: Dure, declaring: CannedAgent
) -> None:
    status = agent_status().model_dump(by_alias=True)
    status["agent"]["sharing"] = "mps"
    declaring.says("GET", "/v1/status", status)
    _, out, _ = dure("docker-args", "--tenant", "api")
    assert "--ipc host" in out


def test_without_an_agent_there_is_nothing_to_connect_to(dure: Dure, no_agent: Path) -> None:
    code, out, err = dure("docker-args", "--tenant", "api")
    assert (code, out) == (1, "")
    assert "start one with `dure agent`" in err
