"""Where the containers run: this machine's GPU or the emulator, and what that asks of them.

Images are made here, of empty folders: a container sees the host's programs and driver read-only,
so nothing has to be fetched and nothing differs from the host.
"""

import contextlib
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dure.bench.common.machine import emulated_machine, gpu_machine
from dure.bench.node.sets import KERNEL_S
from dure.devices import library
from dure.domain.errors import DureError
from dure.domain.units import MIB

IMAGE = "dure-bench"
_TAG = "host"
_FOLDERS = ("usr", "opt", "etc", "tmp", "proc", "sys", "dev", "run", "var", "root")
_LINKS = ("bin", "lib", "lib64", "sbin")
_SHOWN = ("/usr", "/opt", "/etc")
_DEVICES = ("nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
_DRIVER = "libcuda.so.1"
_DRIVER_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/local/nvidia/lib64",
    "/usr/lib64",
    "/usr/lib/aarch64-linux-gnu",
)

_SMALLER = 64
"""Emulated matrices have so many times fewer rows, as their bytes are real memory here; what the
full-sized ones take is held beside them, unused."""
_MATRICES, _FLOAT_BYTES = 3, 4
_EMULATED_SMS = 8
"""Few enough that the smallest of these products fills them, as a full-sized one does an H200."""
_PAGEABLE_GB_S = 11.0
"""What a copy from ordinary memory reaches on an H200."""
_CONTEXT_S = 0.4
"""What a process takes for its CUDA context on an H200 while others do the same."""
_BROKER_IDLE_S = 3600
_PROBE_LIMIT_S = 60.0


class BedError(DureError):
    """The GPU or the emulator does not work."""


@dataclass(frozen=True, slots=True)
class Bed:
    """Everything that depends on where the containers run."""

    machine: dict[str, Any]
    environment: Mapping[str, str]
    """Of the containers' programs, and of an agent that looks after them."""
    folders: tuple[tuple[str, bool], ...]
    """Shown in the container at the same place; whether read-only."""
    devices: tuple[str, ...] = ()
    scale: float = 1.0
    """How long things take, of what they take on an H200; 1 on a real GPU."""
    turns_per_us: int = 0
    marks: Mapping[str, str] = field(default_factory=dict)
    """Variables by which a container is known to have a GPU where no device tells it."""

    @property
    def emulated(self) -> bool:
        return bool(self.machine.get("emulated"))

    def scaled(self, value: float) -> float:
        """Seconds or steps, as many as this GPU is to take."""
        return value * self.scale

    def matmul(self, size: int) -> tuple[str, ...]:
        """Arguments of a product; an emulated one is small, and lasts and holds as stated."""
        if not self.emulated:
            return ("matmul", "--size", str(size))
        work_us = round(1e6 * self.scaled(KERNEL_S[size]))
        held_mib = _MATRICES * size**2 * _FLOAT_BYTES // MIB
        words = ("matmul", "--size", str(size // _SMALLER), "--work-us", str(work_us))
        return (*words, "--memory-mib", str(held_mib))

    def options(self, barrier: Path) -> dict[str, Any]:
        """What `docker create` needs besides a command."""
        shown = [*((folder, True) for folder in _SHOWN), *self.folders, (str(barrier), False)]
        return {
            "network_mode": "none",
            "volumes": [
                f"{folder}:{folder}{':ro' if read_only else ''}" for folder, read_only in shown
            ],
            "devices": list(self.devices),
            "environment": {**self.environment, **self.marks, "HOME": "/tmp"},
        }


def tenant_program() -> str:
    """The program that the containers run."""
    return str(library.path("dure-tenant"))


def make_image(client: Any) -> str:
    """Put the image of empty folders into the daemon; its name."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in _FOLDERS:
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o777 if name == "tmp" else 0o755
            tar.addfile(folder)
        for name in _LINKS:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(link)
    client.api.import_image_from_data(buffer.getvalue(), repository=IMAGE, tag=_TAG)
    return f"{IMAGE}:{_TAG}"


@contextlib.contextmanager
def real_bed(scratch: Path) -> Iterator[Bed]:
    """This machine's GPU."""
    machine = gpu_machine()
    cache = scratch / "cache"
    cache.mkdir()
    driver = _driver_folders()
    folders = [str(library.FOLDER), str(cache)]
    folders += [place for place in driver if not place.startswith(_SHOWN)]
    bed = Bed(
        machine,
        # Kernels compiled once serve all containers, as those of a compiled program would.
        {"LD_LIBRARY_PATH": ":".join(driver), "CUDA_CACHE_PATH": str(cache)},
        tuple((place, place != str(cache)) for place in folders if not place.startswith(_SHOWN)),
        tuple(f"/dev/{name}" for name in _DEVICES if Path("/dev", name).exists()),
    )
    yield _calibrated(bed)


@contextlib.contextmanager
def emulated_bed(scratch: Path, scale: float) -> Iterator[Bed]:
    """One emulated GPU whose broker runs outside the containers, so that it sees their PIDs."""
    folder = scratch / "emulator"
    folder.mkdir()
    link_gb_s = _PAGEABLE_GB_S / _SMALLER**2 / scale
    words: dict[str, object] = {"gpus": 1, "sms": _EMULATED_SMS, "mode": "timeslice"}
    words |= {"idle_exit_s": _BROKER_IDLE_S, "link_gb_s": link_gb_s}
    words |= {"context_ms": 1e3 * _CONTEXT_S * scale}
    config = "\n".join(f"{key}={value}" for key, value in words.items())
    (folder / "config").write_text(config + "\n", encoding="utf-8")
    broker = library.path("emulator/dure-broker")
    environment = {
        "LD_LIBRARY_PATH": str(broker.parent),
        "DURE_EMULATOR_DIR": str(folder),
        "DURE_EMULATOR_BROKER": str(broker),
    }
    process = subprocess.Popen([str(broker)], env={**os.environ, **environment})
    try:
        yield _calibrated(
            Bed(
                emulated_machine(),
                environment,
                ((str(library.FOLDER), True), (str(folder), False)),
                scale=scale,
                marks={"NVIDIA_VISIBLE_DEVICES": "all"},
            )
        )
    finally:
        process.terminate()
        process.wait()


def _driver_folders() -> list[str]:
    """Folders with the driver's libraries, best first."""
    named = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    found = [
        place for place in (*named, *_DRIVER_FOLDERS) if place and Path(place, _DRIVER).exists()
    ]
    if not found:
        said = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False)
        paths = [line.rpartition("=> ")[2] for line in said.stdout.splitlines() if _DRIVER in line]
        found = [str(Path(path).parent) for path in paths]
    if not found:
        raise BedError(f"{_DRIVER} is nowhere", "name its folder in LD_LIBRARY_PATH")
    return list(dict.fromkeys(found))


def _calibrated(bed: Bed) -> Bed:
    """With the speed of the spin loop, measured alone; a product is compiled on the way."""
    environment = {**os.environ, **bed.environment}
    found: dict[str, Any] = {}
    for words in (("matmul", "--size", "64", "--work-us", "100"), ("calibrate",)):
        done = subprocess.run(
            [tenant_program(), *words, "--json"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_PROBE_LIMIT_S,
            check=False,
        )
        if done.returncode != 0:
            raise BedError(f"no program runs on the GPU ({done.stderr.strip()})", "`dure doctor`")
        found = json.loads(done.stdout)
    return replace(bed, turns_per_us=int(found["turns_per_us"]))
