"""The checks of `dure doctor`: each looks at one thing and says what it found, and the remedy."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dure import __version__
from dure.cli.doctor_containers import check_containers
from dure.cli.findings import Finding
from dure.domain.errors import DureError
from dure.domain.units import format_bytes

if TYPE_CHECKING:
    from dure.client.schema import AgentStatus

_PROBE_LIMIT_S = 60.0
"""A driver that has to wake several GPUs takes many seconds."""
_LOAD_LIMIT_S = 20.0
_MPS_CONTROL = "nvidia-cuda-mps-control"
_MPS_SERVER = "nvidia-cuda-mps-server"
_LEAST_MPS_CAPABILITY = [7, 0]
"""From Volta on MPS clients have address spaces of their own."""
_CUDA_ERRORS = {
    2: "out of memory",
    34: "this is the stub library of the toolkit, not a driver",
    100: "no GPU is visible; look at CUDA_VISIBLE_DEVICES and /dev/nvidia*",
    101: "the device does not exist",
    304: "the operating system refused a call",
    802: "the system is not ready: is the fabric manager running?",
    803: "driver and kernel module are of different versions: reboot, or reload the module",
    804: "this driver cannot run on this GPU in compatibility mode",
    999: "unknown error: try `nvidia-smi`, then reload the kernel module",
}


def examine() -> list[Finding]:
    """Everything, in the order in which problems depend on one another."""
    cuda, nvml = probe("cuda"), probe("nvml")
    agent, agent_findings = check_agent()
    sharing = agent.agent.sharing if agent is not None else "isolated"
    return [
        *check_driver(cuda),
        *check_nvml(nvml),
        *check_gpus(cuda, nvml),
        *(finding for gpu in nvml.get("gpus", []) for finding in check_modes(gpu, sharing)),
        *check_green(cuda),
        *check_mps(cuda, in_use=sharing == "mps"),
        *check_shim(),
        *check_run_dir(),
        *agent_findings,
        *check_others(nvml, agent),
        *check_containers(),
        *check_environment(),
        *check_risk(sharing),
    ]


def probe(what: str) -> dict[str, Any]:
    """What a driver says, asked in another process; `crashed` says how that one ended badly."""
    command = [sys.executable, "-m", "dure.cli.doctor_probe", what]
    try:
        asked = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROBE_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return {"crashed": f"did not answer within {_PROBE_LIMIT_S:.0f} s"}
    if asked.returncode < 0:
        return {"crashed": f"was ended by {signal.Signals(-asked.returncode).name}"}
    try:
        answer = json.loads(asked.stdout)
    except ValueError:
        story = asked.stderr.strip().splitlines()[-1:] or [f"exit code {asked.returncode}"]
        return {"crashed": f"failed ({story[0]})"}
    return answer if isinstance(answer, dict) else {"crashed": "gave no answer"}


def check_driver(cuda: dict[str, Any]) -> Iterator[Finding]:
    """The CUDA driver library."""
    if "crashed" in cuda:
        yield Finding(
            "fail",
            "driver",
            f"a program that loads the CUDA driver {cuda['crashed']}",
            "check the driver with `nvidia-smi`, and install it again if that fails too",
        )
    elif "missing" in cuda:
        yield Finding(
            "fail",
            "driver",
            "libcuda.so.1 was not found",
            "install the NVIDIA driver; without a GPU, put Dure's emulator first in "
            "LD_LIBRARY_PATH, as docs/guide/gpu.md shows",
        )
    elif cuda["init"] != 0:
        reason = _CUDA_ERRORS.get(cuda["init"], "see the driver's list of errors")
        yield Finding("fail", "driver", f"the driver does not start (error {cuda['init']})", reason)
    elif "/emulator/" in cuda.get("library", ""):
        yield Finding("ok", "driver", f"Dure's emulator, CUDA {cuda.get('version', '?')}; no GPU")
    else:
        yield Finding("ok", "driver", f"CUDA {cuda.get('version', '?')} at {cuda['library']}")


def check_nvml(nvml: dict[str, Any]) -> Iterator[Finding]:
    """The management library: processes, memory, power."""
    problem = nvml.get("crashed") or nvml.get("missing")
    if problem:
        yield Finding(
            "fail",
            "nvml",
            f"the management library does not work: {problem}",
            "install libnvidia-ml.so.1 of the same version as the driver",
        )
    else:
        yield Finding("ok", "nvml", f"driver {nvml.get('driver') or 'of unknown version'}")


def check_gpus(cuda: dict[str, Any], nvml: dict[str, Any]) -> Iterator[Finding]:
    """Each GPU as the driver sees it."""
    devices = cuda.get("devices", [])
    if not devices and cuda.get("init") == 0:
        yield Finding("fail", "gpu", "the driver sees no GPU", "look at CUDA_VISIBLE_DEVICES")
    sizes = [gpu.get("memory_bytes") for gpu in nvml.get("gpus", [])]
    for device in devices:
        index = device["index"]
        size = sizes[index] if index < len(sizes) and sizes[index] else None
        memory = f", {format_bytes(size)}" if size else ""
        capability = ".".join(map(str, device["capability"]))
        yield Finding(
            "ok",
            f"gpu {index}",
            f"{device['name']}, {device['sms']} SMs, compute capability {capability}{memory}",
        )


def check_modes(gpu: dict[str, Any], sharing: str) -> Iterator[Finding]:
    """Modes of a GPU that stand in the way of sharing it."""
    subject, index = f"gpu {gpu['index']}", gpu["index"]
    mode = gpu.get("compute_mode")
    if mode == "prohibited":
        yield Finding(
            "fail",
            subject,
            "compute mode 'prohibited' lets no program use it",
            f"nvidia-smi -i {index} -c DEFAULT (as root)",
        )
    elif mode == "exclusive-process" and sharing != "mps":
        yield Finding(
            "fail",
            subject,
            "compute mode 'exclusive process' lets one program use it at a time, unless all "
            "run under MPS",
            f"nvidia-smi -i {index} -c DEFAULT (as root), or dure agent --sharing mps",
        )
    if gpu.get("mig"):
        yield Finding(
            "warn",
            subject,
            "MIG is on: tenants share one MIG slice at best",
            f"nvidia-smi -i {index} -mig 0 (as root) to share the whole GPU",
        )
    if gpu.get("persistence") == 0:
        yield Finding(
            "warn",
            subject,
            "persistence mode is off: the first program after a pause waits for the driver",
            f"nvidia-smi -i {index} -pm 1 (as root)",
        )


def check_green(cuda: dict[str, Any]) -> Iterator[Finding]:
    """Green contexts: sets of compute units."""
    green = cuda.get("green")
    if green is None:
        return
    if green["works"]:
        yield Finding("ok", "green contexts", "work: tenants can be kept to sets of compute units")
        return
    code = "is missing" if green["code"] is None else f"failed (error {green['code']})"
    yield Finding(
        "warn",
        "green contexts",
        f"do not work ({green['step']} {code}): tenants share in time only",
        "use a driver of version 550 or newer and a GPU of compute capability 6.0 or newer",
    )


def check_mps(cuda: dict[str, Any], *, in_use: bool) -> Iterator[Finding]:
    """NVIDIA MPS: needed only to let kernels of different processes overlap."""
    running = running_programs(_MPS_CONTROL, _MPS_SERVER)
    if shutil.which(_MPS_CONTROL) is None:
        yield Finding(
            "fail" if in_use else "warn",
            "mps",
            f"{_MPS_CONTROL} was not found: only --sharing isolated is possible",
            "it comes with the driver's compute utilities (Debian: nvidia-cuda-mps)",
        )
    elif running:
        pids = ", ".join(f"{name} {pid}" for pid, name in running)
        yield Finding("ok", "mps", f"available, and running ({pids})")
    else:
        yield Finding("ok", "mps", "available, not running; dure agent --sharing mps starts it")
    for device in cuda.get("devices", []):
        if device["capability"] < _LEAST_MPS_CAPABILITY:
            yield Finding(
                "warn",
                "mps",
                f"GPU {device['index']} is older than Volta: MPS clients share one address space",
                "use --sharing isolated",
            )


def running_programs(*names: str) -> list[tuple[int, str]]:
    """Processes of these names that this user can see."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            first = (folder / "cmdline").read_bytes().split(b"\0")[0].decode("utf-8", "replace")
        except OSError:
            continue
        if os.path.basename(first) in names:  # noqa: PTH119, a word of a command line, not a path
            found.append((int(folder.name), os.path.basename(first)))  # noqa: PTH119
    return sorted(found)


