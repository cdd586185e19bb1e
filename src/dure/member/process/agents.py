"""Agents of the nodes whose slices are enforced: found, or started beside the member."""

import os
import subprocess
import sys
import time
from pathlib import Path

from dure.client.api import AgentUnreachableError, find_agent
from dure.domain.errors import DureError
from dure.member.process.commands import emulator
from dure.member.process.nodes import Node, Nodes

_START_S = 30.0
"""How long an agent may take until it answers."""
_LOOK_S = 0.05


def ensure_agents(nodes: Nodes) -> None:
    """See that every folder that nodes name has an agent. It outlives the member and all programs;
    one that `dure run` started would end with the first of them."""
    for run_dir, node in {node.run_dir: node for node in nodes.nodes if node.run_dir}.items():
        if not _answers(run_dir):
            _start(run_dir, node)


def _answers(run_dir: str) -> bool:
    try:
        with find_agent(Path(run_dir)) as client:
            client.status()
    except AgentUnreachableError:
        return False
    return True


def _start(run_dir: str, node: Node) -> None:
    folder = Path(run_dir)
    folder.mkdir(parents=True, exist_ok=True)
    log_file = folder / "agent.log"
    command = [sys.executable, "-m", "dure.agent", "--background"]
    command += ["--run-dir", str(folder.absolute()), "--log-file", str(log_file.absolute())]
    with log_file.open("ab") as log:
        subprocess.run(
            command,
            env={**os.environ, **emulator(node)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            cwd="/",
            check=False,
        )
    end = time.monotonic() + _START_S
    while not _answers(run_dir):
        if time.monotonic() > end:
            raise DureError(f"no agent answers in {run_dir}", f"look into {log_file}")
        time.sleep(_LOOK_S)
