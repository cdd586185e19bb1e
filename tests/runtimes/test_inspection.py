from typing import Any

import pytest

from dure.domain.ids import GpuUuid
from dure.runtimes.inspection import GpuNames, HostGpu, container_from, given_gpus, unix_ns

ZERO, ONE = GpuUuid("GPU-00000000-aaaa"), GpuUuid("GPU-11111111-bbbb")
NAMES = GpuNames((HostGpu(0, ZERO, minor=1), HostGpu(1, ONE, minor=0)))


def _attributes(host: dict[str, Any] | None = None, *env: str, **more: Any) -> dict[str, Any]:
    return {
        "Id": "c" * 64,
        "Name": "/web",
        "State": {"Running": True, "Paused": False, "StartedAt": "2026-11-15T23:31:05.94Z"},
        "HostConfig": {"Runtime": "runc"} | (host or {}),
        "Config": {"Image": "app:1", "Env": list(env), "Labels": {}},
    } | more


def _request(**fields: Any) -> dict[str, Any]:
    filled = {"Driver": "", "Count": 0, "DeviceIDs": None, "Capabilities": [["gpu"]]} | fields
    return {"DeviceRequests": [filled]}


NVIDIA = {"Runtime": "nvidia"}
GIVEN: list[tuple[str, dict[str, Any], tuple[str, ...], tuple[GpuUuid, ...]]] = [
    ("--gpus all", _request(Count=-1), (), (ZERO, ONE)),
    ("--gpus 1", _request(Count=1), (), (ZERO,)),
    ("--gpus device=1", _request(DeviceIDs=["1"]), (), (ONE,)),
    ("--gpus by uuid", _request(DeviceIDs=[ONE], Driver="nvidia"), (), (ONE,)),
    ("a MIG slice", _request(DeviceIDs=["1:0"]), (), (ONE,)),
    ("a MIG slice by uuid", _request(DeviceIDs=[f"MIG-{ZERO}/1/0"]), (), (ZERO,)),
    ("CDI", _request(Driver="cdi", DeviceIDs=["nvidia.com/gpu=1"]), (), (ONE,)),
    ("CDI all", _request(Driver="cdi", DeviceIDs=["nvidia.com/gpu=all"]), (), (ZERO, ONE)),
    ("--device", {"Devices": [{"PathOnHost": "/dev/nvidia1"}]}, (), (ZERO,)),
    ("environment", NVIDIA, ("NVIDIA_VISIBLE_DEVICES=all",), (ZERO, ONE)),
    ("environment by index", NVIDIA, ("NVIDIA_VISIBLE_DEVICES=1,0",), (ZERO, ONE)),
    ("environment by CDI", NVIDIA, ("NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu=0",), (ZERO,)),
    ("environment void", NVIDIA, ("NVIDIA_VISIBLE_DEVICES=void",), ()),
    ("environment none", NVIDIA, ("NVIDIA_VISIBLE_DEVICES=none",), ()),
    ("environment empty", NVIDIA, ("NVIDIA_VISIBLE_DEVICES=",), ()),
    ("an image's variable under runc", {}, ("NVIDIA_VISIBLE_DEVICES=all",), ()),
    ("nothing", {}, (), ()),
    ("privileged alone", {"Privileged": True}, (), ()),
    ("another device", {"Devices": [{"PathOnHost": "/dev/fuse"}]}, (), ()),
    ("the control node alone", {"Devices": [{"PathOnHost": "/dev/nvidiactl"}]}, (), ()),
    ("another vendor's CDI", _request(Driver="cdi", DeviceIDs=["amd.com/gpu=0"]), (), ()),
    ("another driver's request", _request(Driver="other", Count=-1), (), ()),
    ("another capability", _request(Count=-1, Capabilities=[["tpu"]]), (), ()),
    ("a GPU that is not there", _request(DeviceIDs=["7"]), (), ()),
    ("no requests at all", {"DeviceRequests": None, "Devices": None}, (), ()),
]


@pytest.mark.parametrize(("what", "host", "env", "gpus"), GIVEN, ids=[each[0] for each in GIVEN])
def test_a_container_has_the_gpus_that_its_inspection_proves(
    what: str, host: dict[str, Any], env: tuple[str, ...], gpus: tuple[GpuUuid, ...]
) -> None:
    assert given_gpus(_attributes(host, *env), NAMES) == gpus, what


def test_the_daemons_default_runtime_counts_where_a_container_names_none() -> None:
    attributes = _attributes({"Runtime": ""}, "NVIDIA_VISIBLE_DEVICES=0")
    assert given_gpus(attributes, NAMES, "nvidia") == (ZERO,)
    assert given_gpus(attributes, NAMES, "runc") == ()


def test_devices_named_by_mounts_go_before_the_environment() -> None:
    mounts = [{"Destination": "/var/run/nvidia-container-devices/1"}]
    attributes = _attributes(NVIDIA, "NVIDIA_VISIBLE_DEVICES=all", Mounts=mounts)
    assert given_gpus(attributes, NAMES) == (ONE,)


def test_on_the_emulator_the_variable_alone_gives_a_gpu() -> None:
    names = GpuNames(NAMES.gpus, environment_counts=True)
    assert given_gpus(_attributes({}, "NVIDIA_VISIBLE_DEVICES=0"), names) == (ZERO,)


def test_an_inspection_becomes_a_container_in_our_words() -> None:
    attributes = _attributes(_request(Count=-1))
    attributes["Config"]["Labels"] = {"dure.weight": "2", "com.docker.compose.project": "shop"}
    attributes["Config"]["Healthcheck"] = {"Test": ["CMD", "true"]}
    attributes["State"]["Paused"] = True
    container = container_from(attributes, NAMES, unmanaged="it cannot")
    assert container.name == "web"
    assert container.image == "app:1"
    assert container.gpus == (ZERO, ONE)
    assert container.project == "shop"
    assert container.paused
    assert container.health_checked
    assert container.unmanaged == "it cannot"
    assert dict(container.labels)["dure.weight"] == "2"


@pytest.mark.parametrize(
    ("host", "publishes"),
    [
        ({}, False),
        ({"PortBindings": None}, False),
        ({"PortBindings": {"80/tcp": []}}, False),
        ({"PortBindings": {"80/tcp": [{"HostIp": "", "HostPort": "8080"}]}}, True),
        ({"PublishAllPorts": True}, True),
    ],
)
def test_a_port_counts_where_it_is_published_not_where_an_image_exposes_it(
    host: dict[str, Any], publishes: bool
) -> None:
    attributes = _attributes(host)
    attributes["Config"]["ExposedPorts"] = {"80/tcp": {}}
    assert container_from(attributes, NAMES).publishes is publishes


def test_a_disabled_health_check_is_none() -> None:
    attributes = _attributes()
    attributes["Config"]["Healthcheck"] = {"Test": ["NONE"]}
    assert not container_from(attributes, NAMES).health_checked


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:01.000000002Z", 1_000_000_002),
        ("1970-01-01T01:00:00.5+01:00", 500_000_000),
        ("1970-01-01T00:00:07Z", 7_000_000_000),
        ("0001-01-01T00:00:00Z", 0),
        ("", 0),
        ("yesterday", 0),
    ],
)
def test_dockers_time_stamps_keep_their_nanoseconds(text: str, ns: int) -> None:
    assert unix_ns(text) == ns
