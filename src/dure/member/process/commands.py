"""How a program is run on a node of this host: its command line and what it finds around it."""

import os
import shutil
import socket
import sys
from collections.abc import Collection
from pathlib import Path

from dure.client.places import RUN_DIR_VARIABLE
from dure.client.report import CONTROL_VARIABLE, PROGRESS_VARIABLE
from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.decisions import InstanceId, Placement
from dure.domain.fleet.programs import Program
from dure.domain.fleet.protocol.desired import Desired
from dure.domain.fleet.slices import WHOLE_MILLI, SliceTemplate
from dure.domain.ids import ClusterId
from dure.member.ports import Start
from dure.member.process.folders import CommandLine, folder_of
from dure.member.process.nodes import Node, Nodes

_EMULATOR_VARIABLE = "DURE_EMULATOR_DIR"
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
"""What programs get of the member's own environment; its secrets are not among it."""
_JOB_LETTERS = 16
"""Of a job's id in the name of its tenant, which may not be long; the last ones are chance."""
_DURE = (sys.executable, "-c", "from dure.cli.main import main; main()")
_HOST = "127.0.0.1"


def refusal(desired: Desired) -> str:
    """Why a program can never run as a process of this host; empty: it can."""
    program = desired.program
    argv = (*program.command, *program.args)
    said = ""
    if program.image:
        said = "a cluster of processes runs commands of its host, not images"
    elif not argv:
        said = "it names no command"
    elif program.things:
        said = "a cluster of processes has no secrets, config maps or volumes"
    elif program.pod:
        said = "a cluster of processes has no Pods"
    elif program.working_dir and not Path(program.working_dir).is_dir():
        said = f"there is no folder '{program.working_dir}' on this host"
    elif not _is_there(argv[0], program):
        said = f"there is no program '{argv[0]}' on this host"
    return said


def _is_there(name: str, program: Program) -> bool:
    path = program.env.get("PATH", os.environ.get("PATH"))
    if os.sep in name:
        name = str(Path(program.working_dir or "/") / name)
    return shutil.which(name, path=path) is not None


def free_port(wanted: int | None = None, taken: Collection[int] = ()) -> int:
    """A port nobody listens at, nor will who was just given it; the wanted one if it is free."""
    while True:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_HOST, 0 if wanted in taken else wanted or 0))
            except OSError:
                probe.bind((_HOST, 0))
            port = int(probe.getsockname()[1])
        if port not in taken:
            return port


def command_line(
    cluster: ClusterId,
    nodes: Nodes,
    root: Path,
    start: Start,
    meeting_port: int,
    taken: Collection[int] = (),
) -> CommandLine:
    """How an instance is run on its node; `taken`: ports that others have."""
    desired, node = start.desired, nodes.node(start.node)
    assert node is not None
    program = desired.program
    port = free_port(program.port, taken) if program.port is not None else None
    env = {name: os.environ[name] for name in _KEPT if name in os.environ}
    env |= dict(node.env) | dict(program.env)
    env |= _devices(node, start) | emulator(node)
    env |= {
        "DURE_JOB": str(start.instance.workload),
        "DURE_ATTEMPT": str(start.instance.attempt),
        "DURE_RANK": str(start.rank),
        "DURE_WORLD_SIZE": str(start.world_size),
        "DURE_CLUSTER": str(cluster),
        "DURE_NODE": start.node,
        "DURE_SHARE": f"{start.placement.compute_milli / WHOLE_MILLI:g}",
        PROGRESS_VARIABLE: str(folder_of(root, start.instance).progress),
        CONTROL_VARIABLE: str(folder_of(root, start.instance).control),
        "MASTER_ADDR": _HOST,
        "MASTER_PORT": str(meeting_port),
    }
    if port is not None:
        env["DURE_PORT"] = str(port)
    argv = (*program.command, *program.args)
    if node.run_dir:
        env[RUN_DIR_VARIABLE] = node.run_dir
        argv = (*_as_tenant(nodes, node, start), *argv)
    return CommandLine(argv, env, program.working_dir, port)


def _devices(node: Node, start: Start) -> dict[str, str]:
    if not node.gpus or (node.run_dir and len(start.devices) == 1):
        return {}
    return {"CUDA_VISIBLE_DEVICES": ",".join(node.gpus[each] for each in start.devices)}


def emulator(node: Node) -> dict[str, str]:
    """What makes programs use a node's emulated GPU."""
    if not node.emulator_dir:
        return {}
    from dure.devices.library import FOLDER  # noqa: PLC0415, only where there is no GPU

    return {_EMULATOR_VARIABLE: node.emulator_dir, "LD_LIBRARY_PATH": str(FOLDER / "emulator")}


def tenant_name(instance: InstanceId) -> str:
    """What the agent of its node calls an instance."""
    job = str(instance.workload)[-_JOB_LETTERS:].lower()
    return f"{job}-{instance.attempt}-{instance.index}"


def template_of(nodes: Nodes, node: Node, placement: Placement) -> SliceTemplate:
    """The slice of a node's devices that a placement means."""
    profile = device_profile(nodes.group(node.group).profile)
    return profile.slice(placement.template or "whole")


def _as_tenant(nodes: Nodes, node: Node, start: Start) -> tuple[str, ...]:
    """Run it as a tenant of the node's agent, with the limits of its slice."""
    template = template_of(nodes, node, start.placement)
    line = [*_DURE, "run", "--quiet", "--tenant", tenant_name(start.instance)]
    if node.gpus and len(start.devices) == 1:
        line += ["--gpu", node.gpus[start.devices[0]]]
    if template.compute_milli < WHOLE_MILLI:
        line += ["--memory-limit", f"{template.memory_bytes}B"]
        line += ["--sm-share", f"{template.compute_milli / 10:g}%"]
    return (*line, "--")
