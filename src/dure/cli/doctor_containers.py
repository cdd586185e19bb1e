"""The checks of `dure doctor` about containers: what `dure agent --manage-containers` needs."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from dure.cli.findings import Finding
from dure.domain.errors import DureError

_CGROUPS = Path("/sys/fs/cgroup")
_MOUNTS = Path("/proc/self/mounts")
_ANSWER_S = 3.0
_UNIT = "dure-watchdog.service"


def check_containers() -> Iterator[Finding]:
    """Everything about containers."""
    yield from check_docker()
    yield from check_freezer()
    yield from check_cuda_lock()
    yield from check_watchdog()


def check_docker() -> Iterator[Finding]:
    """Whether Docker answers this user, and can pause."""
    from dure.runtimes.docker import DockerPauser, DockerRuntime, docker_url
    from dure.runtimes.inspection import GpuNames

    runtime = DockerRuntime(docker_url(), GpuNames(()), _ANSWER_S)
    try:
        running = runtime.containers()
        reason = DockerPauser(runtime).unsupported()
    except DureError as error:
        yield Finding("warn", "docker", f"containers cannot be managed: {error.what}", error.remedy)
        return
    finally:
        runtime.close()
    if reason is not None:
        yield Finding("warn", "docker", reason, "use --pause-with cuda-lock")
    else:
        containers = f"{len(running)} container{'s' * (len(running) != 1)}"
        yield Finding("ok", "docker", f"answers at {runtime.url}, {containers}")


def check_freezer(mounts: Path = _MOUNTS, cgroups: Path = _CGROUPS) -> Iterator[Finding]:
    """The control groups by which a container is frozen, and thawed in an emergency."""
    kinds = [line.split()[2:4] for line in mounts.read_text(encoding="utf-8").splitlines()]
    first = any(kind == "cgroup" and "freezer" in options.split(",") for kind, options in kinds)
    if (cgroups / "cgroup.controllers").is_file():
        yield Finding("ok", "freezer", "control groups of version 2")
    elif first:
        yield Finding("ok", "freezer", "control groups of version 1")
    else:
        yield Finding(
            "warn",
            "freezer",
            "no control groups that freeze are mounted: containers cannot be paused as a whole",
            "boot with systemd.unified_cgroup_hierarchy=1; sharing a GPU works without",
        )


def check_cuda_lock() -> Iterator[Finding]:
    """The driver's process lock."""
    from dure.runtimes.cuda_driver import CudaDriver
    from dure.runtimes.cuda_lock import CudaLockPauser

    driver = CudaDriver(_ANSWER_S)
    try:
        reason = CudaLockPauser(lambda _: None, driver).unsupported()
    finally:
        driver.close()
    if reason is None:
        yield Finding(
            "ok", "cuda lock", "works: containers can be held without freezing their health checks"
        )
        return
    what, _, remedy = reason.partition("; ")
    yield Finding(
        "warn",
        "cuda lock",
        f"does not work ({what}): containers are paused by Docker",
        remedy or "use a driver of version 570 or newer",
    )


def check_watchdog(folder: Path | None = None) -> Iterator[Finding]:
    """The process that lets everything go when an agent dies, and its unit."""
    from dure.client.places import own_places

    where = folder or own_places().containers_dir
    unit = _unit_state()
    if _answers(where):
        yield Finding("ok", "watchdog", f"runs in {where}{f', unit {unit}' if unit else ''}")
    elif unit is not None and unit != "active":
        yield Finding(
            "warn",
            "watchdog",
            f"its unit {_UNIT} is {unit}: no container is paused until one runs",
            f"systemctl enable --now {_UNIT}",
        )
    else:
        yield Finding(
            "ok",
            "watchdog",
            "none runs; an agent that manages containers starts one"
            f"{'' if unit else f', or install the unit deploy/systemd/{_UNIT}'}",
        )


def _answers(folder: Path) -> bool:
    from dure.agent.containers.watchdog import SOCKET_NAME

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as knocking:
        knocking.settimeout(_ANSWER_S)
        try:
            knocking.connect(str(folder / SOCKET_NAME))
        except OSError:
            return False
    return True


def _unit_state() -> str | None:
    """What systemd says of the watchdog's unit; None where there is no such unit or no systemd."""
    systemctl = shutil.which("systemctl")
    if systemctl is None:
        return None
    try:
        asked = subprocess.run(
            [systemctl, "show", _UNIT, "--property=LoadState,ActiveState"],
            capture_output=True,
            text=True,
            timeout=_ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = dict(line.partition("=")[::2] for line in asked.stdout.splitlines())
    return said.get("ActiveState") if said.get("LoadState") == "loaded" else None