def check_shim() -> Iterator[Finding]:
    """The library that is loaded into tenants."""
    from dure.devices import library

    try:
        shim = library.path("libdure.so")
    except DureError as error:
        yield Finding("fail", "shim", error.what, error.remedy)
        return
    program = shutil.which("true") or "/bin/true"
    environment = {**os.environ, "LD_PRELOAD": str(shim), "DURE_LOG": "stderr"}
    environment.pop("DURE_SOCKET", None)
    try:
        ended = subprocess.run(
            [program],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_LOAD_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding("fail", "shim", f"a program that loads it does not end ({error})")
        return
    # The loader complains and goes on: what it says is the only sign that nothing was loaded.
    if ended.returncode != 0 or "LD_PRELOAD" in ended.stderr:
        said = " ".join(ended.stderr.split()) or f"exit code {ended.returncode}"
        yield Finding(
            "fail",
            "shim",
            f"{shim} does not load: {said}",
            "build it on this machine: install gcc and install Dure again",
        )
    else:
        yield Finding("ok", "shim", f"loads from {shim}")


def check_run_dir() -> Iterator[Finding]:
    """The folder where an agent and its tenants meet."""
    from dure.client.places import own_places

    folder = own_places().run_dir
    if not folder.exists():
        parent = next(each for each in folder.absolute().parents if each.exists())
        if os.access(parent, os.W_OK):
            yield Finding("ok", "run folder", f"{folder} will be made by the agent")
        else:
            yield Finding(
                "fail",
                "run folder",
                f"{folder} cannot be made",
                "name another in DURE_RUN_DIR, or set XDG_RUNTIME_DIR",
            )
        return
    owner = folder.stat().st_uid
    if owner not in (os.getuid(), 0):
        yield Finding(
            "fail",
            "run folder",
            f"{folder} belongs to user {owner}, who could pose as your agent",
            "remove it, or name another in DURE_RUN_DIR",
        )
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield Finding(
            "fail", "run folder", f"{folder} is not yours to write", "correct its permissions"
        )
    else:
        yield Finding("ok", "run folder", str(folder))


def check_agent() -> "tuple[AgentStatus | None, list[Finding]]":
    """A running agent, and whether it is of this version."""
    from dure.client.api import AgentUnreachableError, find_agent

    try:
        with find_agent() as client:
            status = client.status()
    except AgentUnreachableError:
        return None, [
            Finding(
                "warn",
                "agent",
                "none is running; `dure run` starts one of your own",
                "dure agent starts one; as root it serves all users",
            )
        ]
    except DureError as error:
        return None, [Finding("fail", "agent", error.what, error.remedy)]
    agent = status.agent
    told = (
        f"version {agent.version}, pid {agent.pid}, {agent.sharing}, "
        f"{len(status.gpus)} GPU{'s' * (len(status.gpus) != 1)}, "
        f"{len(status.tenants)} tenant{'s' * (len(status.tenants) != 1)}"
    )
    if agent.version != __version__:
        return status, [
            Finding(
                "warn",
                "agent",
                f"{told}; this is version {__version__}",
                "restart it: tenants keep running, and it remembers them",
            )
        ]
    return status, [Finding("ok", "agent", told)]


def check_others(nvml: dict[str, Any], agent: "AgentStatus | None") -> Iterator[Finding]:
    """Programs on the GPUs that Dure does not manage: nothing can be promised against them."""
    if agent is not None:
        others = [f"{each.name} ({each.pid})" for each in agent.unmanaged]
    else:
        pids = {pid for gpu in nvml.get("gpus", []) for pid in gpu.get("processes", [])}
        others = [f"pid {pid}" for pid in sorted(pids)]
    if others:
        yield Finding(
            "warn",
            "others",
            f"not managed by Dure and on a GPU: {', '.join(others[:8])}"
            f"{f' and {len(others) - 8} more' if len(others) > 8 else ''}",
            "start them with `dure run --`, or no latency can be promised beside them",
        )
    elif not nvml.get("missing") and not nvml.get("crashed"):
        yield Finding("ok", "others", "every program on a GPU is a tenant, or there is none")


def check_environment() -> Iterator[Finding]:
    """Variables that change what a GPU does behind everybody's back."""
    share = os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
    if share:
        yield Finding(
            "warn",
            "environment",
            f"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={share} confines every MPS client for good",
            "unset it: Dure moves tenants between compute units as the load asks",
        )
    if os.environ.get("CUDA_LAUNCH_BLOCKING") == "1":
        yield Finding(
            "warn",
            "environment",
            "CUDA_LAUNCH_BLOCKING=1 makes every program wait for each of its kernels",
            "unset it, except to look for a bug",
        )


def check_risk(sharing: str) -> Iterator[Finding]:
    """What a crash of one tenant does to the others."""
    if sharing == "mps":
        yield Finding(
            "warn",
            "risk",
            "mps: all tenants share one server's fate; a SIGKILL that nobody announced, or a "
            "crash in mid-kernel, can end the other tenants' work with an error and leave the "
            "GPU unavailable for seconds",
            "end programs with SIGINT or SIGTERM, never with SIGKILL; `dure agent --sharing "
            "isolated` for tenants that do not trust one another",
        )
    else:
        yield Finding(
            "ok",
            "risk",
            "isolated: every tenant is a process of its own to the driver; killing one, at any "
            "moment, harms nobody else",
        )
