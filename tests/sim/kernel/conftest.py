"""One short comparison that the tests of its presentations share."""

import pytest

from dure.sim.kernel.compare import Comparison, compare
from dure.sim.kernel.scenario import read_scenario
from tests.sim.kernel.scenarios import loop, scenario, service, written


@pytest.fixture(scope="session")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """A service, a loop and a few jobs under two baselines, a policy and a switch."""
    jobs = loop(name="jobs", arrivals={"jobs": [{"at": "50ms", "iterations": 10}]})
    fields = scenario(
        title="A <short> run",
        modes=["time-slice", "mps", "slo", "switching"],
        policy="jct",
        switches=[{"at": "150ms", "policy": "slo"}],
        tenants=[service(), loop(), jobs],
    )
    return compare(read_scenario(written(tmp_path_factory.mktemp("scenario"), fields)))
