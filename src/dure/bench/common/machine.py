"""The machine a bench ran on: its GPU, or that it was emulated; date and host."""

import datetime
import subprocess
from pathlib import Path
from typing import Any

from dure.bench.common.shelf import MACHINE, Shelf
from dure.domain.errors import InputError
from dure.kit.host import describe_host

_QUERY = ("name", "driver_version", "memory.total", "uuid")


def gpu_machine() -> dict[str, Any]:
    """The GPU of this machine; refuses where there is none."""
    command = ["nvidia-smi", f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader", "--id=0"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(
            "this bench needs an NVIDIA GPU, and nvidia-smi finds none here",
            "run it on a machine with one, or try the bench itself with --emulated",
        ) from error
    values = [part.strip() for part in said.stdout.strip().split(",")]
    found = dict(zip(("gpu", "driver", "memory", "uuid"), values, strict=False))
    return {**found, **_when_and_where()}


def emulated_machine() -> dict[str, Any]:
    """A machine whose GPU is the emulator."""
    return {"gpu": "emulated", "emulated": True, **_when_and_where()}


def machine_of(folder: Path) -> dict[str, Any]:
    """The machine the shards of a folder were made on."""
    for path in sorted(folder.glob(f"*/{MACHINE}.json")):
        found = Shelf(path.parent).noted(MACHINE)
        if found:
            return found
    return {}


def machine_words(machine: dict[str, Any]) -> str:
    """The machine in one line."""
    parts = [str(machine.get("gpu", "an unknown GPU"))]
    keys = ("driver", "cuda", "torch", "cudnn", "docker")
    parts += [f"{key} {machine[key]}" for key in keys if machine.get(key)]
    return ", ".join(parts)


def _when_and_where() -> dict[str, str]:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {"date": today, "host": describe_host()}
