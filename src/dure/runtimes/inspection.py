"""Docker's inspection of a container → `Container`: above all, which GPUs it was given.

The proof that a container was given a GPU is one of: a device request (`--gpus`, CDI), a device
node (`--device /dev/nvidia0`), or `NVIDIA_VISIBLE_DEVICES` where the NVIDIA runtime reads it. Many
images carry that variable; under another runtime it gives nothing. A privileged container that
names no GPU is not one: most of those are tools of the host.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dure.domain.containers import Container
from dure.domain.ids import ContainerId, GpuUuid

NVIDIA_RUNTIME = "nvidia"
PROJECT_LABEL = "com.docker.compose.project"

_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_NODE = re.compile(r"^/dev/nvidia(\d+)$")
_CDI_KIND = "nvidia.com/gpu"
_MOUNTED = "/var/run/nvidia-container-devices/"
"""Devices named by mounts under this folder, an option of the NVIDIA runtime."""
_NONE = ("", "none", "void")


@dataclass(frozen=True, slots=True)
class HostGpu:
    """A GPU of this host by all its names."""

    index: int
    uuid: GpuUuid
    minor: int | None = None
    """Number of its device node; its index where nothing else is known."""


@dataclass(frozen=True, slots=True)
class GpuNames:
    """Resolves the names that people give GPUs."""

    gpus: tuple[HostGpu, ...]
    environment_counts: bool = False
    """`NVIDIA_VISIBLE_DEVICES` gives a GPU under any runtime; true for the emulator, which has no
    device nodes and needs no runtime of its own."""

    def all(self) -> tuple[GpuUuid, ...]:
        """Every GPU of this host."""
        return tuple(gpu.uuid for gpu in self.gpus)

    def named(self, names: Iterable[str]) -> tuple[GpuUuid, ...]:
        """GPUs by index, UUID, a UUID's beginning, index and MIG instance, CDI name, or `all`."""
        found: list[GpuUuid] = []
        for name in names:
            found += self._one(name.strip().removeprefix(_CDI_KIND + "="))
        return tuple(dict.fromkeys(found))

    def by_minor(self, minor: int) -> tuple[GpuUuid, ...]:
        """The GPU behind /dev/nvidiaN."""
        return tuple(
            gpu.uuid
            for gpu in self.gpus
            if (gpu.index if gpu.minor is None else gpu.minor) == minor
        )

    def _one(self, name: str) -> tuple[GpuUuid, ...]:
        if name == "all":
            return self.all()
        if name in _NONE:
            return ()
        index = name.partition(":")[0]
        if index.isdigit():
            return tuple(gpu.uuid for gpu in self.gpus if gpu.index == int(index))
        if name.startswith("MIG-") and "GPU-" not in name:
            return self.all()[:1] if len(self.gpus) == 1 else ()
        whole = name.removeprefix("MIG-").partition("/")[0]
        return tuple(gpu.uuid for gpu in self.gpus if gpu.uuid.startswith(whole))


def container_from(
    attributes: Mapping[str, Any],
    names: GpuNames,
    *,
    default_runtime: str = "",
    unmanaged: str | None = None,
) -> Container:
    """What `docker inspect` said, in our words."""
    state = attributes.get("State") or {}
    config = attributes.get("Config") or {}
    labels: Mapping[str, str] = config.get("Labels") or {}
    gpus = given_gpus(attributes, names, default_runtime)
    return Container(
        id=ContainerId(attributes["Id"]),
        name=str(attributes.get("Name") or "").lstrip("/"),
        image=str(config.get("Image") or attributes.get("Image") or ""),
        started_ns=unix_ns(str(state.get("StartedAt") or "")),
        gpus=gpus,
        labels=tuple(sorted((str(key), str(value)) for key, value in labels.items())),
        project=labels.get(PROJECT_LABEL) or None,
        paused=bool(state.get("Paused")),
        health_checked=_health_checked(config, state),
        publishes=_publishes(attributes.get("HostConfig") or {}),
        unmanaged=unmanaged if gpus else None,
    )


def given_gpus(
    attributes: Mapping[str, Any], names: GpuNames, default_runtime: str = ""
) -> tuple[GpuUuid, ...]:
    """The GPUs a container was given; none where nothing proves it."""
    host = attributes.get("HostConfig") or {}
    config = attributes.get("Config") or {}
    found: list[GpuUuid] = []
    for request in host.get("DeviceRequests") or ():
        found += _requested(request, names)
    for device in host.get("Devices") or ():
        node = _NODE.match(str(device.get("PathOnHost") or ""))
        if node is not None:
            found += names.by_minor(int(node[1]))
    runtime = str(host.get("Runtime") or default_runtime)
    if names.environment_counts or runtime == NVIDIA_RUNTIME:
        found += names.named(_visible(config.get("Env") or (), attributes.get("Mounts") or ()))
    given = dict.fromkeys(found)
    return tuple(uuid for uuid in names.all() if uuid in given)


def _requested(request: Mapping[str, Any], names: GpuNames) -> tuple[GpuUuid, ...]:
    ids: Sequence[str] = request.get("DeviceIDs") or ()
    if request.get("Driver") == "cdi":
        return names.named(name for name in ids if str(name).startswith(_CDI_KIND + "="))
    capabilities = {word for group in request.get("Capabilities") or () for word in group}
    if request.get("Driver") not in ("", None, "nvidia") or "gpu" not in capabilities:
        return ()
    if ids:
        return names.named(ids)
    count = int(request.get("Count") or 0)
    return names.all() if count < 0 else names.all()[:count]


def _visible(environment: Sequence[str], mounts: Sequence[Mapping[str, Any]]) -> list[str]:
    mounted = [str(mount.get("Destination") or "") for mount in mounts]
    by_mount = [
        place.removeprefix(_MOUNTED).removeprefix("cdi/").replace("/gpu/", "/gpu=")
        for place in mounted
        if place.startswith(_MOUNTED)
    ]
    if by_mount:
        return by_mount
    for entry in environment:
        name, _, value = entry.partition("=")
        if name == _VISIBLE:
            return value.split(",")
    return []


def _health_checked(config: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    test = (config.get("Healthcheck") or {}).get("Test") or ()
    if test:
        return list(test) != ["NONE"]
    return (state.get("Health") or {}).get("Status") not in (None, "none")


def _publishes(host: Mapping[str, Any]) -> bool:
    """Whether a port of the host leads to it. That an image exposes some says nothing: many do."""
    return bool(host.get("PublishAllPorts")) or any((host.get("PortBindings") or {}).values())


def unix_ns(text: str) -> int:
    """Docker's time stamps, which have up to nine digits after the point; 0 where there is none."""
    match = re.match(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$", text)
    if match is None or text.startswith("0001-"):
        return 0
    zone = "+00:00" if match[3] == "Z" else match[3]
    seconds = int(datetime.fromisoformat(match[1] + zone).timestamp())
    return seconds * 1_000_000_000 + int((match[2] or "0").ljust(9, "0"))
