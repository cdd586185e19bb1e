"""Supervision of the MPS daemon, with a stand-in for its control program."""

from pathlib import Path

import pytest

from dure.agent.mps import MpsDaemon, find_daemon
from dure.devices import library
from dure.domain.errors import DureError, InputError
from dure.domain.ids import TenantId
from dure.domain.tenant import LatencySlo, Slo, Tenant, TenantClass

CONTROL = """#!/bin/sh
# Keeps its state in files beside its pipes; speaks the few commands that the agent uses.
state="$CUDA_MPS_PIPE_DIRECTORY/running"
if [ "$1" = "-d" ]; then touch "$state"; exit 0; fi
[ -e "$state" ] || { echo "Cannot find MPS control daemon process" >&2; exit 1; }
read -r command rest
echo "$command $rest" >> "$CUDA_MPS_LOG_DIRECTORY/said"
case "$command" in
get_server_list) echo 50; echo 60 ;;
get_client_list) [ "$rest" = 60 ] && { echo 70; echo 71; }; exit 0 ;;
get_default_active_thread_percentage) echo 100.0 ;;
terminate_client) exit 0 ;;
quit) rm "$state" ;;
esac
"""


@pytest.fixture
def daemon(tmp_path: Path) -> MpsDaemon:
    control = tmp_path / "nvidia-cuda-mps-control"
    control.write_text(CONTROL)
    control.chmod(0o755)
    return MpsDaemon(tmp_path / "mps", str(control))


def test_a_daemon_is_started_once_and_found_again_by_the_next_agent(daemon: MpsDaemon) -> None:
    assert daemon.ensure(open_to_all=False)
    assert not daemon.ensure(open_to_all=False)
    daemon.quit()
    assert not daemon.running()


def test_a_client_is_terminated_through_its_own_server(daemon: MpsDaemon) -> None:
    daemon.ensure(open_to_all=False)
    assert daemon.terminate(71)
    assert not daemon.terminate(99)
    said = (daemon.folder / "log" / "said").read_text().splitlines()
    assert [line for line in said if line.startswith("terminate")] == ["terminate_client 60 71"]


def test_whoever_was_promised_something_goes_first_on_the_hardware(daemon: MpsDaemon) -> None:
    promise = Slo(latency=LatencySlo(target_ns=20_000_000))
    web = Tenant(TenantId("web"), slo=promise)
    train = Tenant(TenantId("train"), slo=promise, tenant_class=TenantClass.BEST_EFFORT)
    job = Tenant(TenantId("job"))
    assert [
        daemon.environment_of(tenant)["CUDA_MPS_CLIENT_PRIORITY"] for tenant in (web, train, job)
    ] == ["0", "1", "1"]


def test_a_daemon_that_does_not_start_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DureError, match="does not answer"):
        MpsDaemon(tmp_path / "mps", str(tmp_path / "nothing")).ensure(open_to_all=False)


def test_without_daemon_and_emulator_mps_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="--sharing: there is no nvidia-cuda-mps-control"):
        find_daemon(tmp_path, {})


def test_on_the_emulator_its_own_control_program_is_used(tmp_path: Path) -> None:
    found = find_daemon(tmp_path, {"DURE_EMULATOR_DIR": str(tmp_path / "emulator")})
    assert Path(found.control) == library.path("emulator/nvidia-cuda-mps-control")
