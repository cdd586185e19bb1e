"""Runs an MPS daemon of our own for the length of a bench."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

CONTROL = "nvidia-cuda-mps-control"
QUIT_LIMIT_S = 60


def mps_environment(folder: Path) -> dict[str, str]:
    """What its daemon and its clients start with."""
    return {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}


@contextlib.contextmanager
def mps_daemon(folder: Path, environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """The environment of its clients, for as long as it runs."""
    folder.mkdir(parents=True, exist_ok=True)
    own = mps_environment(folder)
    subprocess.run([CONTROL, "-d"], check=True, env={**environment, **own})
    try:
        yield own
    finally:
        subprocess.run(
            [CONTROL],
            input="quit\n",
            text=True,
            timeout=QUIT_LIMIT_S,
            check=False,
            env={**environment, **own},
            stdout=subprocess.DEVNULL,
        )
