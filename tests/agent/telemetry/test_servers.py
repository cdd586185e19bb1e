"""An agent on an emulated GPU that keeps its series in a real server of series."""

from pathlib import Path

import pytest

from dure.bench.common.agents import AgentProcess
from dure.bench.kernel.emulated import emulated_surroundings
from tests.agent.conftest import wait_for
from tests.stores.series.servers import shared_server


@pytest.mark.services
@pytest.mark.parametrize("name", ["victoria-metrics", "prometheus"])
def test_what_an_agent_measures_is_pushed_to_a_server_and_found_through_the_agent(
    tmp_path: Path, name: str
) -> None:
    server = shared_server(name)
    server.start()
    environment = emulated_surroundings(tmp_path / "gpu").isolated
    arguments = ("--series", server.url, "--measure-every", "200ms")
    with AgentProcess(tmp_path / "run", environment, arguments) as agent:

        def found() -> list[float]:
            answer = agent.client.series("dure_gpu_power_watts", {}, since="1m", step="1s")
            return [point.last for series in answer.series for point in series.points]

        points = wait_for("power is found", found, 60.0)
        assert isinstance(points, list)
        assert all(watts > 0 for watts in points)
        names = agent.client.series_names()
        assert "dure_agent_ticks_total" in names
        assert "dure_series_store_up 1.0" in agent.client.metrics()
