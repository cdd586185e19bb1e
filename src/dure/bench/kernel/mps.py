"""Runs an MPS daemon of our own for the length of a bench."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from dure.domain.errors import DureError

CONTROL = "nvidia-cuda-mps-control"
START_LIMIT_S = 30
QUIT_LIMIT_S = 60
_ADVICE = "see control.log in its folder, and `dure doctor`"


class MpsError(DureError):
    """The daemon did not start."""


def mps_environment(folder: Path) -> dict[str, str]:
    """What its daemon and its clients start with."""
    return {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}


@contextlib.contextmanager
def mps_daemon(folder: Path, environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """The environment of its clients, for as long as it runs."""
    folder.mkdir(parents=True, exist_ok=True)
    own = mps_environment(folder)
    _start({**environment, **own})
    try:
        yield own
    finally:
        # One that does not quit is the next one's trouble, which says so; what was measured stands.
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [CONTROL],
                input="quit\n",
                text=True,
                timeout=QUIT_LIMIT_S,
                check=False,
                env={**environment, **own},
                stdout=subprocess.DEVNULL,
            )


def _start(environment: dict[str, str]) -> None:
    try:
        done = subprocess.run(
            [CONTROL, "-d"],
            check=False,
            env=environment,
            timeout=START_LIMIT_S,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MpsError(f"no MPS daemon could be started ({error})", _ADVICE) from error
    if done.returncode != 0:
        raise MpsError(f"the MPS daemon ended with code {done.returncode} as it started", _ADVICE)
