"""Runs an MPS daemon of our own, and sets the environment that its clients start with."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator

CONTROL = "nvidia-cuda-mps-control"
QUIT_LIMIT_S = 60


@contextlib.contextmanager
def mps_daemon() -> Iterator[None]:
    """Every process started meanwhile will use it."""
    with tempfile.TemporaryDirectory() as folder:
        own = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        with environment(own):
            subprocess.run([CONTROL, "-d"], check=True)
            try:
                yield
            finally:
                subprocess.run(
                    [CONTROL], input="quit\n", text=True, timeout=QUIT_LIMIT_S, check=False
                )


@contextlib.contextmanager
def environment(extra: dict[str, str]) -> Iterator[None]:
    before = {k: os.environ.get(k) for k in extra}
    os.environ.update(extra)
    try:
        yield
    finally:
        for k, v in before.items():
            if v is None:
                del os.environ[k]
            else:
                os.environ[k] = v
