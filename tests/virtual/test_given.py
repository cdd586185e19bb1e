"""A dedicated virtual cluster on an API server that is there already, which Dure did not start."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dure.api.virtual import ApiServer, VirtualClusterSpec
from dure.client.fleet import calls
from dure.domain.fleet.virtual import VirtualTier
from tests.e2e.beds import running
from tests.kube.cluster import KubeCluster
from tests.virtual.beds import NAME, VirtualFleet, job
from tests.virtual.test_dedicated import wait_for_pods

pytestmark = [pytest.mark.kube, pytest.mark.timeout(600)]


class GivenFleet(VirtualFleet):
    """Two clusters of processes, and somebody's own API server for the tenant."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.own = KubeCluster()

    def start(self) -> None:
        super().start()
        self.own.start()
        # A cluster of its own would have kubelets; nobody else may say how its Pods are.
        self.own.kwok.kill()
        self.kubeconfig = self.own.kubeconfig

    def declare_given(self) -> None:
        """The same virtual cluster, told that its API server is somebody's."""
        self.declare()
        before = self.client.do(calls.get_virtual(NAME))
        self.client.do(calls.delete_virtual(NAME, before.revision))
        spec = VirtualClusterSpec(
            tenant="acme", tier=VirtualTier.DEDICATED, pools=["gpus"], api_server=ApiServer.GIVEN
        )
        self.client.do(calls.put_virtual(NAME, spec, calls.CREATE))

    def run_words(self, *more: str) -> tuple[str, ...]:
        """Of `dure vcluster run` with a given API server."""
        at = ("--state", str(self.folder / "virtual"), "--kubeconfig", str(self.own.kubeconfig))
        return ("vcluster", "run", NAME, *at, *more)

    def close(self) -> None:
        """End everything."""
        super().close()
        self.own.close()


@pytest.fixture(scope="module")
def fleet() -> Iterator[GivenFleet]:
    with running(GivenFleet) as made:
        made.declare_given()
        yield made


def test_it_is_refused_without_the_way_to_it(fleet: GivenFleet) -> None:
    at = ("--state", str(fleet.folder / "virtual"), "--listen", f"127.0.0.1:{fleet.port}")
    done = fleet.dure("acme", "vcluster", "run", NAME, *at)
    assert done.returncode == 2
    assert "name it with --kubeconfig" in done.stderr
    done = fleet.dure("acme", *fleet.run_words("--client-ca", str(fleet.folder / "nodes.yaml")))
    assert done.returncode == 2
    assert "check --client-ca" in done.stderr


def test_pods_of_a_given_api_server_run_in_the_fleet_and_their_logs_come_back(
    fleet: GivenFleet,
) -> None:
    words = fleet.run_words("--client-ca", str(fleet.own.ca_file))
    fleet._start("virtual", *words, env=fleet.environment("acme"))
    fleet.ready()
    assert fleet.allocatable() == 4
    fleet.apply(job("hello", "echo hello from $DURE_CLUSTER"))
    fleet.kubectl("wait", "--for=condition=complete", "job/hello", "--timeout=110s")
    assert fleet.kubectl("logs", "job/hello") == "hello from cheap\n"
    fleet.kubectl("delete", "job", "hello")
    shown = fleet.client.do(calls.get_virtual(NAME)).standing
    assert shown is not None
    assert (shown.phase, shown.url) == ("ready", fleet.own.url)


def test_its_own_kubeconfig_is_the_way_in_for_people(fleet: GivenFleet) -> None:
    done = fleet.dure("acme", "vcluster", "kubeconfig", NAME)
    assert done.returncode == 2
    assert "use the kubeconfig of that API server" in done.stderr
    assert done.stdout == ""


def test_without_an_authority_pods_run_and_logs_say_what_is_missing(fleet: GivenFleet) -> None:
    fleet.kill("virtual")
    fleet._start("virtual", *fleet.run_words(), env=fleet.environment("acme"))
    fleet.until("its node to be ready", lambda: fleet.allocatable() == 4)
    fleet.apply(job("quiet", "echo nobody hears; exec sleep 600"))
    wait_for_pods(fleet, "quiet", "Running", 1)
    done = fleet.run_kubectl("logs", "job/quiet")
    assert done.returncode != 0
    assert "--client-ca" in (fleet.folder / "virtual.log").read_text(encoding="utf-8")
    fleet.kubectl("delete", "job", "quiet")
    fleet.until("no Pod", lambda: not fleet.pods("quiet"))
